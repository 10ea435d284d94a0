"""Reads a call (kernels/device/protocol/call.h): the name of an operator, and its values."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from ms_ascend_ops.device.operators.memory import Tensor, read_scalar

__all__ = ["read_call"]

_COUNT = struct.Struct("<I")
_INT = struct.Struct("<q")
_REAL = struct.Struct("<d")
_TENSOR = struct.Struct("<QiqI")
_SCALAR = struct.Struct("<i16s")


def read_call(data: bytes) -> tuple[str, list[Any]]:
    """Read the name and the values of a call: None, a Tensor, a list of them, a number, a list of numbers, a
    text or bytes.
    """
    reader = _Reader(data)
    name = reader.text().decode()
    (count,) = reader.take(_COUNT)
    return name, [reader.value() for _ in range(count)]


class _Reader:
    """Keeps where a call has been read up to."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def take(self, form: struct.Struct) -> tuple[Any, ...]:
        values = form.unpack_from(self.data, self.at)
        self.at += form.size
        return values

    def value(self) -> Any:
        kind = self.data[self.at]
        self.at += 1
        return _KINDS[kind](self)

    def tensor(self) -> Tensor:
        address, code, offset, rank = self.take(_TENSOR)
        sizes = struct.unpack_from(f"<{2 * rank}qQ", self.data, self.at)
        self.at += (2 * rank + 1) * 8
        return Tensor(address, code, offset, sizes[:rank], sizes[rank : 2 * rank], sizes[-1])

    def numbers(self, kind: str) -> list[Any]:
        (count,) = self.take(_COUNT)
        values = struct.unpack_from(f"<{count}{kind}", self.data, self.at)
        self.at += count * 8
        return list(values)

    def text(self) -> bytes:
        (size,) = self.take(_COUNT)
        self.at += size
        return bytes(self.data[self.at - size : self.at])


def _tensors(reader: _Reader) -> Iterator[Tensor]:
    (count,) = reader.take(_COUNT)
    return (reader.tensor() for _ in range(count))


# By the numbers of call.h.
_KINDS = (
    lambda reader: None,
    _Reader.tensor,
    lambda reader: list(_tensors(reader)),
    lambda reader: reader.take(_INT)[0],
    lambda reader: reader.take(_REAL)[0],
    lambda reader: read_scalar(*reader.take(_SCALAR)),
    lambda reader: reader.numbers("q"),
    lambda reader: reader.numbers("d"),
    lambda reader: reader.text().decode(),
    _Reader.text,
)
