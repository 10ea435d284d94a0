"""Memory of the emulated device and of the host, and copies."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint64, c_void_p, create_string_buffer
from mmap import mmap

import numpy as np
import pytest

from tests.device.acl import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Acl, AclError

MEMORY = 1 << 30  # of the device, see acl.py
PAGE = 4096


@contextmanager
def fails(text: str, code: int) -> Iterator[None]:
    with pytest.raises(AclError, match=text) as error:
        yield
    assert error.value.code == code


def physical(acl: Acl, size: int) -> c_void_p:
    handle, properties = c_void_p(), struct.pack("<iiiIiiQ", 0, 0, 4, 0, 1, 0, 0)
    acl.MallocPhysical(byref(handle), c_size_t(size), c_char_p(properties), c_uint64(0))
    return handle


@pytest.mark.parametrize("size", [1, 31, 512, PAGE, PAGE + 1, 3 << 20])
def test_round_trip(acl: Acl, size: int):
    x = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    address = acl.put(x)
    assert address % 512 == 0
    np.testing.assert_array_equal(acl.get(address, x), x)
    acl.free(address)


def test_kinds_of_allocation(acl: Acl):
    for name, rest in (("MallocAlign32", (0,)), ("MallocCached", (0,)), ("MallocWithCfg", (0, None))):
        address = c_void_p()
        getattr(acl, name)(byref(address), c_size_t(64), *rest)
        acl.free(address.value)
    with fails("size must not be 0", 100000):
        acl.malloc(0)


def test_out_of_memory(acl: Acl):
    before = acl.free_bytes()
    with fails(f"out of memory: device 0 has {MEMORY} bytes, of which [0-9]+ are in use; {MEMORY + 1} more", 207001):
        acl.malloc(MEMORY + 1)
    blocks = [acl.malloc(before // 4 // PAGE * PAGE) for _ in range(4)]
    with fails("out of memory", 207001):
        acl.malloc(before // 4)
    for block in blocks:
        acl.free(block)
    assert acl.free_bytes() == before


def test_addresses_come_again_late_and_empty(acl: Acl):
    x = np.full(PAGE, 7, np.uint8)
    first = acl.put(x)
    acl.free(first)
    second = acl.malloc(PAGE)
    assert second != first
    assert not acl.get(second, x).any()
    acl.free(second)


def test_wrong_frees(acl: Acl):
    address = acl.malloc(100)
    with fails("aclrtFree: .* is 8 bytes into the 100 bytes that aclrtMalloc gave", 107000):
        acl.free(address + 8)
    acl.free(address)
    with fails("aclrtFree: .* is memory that was freed: 0 bytes into the 100 bytes", 107000):
        acl.free(address)
    with fails("is not a device's address", 107000):
        acl.free(np.zeros(1).ctypes.data)
    with fails("devPtr must not be null", 100000):
        acl.Free(None)


def test_copies_past_an_allocation(acl: Acl):
    x, address = np.zeros(101, np.uint8), acl.malloc(100)
    with fails(r"101 bytes from 0x\w+ on go 1 byte past the 100 bytes that aclrtMalloc gave", 107000):
        acl.copy(address, x, 101)
    with fails("go 1 byte past the 100 bytes", 107000):
        acl.copy(x, address, 101, DEVICE_TO_HOST, acl.stream())
    with fails("go 1 byte past the 100 bytes", 107000):
        acl.Memset(c_void_p(address + 50), c_size_t(100), 0, c_size_t(51))
    with fails("0 bytes behind the end of the 100 bytes", 107000):
        acl.copy(x, address + 100, 1)
    with fails("8 bytes do not fit into the 4 bytes", 100000):
        acl.Memcpy(c_void_p(address), c_size_t(4), c_void_p(x.ctypes.data), c_size_t(8), 1)
    acl.free(address)
    with fails("memory that was freed", 107000):
        acl.copy(address, x, 4)


def test_kind_of_a_copy_in_a_stream(acl: Acl):
    x, stream = np.zeros(8, np.uint8), acl.stream()
    address = acl.put(x)
    with fails("kind 2 copies from device to host, but the addresses are from host to device", 107000):
        acl.copy(address, x, 8, DEVICE_TO_HOST, stream)
    with fails("kind must be an aclrtMemcpyKind, got 9", 100000):
        acl.copy(address, x, 8, 9, stream)
    acl.copy(address, x, 8, DEVICE_TO_HOST)  # a synchronous one looks at the addresses only, as CANN's


def test_host_address_that_is_not_there(acl: Acl):
    address = acl.malloc(PAGE)
    with fails("the host address is not memory of this process", 107000):
        acl.copy(address, 64, 8)
    with fails("the host address is not memory of this process", 107000):
        acl.copy(64, address, 8, DEVICE_TO_HOST, acl.stream())


def test_rows(acl: Acl):
    x = np.arange(48, dtype=np.uint8).reshape(4, 12)
    address, stream = acl.put(np.full(4 * 16, 99, np.uint8)), acl.stream()
    rows = [c_void_p(address), c_size_t(16), c_void_p(x.ctypes.data), c_size_t(12), c_size_t(10), c_size_t(4)]
    acl.Memcpy2d(*rows, HOST_TO_DEVICE)
    expected = np.full((4, 16), 99, np.uint8)
    expected[:, :10] = x[:, :10]
    np.testing.assert_array_equal(acl.get(address, expected), expected)
    y = np.zeros((4, 12), np.uint8)
    back = [c_void_p(y.ctypes.data), c_size_t(12), c_void_p(address), c_size_t(16), c_size_t(10), c_size_t(4)]
    acl.Memcpy2dAsync(*back, DEVICE_TO_HOST, stream)
    acl.SynchronizeStream(stream)
    np.testing.assert_array_equal(y[:, :10], x[:, :10])
    assert not y[:, 10:].any()
    with fails("go 6 bytes past the 64 bytes", 107000):
        acl.Memcpy2d(c_void_p(address + 12), *rows[1:], HOST_TO_DEVICE)


def test_overlapping_copy_within_the_device(acl: Acl):
    x, stream = np.arange(100, dtype=np.uint8), acl.stream()
    address = acl.put(x)
    acl.copy(address + 10, address, 90, DEVICE_TO_DEVICE, stream)
    acl.SynchronizeStream(stream)
    np.testing.assert_array_equal(acl.get(address, x)[10:], x[:90])


def test_sets(acl: Acl):
    address, stream = acl.malloc(64), acl.stream()
    acl.Memset(c_void_p(address), c_size_t(64), 255, c_size_t(64))
    acl.MemsetAsync(c_void_p(address), c_size_t(64), 3, c_size_t(32), stream)
    acl.SynchronizeStream(stream)
    assert acl.get(address, np.zeros(64, np.uint8)).tolist() == [3] * 32 + [255] * 32
    host = create_string_buffer(8)
    acl.Memset(host, c_size_t(8), 65, c_size_t(8))
    assert host.raw == b"A" * 8


def test_physical_memory_at_reserved_addresses(acl: Acl):
    size, before, x = 2 << 20, acl.free_bytes(), np.arange(1 << 20, dtype=np.int32)
    base, granularity = c_void_p(), c_size_t()
    acl.MemGetAllocationGranularity(None, 0, byref(granularity))
    assert granularity.value == size
    acl.ReserveMemAddress(byref(base), c_size_t(4 * size), c_size_t(0), None, c_uint64(0))
    assert acl.free_bytes() == before  # addresses only
    with fails("no memory mapped to it", 107000):
        acl.copy(base.value, x, 8)
    handles = [physical(acl, size) for _ in range(2)]
    assert acl.free_bytes() == before - 2 * size
    for i, handle in enumerate(handles):
        acl.MapMem(c_void_p(base.value + i * size), c_size_t(size), c_size_t(0), handle, c_uint64(0))
    with fails("already mapped", 107000):
        acl.MapMem(base, c_size_t(size), c_size_t(0), handles[1], c_uint64(0))
    acl.copy(base.value, x, x.nbytes)  # over both
    acl.call(None, "add", base.value + size - 8, 2, 1)
    acl.SynchronizeStream(None)
    expected = x.copy().view(np.int64)
    expected[size // 8 - 1 : size // 8 + 1] += 1
    np.testing.assert_array_equal(acl.get(base.value, x), expected.view(np.int32))
    with fails("memory is still mapped", 107000):
        acl.ReleaseMemAddress(base)
    # The memory goes with the handle: to another address.
    acl.UnmapMem(c_void_p(base.value + size))
    acl.MapMem(c_void_p(base.value + 3 * size), c_size_t(size), c_size_t(0), handles[1], c_uint64(0))
    np.testing.assert_array_equal(acl.get(base.value + 3 * size, x[: size // 4]), expected.view(np.int32)[size // 4 :])
    for handle in handles:
        acl.FreePhysical(handle)
    assert acl.free_bytes() == before - 2 * size  # while it is mapped
    acl.UnmapMem(base)
    acl.UnmapMem(c_void_p(base.value + 3 * size))
    assert acl.free_bytes() == before
    acl.ReleaseMemAddress(base)
    with fails("was not given", 107000):
        acl.ReleaseMemAddress(base)
    with fails("out of memory", 207001):
        physical(acl, MEMORY + 1)


def test_registered_host_memory_is_the_devices_too(acl: Acl):
    before, memory, address = acl.free_bytes(), mmap(-1, 2 * PAGE), c_void_p()
    x = np.frombuffer(memory, np.int64)
    x[:] = np.arange(1024)
    begin = c_void_p(x.ctypes.data)
    with fails("from the beginning of a page", 107000):
        acl.HostRegister(c_void_p(x.ctypes.data + 8), c_uint64(PAGE), 0, byref(address))
    acl.HostRegister(begin, c_uint64(PAGE), 0, byref(address))
    x[1] = 50
    acl.call(None, "add", address.value, 512, 1)
    acl.SynchronizeStream(None)
    expected = np.arange(1024)
    expected[1] = 50
    expected[:512] += 1
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(acl.get(address.value, x[:512]), expected[:512])
    with fails("aclrtFree: .* is 0 bytes into the 4096 bytes that aclrtHostRegister gave", 107000):
        acl.free(address.value)
    acl.HostUnregister(begin)
    np.testing.assert_array_equal(x, expected)
    with fails("memory that was freed", 107000):
        acl.get(address.value, x[:1])
    with fails("was not registered", 107000):
        acl.HostUnregister(begin)
    assert acl.free_bytes() == before


def test_where_an_address_is(acl: Acl):
    host = c_void_p()
    acl.MallocHost(byref(host), c_size_t(8))
    address, places = acl.malloc(8), []
    for pointer in (address, host.value, np.zeros(1).ctypes.data):
        attributes = (c_int32 * 8)()
        acl.PointerGetAttributes(c_void_p(pointer), attributes)
        places.append(attributes[1])
    assert places == [1, 0, 2]  # device, host, unregistered
    acl.FreeHost(host)
