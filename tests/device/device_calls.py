"""Calls that a device process computes in tests (MS_ASCEND_EMULATED_OPERATORS). It is quick to start: without NumPy."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import time


def call(name: str, *values: int) -> bytes:
    """The bytes of a call with integers."""
    return _call(name, [struct.pack("<Bq", 3, value) for value in values])


def vector_call(name: str, size: int, *addresses: int) -> bytes:
    """The bytes of a call with vectors of float32."""
    return _call(name, [_vector((address, size)) for address in addresses])


def kernel_call(
    name: str, row: int, blocks: int, key: int, tiling: bytes, workspace: int, size: int, *vectors
) -> bytes:
    """The bytes of a call of a kernel with vectors of float32: an address and a size, or None where it is absent."""
    integers = [struct.pack("<Bq", 3, value) for value in (row, blocks, key)]
    memory = [struct.pack("<Bq", 3, value) for value in (workspace, size)]
    values = [b"\x08" + _text(name.encode()), *integers, b"\x09" + _text(tiling), *memory]
    return _call("kernel", values + [_vector(vector) for vector in vectors])


def _call(name: str, values: list[bytes]) -> bytes:
    return _text(name.encode()) + struct.pack("<I", len(values)) + b"".join(values)


def _text(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _vector(vector: tuple[int, int] | None) -> bytes:
    if vector is None:
        return b"\0"
    address, size = vector
    return struct.pack("<BQiqIqqQ", 1, address, 0, 0, 1, size, 1, size)


def run(data: bytes) -> str | None:
    """What computes a call in the device process."""
    (size,) = struct.unpack_from("<I", data)
    values = [value for kind, value in struct.iter_unpack("<Bq", data[8 + size :])]  # integers only
    return _CALLS[data[4 : 4 + size].decode()](*values)


def _add(address: int, count: int, value: int) -> None:
    numbers = (ctypes.c_int64 * count).from_address(address)
    for i in range(count):
        numbers[i] += value


def _wait(address: int) -> None:
    number, until = ctypes.c_int64.from_address(address), time.monotonic() + 60  # for a test that has failed before
    number.value = -1  # it has begun
    while number.value != 1 and time.monotonic() < until:
        time.sleep(0.001)


def _read(address: int) -> None:
    ctypes.c_char.from_address(address).value  # noqa: B018 - it may fault


_CALLS = {
    "add": _add,  # to int64
    "sleep": lambda milliseconds: time.sleep(milliseconds / 1e3),
    "wait": _wait,  # until an int64 is 1
    "fail": lambda number: f"fail: number {number}",
    "read": _read,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "count": lambda *values: None if len(values) > 10000 else f"only {len(values)}",
}
