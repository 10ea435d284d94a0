"""The container format GGUF: keys with values, and tensors, read where they lie.

The layout is that of llama.cpp's description of GGUF, versions 2 and 3, little endian.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ms_ascend_ops.llm.checkpoints.quantized import GROUP, QuantizedMatrix

__all__ = ["GGUFFile", "GGUFTensor"]

Array = np.ndarray[Any, Any]

_STRING, _ARRAY = 8, 9
_SCALARS = dict(enumerate(["B", "b", "H", "h", "I", "i", "f", "?", "-", "-", "Q", "q", "d"]))
_FLOATS: Mapping[int, tuple[str, Any]] = {
    0: ("F32", np.dtype("<f4")),
    1: ("F16", np.dtype("<f2")),
    30: ("BF16", np.dtype(ml_dtypes.bfloat16)),
}
# Bytes of a block of 32 elements.
_BLOCKS = {2: ("Q4_0", 18), 3: ("Q4_1", 20), 8: ("Q8_0", 34)}
_OTHERS = {
    6: "Q5_0", 7: "Q5_1", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K",
    16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS",
}  # fmt: skip
_READABLE = "F32, F16, BF16, Q8_0, Q4_0 and Q4_1"
_MOST_DIMS = 4


@dataclass(frozen=True)
class GGUFTensor:
    """Where a tensor lies; the last dim of `shape` is that of consecutive elements."""

    name: str
    kind: int
    shape: tuple[int, ...]
    offset: int
    nbytes: int


class GGUFFile:
    """An open file.

    Raises:
        ValueError: it is no GGUF file, or ends too early; the message names the file and the tensor.
    """

    def __init__(self, path: Path):
        self.path = path
        self._bytes = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.empty(0, np.uint8)
        self._cursor = 0
        if self._bytes[:4].tobytes() != b"GGUF":
            raise ValueError(f"{path}: this is no GGUF file: it does not begin with GGUF")
        # All that comes before the tensors lies in memory while it is read: slices of a memmap are slow.
        self._head: memoryview = memoryview(self._bytes)  # type: ignore[arg-type]
        try:
            self._read_head()
        except (struct.error, IndexError, RecursionError) as error:
            raise ValueError(
                f"{path}: the file is truncated: it ends in its head, at {len(self._bytes)} bytes"
            ) from error
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: a string is no UTF-8, near byte {self._cursor}") from error

    def _read_head(self) -> None:
        self._cursor = 4
        version = self._number("I")
        if version not in (2, 3):
            raise ValueError(f"{self.path}: GGUF version must be 2 or 3, little endian, got {version}")
        tensors, pairs = self._number("Q"), self._number("Q")
        self.fields: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            if key in self.fields:
                raise ValueError(f"{self.path}: the key {key:.60} is there twice")
            self.fields[key] = self._value(self._number("I"))
        infos = [self._tensor_info() for _ in range(tensors)]
        alignment = self.fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError(f"{self.path}: general.alignment must be at least 1, got {alignment}")
        base = -(-self._cursor // alignment) * alignment
        self.tensors: dict[str, GGUFTensor] = {}
        for name, kind, shape, offset in infos:
            if name in self.tensors:
                raise ValueError(f"{self.path}: the tensor {name} is there twice")
            size = self._size(name, kind, shape)
            if base + offset + size > len(self._bytes):
                raise ValueError(
                    f"{self.path}: the file is truncated: tensor {name} ends at byte {base + offset + size}, the file "
                    f"has {len(self._bytes)}"
                )
            self.tensors[name] = GGUFTensor(name, kind, shape, base + offset, size)

    def _tensor_info(self) -> tuple[str, int, tuple[int, ...], int]:
        name = self._string()
        dims = self._number("I")
        if not 1 <= dims <= _MOST_DIMS:
            raise ValueError(f"{self.path}: tensor {name} must have 1 to {_MOST_DIMS} dims, got {dims}")
        shape = tuple(self._number("Q") for _ in range(dims))
        kind, offset = self._number("I"), self._number("Q")
        return name, kind, shape[::-1], offset

    def _size(self, name: str, kind: int, shape: tuple[int, ...]) -> int:
        count = math.prod(shape)
        if kind in _FLOATS:
            return count * int(_FLOATS[kind][1].itemsize)
        if kind not in _BLOCKS:
            raise ValueError(
                f"{self.path}: tensor {name} is quantized as {_OTHERS.get(kind, f'type {kind}')}; {_READABLE} can be "
                "read"
            )
        if shape[-1] % GROUP or len(shape) != 2:
            raise ValueError(
                f"{self.path}: tensor {name} of {_BLOCKS[kind][0]} must be a matrix with a multiple of {GROUP} "
                f"columns, got shape {shape}"
            )
        return count // GROUP * _BLOCKS[kind][1]

    def read(
        self, name: str, part_rows: slice = slice(None), part_columns: slice = slice(None)
    ) -> Array | QuantizedMatrix:
        """The tensor, or a part of it: floats where they lie in the file, or quantized as they are.

        Raises:
            ValueError: the columns begin or end within a block of a quantized matrix.
        """
        tensor = self.tensors[name]
        data: Array = np.asarray(self._bytes[tensor.offset : tensor.offset + tensor.nbytes])
        if tensor.kind in _FLOATS:
            floats: Array = data.view(_FLOATS[tensor.kind][1]).reshape(tensor.shape)
            return floats[part_rows] if floats.ndim == 1 else floats[part_rows, part_columns]
        rows, columns = tensor.shape
        kind, size = _BLOCKS[tensor.kind]
        first, end, _ = part_columns.indices(columns)
        if first % GROUP or end % GROUP:
            raise ValueError(f"columns {first} to {end} would cut a group of {GROUP} that has one scale")
        blocks = data.reshape(rows, columns // GROUP, size)[part_rows, first // GROUP : end // GROUP]
        rows = len(blocks)
        scale = np.ascontiguousarray(blocks[..., :2]).view("<f2")[..., 0]
        if kind == "Q8_0":
            return QuantizedMatrix(np.ascontiguousarray(blocks[..., 2:]).view(np.int8).reshape(rows, -1), scale, None)
        if kind == "Q4_0":
            return QuantizedMatrix(_repacked(blocks[..., 2:]), scale, scale * np.float16(-8))
        minimum = np.ascontiguousarray(blocks[..., 2:4]).view("<f2")[..., 0]
        return QuantizedMatrix(_repacked(blocks[..., 4:]), scale, minimum)

    def _number(self, form: str) -> Any:
        form = "<" + form
        (value,) = struct.unpack_from(form, self._head, self._cursor)
        self._cursor += struct.calcsize(form)
        return value

    def _string(self) -> str:
        size = self._number("Q")
        end = self._cursor + size
        if end > len(self._head):
            raise IndexError
        text = str(self._head[self._cursor : end], "utf-8")
        self._cursor = end
        return text

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, count = self._number("I"), self._number("Q")
            if inner == _STRING:
                return [self._string() for _ in range(count)]
            if inner == _ARRAY:
                return [self._value(inner) for _ in range(count)]
            form = f"<{count}{self._scalar(inner)}"
            if self._cursor + struct.calcsize(f"<{self._scalar(inner)}") * count > len(self._head):
                raise IndexError
            values = list(struct.unpack_from(form, self._head, self._cursor))
            self._cursor += struct.calcsize(form)
            return values
        return self._number(self._scalar(kind))

    def _scalar(self, kind: int) -> str:
        form = _SCALARS.get(kind, "-")
        if form == "-":
            raise ValueError(f"{self.path}: a value has the unknown type {kind}, near byte {self._cursor}")
        return form


def _repacked(halves: Array) -> Array:
    """From byte i with the elements i and i + 16 of a block, to byte i with the elements 2 i and 2 i + 1."""
    low, high = halves & 15, halves >> 4
    packed = np.empty_like(low)
    packed[..., :8] = low[..., 0::2] | low[..., 1::2] << 4
    packed[..., 8:] = high[..., 0::2] | high[..., 1::2] << 4
    return packed.reshape(len(packed), -1)
