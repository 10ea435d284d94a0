"""libascendcl and the device process, without MindSpore: what a C program that calls ACL sees."""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import c_size_t, c_void_p

import numpy as np
import pytest

from tests.device.acl import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, Acl, AclError


@pytest.fixture(scope="module")
def acl() -> Iterator[Acl]:
    acl = Acl()
    acl.aclInit(None)
    acl.SetDevice(0)
    yield acl
    acl.ResetDevice(0)
    acl.aclFinalize()


def test_copies_in_stream_order(acl: Acl) -> None:
    x = np.arange(1000, dtype=np.float32)
    first, second, stream = acl.put(x), acl.malloc(x.nbytes), acl.stream()
    acl.copy(second, first, x.nbytes, DEVICE_TO_DEVICE, stream)
    acl.MemsetAsync(c_void_p(first), c_size_t(x.nbytes), 0, c_size_t(x.nbytes), stream)
    there = np.full_like(x, -1)
    acl.copy(there, second, x.nbytes, DEVICE_TO_HOST, stream)
    acl.SynchronizeStream(stream)
    np.testing.assert_array_equal(there, x)
    np.testing.assert_array_equal(acl.get(first, x), np.zeros_like(x))
    acl.DestroyStream(stream)
    acl.free(first)
    acl.free(second)


def test_copy_past_an_allocation(acl: Acl) -> None:
    address = acl.malloc(100)
    with pytest.raises(AclError, match=r"101 bytes from 0x.* on go 1 byte past the 100 bytes that aclrtMalloc gave"):
        acl.copy(address, np.zeros(101, np.uint8), 101, HOST_TO_DEVICE)
    acl.free(address)
    with pytest.raises(AclError, match="memory that was freed: 0 bytes into the 100 bytes"):
        acl.copy(address, np.zeros(4, np.uint8), 4, HOST_TO_DEVICE)


def test_events_across_streams(acl: Acl) -> None:
    x = np.arange(1 << 20, dtype=np.int32)
    first, second, event = acl.stream(), acl.stream(), acl.event()
    source, target, there = acl.malloc(x.nbytes), acl.malloc(x.nbytes), np.zeros_like(x)
    acl.copy(source, x, x.nbytes, HOST_TO_DEVICE, first)
    acl.RecordEvent(event, first)
    acl.StreamWaitEvent(second, event)
    acl.copy(target, source, x.nbytes, DEVICE_TO_DEVICE, second)
    acl.copy(there, target, x.nbytes, DEVICE_TO_HOST, second)
    acl.SynchronizeStream(second)
    assert acl.event_status(event) == 1
    np.testing.assert_array_equal(there, x)


def test_failed_call_is_told_by_the_next_synchronisation(acl: Acl) -> None:
    stream, name = acl.stream(), b"aclnnUnheardOf"
    call = len(name).to_bytes(4, "little") + name + bytes(4)
    acl.MsAscendDeviceCall(stream, call, c_size_t(len(call)))
    with pytest.raises(AclError, match="aclnnUnheardOf") as error:
        acl.SynchronizeStream(stream)
    assert error.value.code == 507015
    acl.SynchronizeStream(stream)


def test_out_of_memory(acl: Acl) -> None:
    with pytest.raises(AclError, match="out of memory: device 0 has") as error:
        acl.malloc(1 << 45)
    assert error.value.code == 207001
