"""Reads files of safetensors where they lie, and writes them tensor by tensor."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["Place", "SafetensorsFile", "write_safetensors"]

Array = np.ndarray[Any, Any]

_DTYPES: Mapping[str, Any] = {
    "F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype(ml_dtypes.bfloat16), "F64": np.dtype("<f8"),
    "I8": np.dtype("i1"), "U8": np.dtype("u1"), "I16": np.dtype("<i2"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"),
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MOST_DIMS = 32
_MOST_HEADER = 100_000_000  # bytes, as in the reference implementation


@dataclass(frozen=True)
class Place:
    """Says where a tensor of a file lies."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    first: int
    end: int


class SafetensorsFile:
    """Reads an open file.

    Raises:
        ValueError: it is no such file, or ends too early; the message names the file and the tensor.
    """

    def __init__(self, path: Path):
        self.path = path
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(_MOST_HEADER, size - 8):
                raise ValueError(f"{path}: this is no safetensors file, or it is truncated: it has {size} bytes")
            head = file.read(length)
        try:
            entries = json.loads(head)
            entries.pop("__metadata__", None)
            places: list[tuple[str, str, tuple[int, ...], int, int]] = []
            for name, entry in entries.items():
                first, end = _whole(entry["data_offsets"])
                places.append((name, str(entry["dtype"]), _whole(entry["shape"]), first, end))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            reason = f": {str(error)[:200]}" if isinstance(error, ValueError) else ""
            raise ValueError(f"{path}: this is no safetensors file: its header cannot be read{reason}") from error
        self.tensors: dict[str, Place] = {}
        for name, dtype, shape, first, end in places:
            if dtype not in _DTYPES:
                raise ValueError(f"{path}: tensor {name} has dtype {dtype}; {', '.join(_DTYPES)} can be read")
            if any(dim < 0 for dim in shape) or end - first != math.prod(shape) * _DTYPES[dtype].itemsize or first < 0:
                raise ValueError(f"{path}: tensor {name}: bytes {first} to {end} do not fit {dtype} of shape {shape}")
            if 8 + length + end > size:
                raise ValueError(
                    f"{path}: the file is truncated: tensor {name} ends at byte {8 + length + end}, the file has {size}"
                )
            self.tensors[name] = Place(_DTYPES[dtype], shape, 8 + length + first, 8 + length + end)
        # The reference implementation says the same: what two tensors share, or none has, is damage.
        expected = 8 + length
        for name, place in sorted(self.tensors.items(), key=lambda item: (item[1].first, item[1].end)):
            if place.first != expected:
                raise ValueError(f"{path}: tensor {name} must begin at byte {expected}, got {place.first}")
            expected = place.end
        self._bytes = np.memmap(path, np.uint8, "r")

    def read(self, name: str) -> Array:
        """Return the tensor, where it lies in the file."""
        place = self.tensors[name]
        data = np.asarray(self._bytes[place.first : place.end])
        if place.first % place.dtype.itemsize:
            data = data.copy()
        return data.view(place.dtype).reshape(place.shape)


def _whole(values: Any) -> tuple[int, ...]:
    """Check a list of sizes or offsets.

    Raises:
        ValueError: it is something else.
    """
    if (
        not isinstance(values, list)
        or len(values) > _MOST_DIMS
        or not all(type(value) is int and abs(value) < 2**48 for value in values)
    ):  # fmt: skip
        raise ValueError(f"sizes and offsets must be at most {_MOST_DIMS} whole numbers, got {reprlib.repr(values)}")
    return tuple(values)


def write_safetensors(
    path: Path,
    tensors: Mapping[str, tuple[np.dtype[Any], tuple[int, ...]]],
    read: Callable[[str], Array],
    metadata: Mapping[str, str],
) -> None:
    """Write a file, one tensor in memory at a time."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, (dtype, shape) in tensors.items():
        first, end = end, end + math.prod(shape) * np.dtype(dtype).itemsize
        header[name] = {"dtype": _NAMES[np.dtype(dtype)], "shape": list(shape), "data_offsets": [first, end]}
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little"))
        file.write(head)
        for name, (dtype, shape) in tensors.items():
            array = np.ascontiguousarray(read(name), dtype)
            assert array.shape == shape, name
            file.write(array.reshape(-1).view(np.uint8).data)
