"""Reads the container format GGUF where it lies: keys with values, and tensors.

The layout is that of llama.cpp's description of GGUF, versions 2 and 3, little endian.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.gguf_types import (
    FLOATS,
    floats_of,
    matrix_of,
    readable,
    stays_quantized,
    type_name,
    type_size,
)
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix

__all__ = ["GGUFFile", "GGUFTensor"]

Array = np.ndarray[Any, Any]

_STRING, _ARRAY = 8, 9
_SCALARS = dict(enumerate(["B", "b", "H", "h", "I", "i", "f", "?", "-", "-", "Q", "q", "d"]))
_MOST_DIMS = 4


@dataclass(frozen=True)
class GGUFTensor:
    """Describes a tensor and its bytes in the file; the last dim of `shape` is that of consecutive elements."""

    name: str
    kind: str
    shape: tuple[int, ...]
    data: Array

    @property
    def rows(self) -> int:
        """Return how many rows there are: of several matrices those of all, of a vector its elements."""
        return self.shape[0] if len(self.shape) == 1 else math.prod(self.shape[:-1])

    def read(self, rows: slice = slice(None), columns: slice = slice(None)) -> Array | QuantizedMatrix:
        """Read the numbers, or a part of them: floats where they lie in the file, or quantized as they are.

        Raises:
            ValueError: the columns begin or end within a group of a quantized matrix.
        """
        if self.kind in FLOATS:
            floats: Array = self.data.view(FLOATS[self.kind])
            return floats[rows] if len(self.shape) == 1 else floats.reshape(self.rows, -1)[rows, columns]
        data = self.data.reshape(self.rows, -1)[rows]
        if stays_quantized(self.kind):
            return matrix_of(self.kind, data).part(slice(None), columns)
        return floats_of(self.kind, data)[:, columns]


class GGUFFile:
    """Holds an open file, with the tensors of all parts if it is the first of several.

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
        self._read_others()

    def _read_others(self) -> None:
        """Read the tensors of the parts behind the first, which gguf-split names by their numbers."""
        count, number = self.fields.get("split.count", 0), self.fields.get("split.no", 0)
        if count in (0, 1) or number != 0:
            return
        if not isinstance(count, int):
            raise ValueError(f"{self.path}: split.count must be one int, got {count!r:.60}")
        name, ending = self.path.name, f"-00001-of-{count:05}.gguf"
        if not name.endswith(ending):
            raise ValueError(f"{self.path}: split.count is {count}, but the name does not end with {ending}")
        for part in range(2, count + 1):
            path = self.path.with_name(f"{name.removesuffix(ending)}-{part:05}-of-{count:05}.gguf")
            if not path.is_file():
                raise ValueError(f"{path}: the file is missing; it is part {part} of {count} of {name}")
            other = GGUFFile(path)
            if (twice := other.tensors.keys() & self.tensors.keys()) or other.fields.get("split.no") != part - 1:
                what = f"the tensor {min(twice)} is there twice" if twice else f"split.no must be {part - 1}"
                raise ValueError(f"{path}: {what}")
            self.tensors |= other.tensors

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
            data: Array = np.asarray(self._bytes[base + offset : base + offset + size])
            self.tensors[name] = GGUFTensor(name, type_name(kind), shape, data)

    def _tensor_info(self) -> tuple[str, int, tuple[int, ...], int]:
        name = self._string()
        dims = self._number("I")
        if not 1 <= dims <= _MOST_DIMS:
            raise ValueError(f"{self.path}: tensor {name} must have 1 to {_MOST_DIMS} dims, got {dims}")
        shape = tuple(self._number("Q") for _ in range(dims))
        kind, offset = self._number("I"), self._number("Q")
        return name, kind, shape[::-1], offset

    def _size(self, name: str, kind: int, shape: tuple[int, ...]) -> int:
        its = type_name(kind)
        if its not in readable():
            raise ValueError(f"{self.path}: tensor {name} has the type {its}; {', '.join(readable())} can be read")
        elements, size = type_size(kind)
        if elements > 1 and (shape[-1] % elements or len(shape) not in (2, 3)):
            raise ValueError(
                f"{self.path}: tensor {name} of {its} must be a matrix, or several, with a multiple of {elements} "
                f"columns, got shape {shape}"
            )
        return math.prod(shape) // elements * size

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
