"""Maps tensors of a call to NumPy arrays: views of device memory, which this process has mapped at the same addresses.

Floats of 16 bits are computed as float32, int4 as int8. What was computed is rounded once, to the nearest even, when it
is written.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

__all__ = [
    "DTYPES",
    "Array",
    "Tensor",
    "array_at",
    "from_bfloat16_bits",
    "read_scalar",
    "rounded",
    "watchers",
    "write_shapes",
]

Array = np.ndarray[Any, Any]

# aclDataType: the name, and what a NumPy array of it holds.
DTYPES: dict[int, tuple[str, np.dtype[Any]]] = {
    code: (name, np.dtype(stored))
    for code, name, stored in [
        (0, "float32", np.float32),
        (1, "float16", np.float16),
        (2, "int8", np.int8),
        (3, "int32", np.int32),
        (4, "uint8", np.uint8),
        (6, "int16", np.int16),
        (7, "uint16", np.uint16),
        (8, "uint32", np.uint32),
        (9, "int64", np.int64),
        (10, "uint64", np.uint64),
        (11, "float64", np.float64),
        (12, "bool", np.bool_),
        (16, "complex64", np.complex64),
        (17, "complex128", np.complex128),
        (27, "bfloat16", np.uint16),
        (29, "int4", np.uint8),
    ]
}
_FLOAT16, _BFLOAT16, _INT4 = 1, 27, 29


@dataclass(slots=True)
class _Watchers:
    """Holds those who are told of the arrays that are read and written."""

    reads: Callable[[Array], None] = lambda array: None
    writes: Callable[[Array], None] = lambda array: None


watchers = _Watchers()


# All memory of this process but its first byte: NumPy would allocate memory for an array that begins at 0.
_MEMORY: Any = (ctypes.c_char * sys.maxsize).from_address(1)


@dataclass(slots=True)
class Tensor:
    """Describes a tensor of a call."""

    address: int  # of the first element of the storage
    code: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    storage_elements: int

    @property
    def dtype(self) -> str:
        return _known(self.code)[0]

    @property
    def size(self) -> int:
        return prod(self.shape)

    def memory(self) -> Array:
        """Return the elements as they are stored, to be read or written."""
        stored = _known(self.code)[1]
        width = stored.itemsize
        return array_at(
            stored,
            self.address + self.offset * width,
            self.shape,
            tuple(stride * width for stride in self.strides),
        )

    def read(self, constant: bytes | None = None) -> Array:
        """Read the values in a dtype to compute with; `constant`: they are not in device memory, but these."""
        if constant is not None:
            values = np.frombuffer(constant, _known(self.code)[1], self.size).reshape(self.shape)
            return from_bfloat16_bits(values) if self.code == _BFLOAT16 else values
        if self.code != _INT4:
            elements = self.memory()
            watchers.reads(elements)
        if self.code == _FLOAT16:
            return elements.astype(np.float32)
        if self.code == _BFLOAT16:
            return from_bfloat16_bits(elements)
        if self.code == _INT4:
            pairs = array_at(np.dtype(np.int8), self.address, ((self.storage_elements + 1) // 2,), (1,))
            watchers.reads(pairs)
            both = np.stack([pairs << 4 >> 4, pairs >> 4], -1).reshape(-1)
            return np.lib.stride_tricks.as_strided(both[self.offset :], self.shape, self.strides)
        return elements

    def write(self, value: Any) -> None:
        """Round the values to this tensor's dtype; there may be one value for all elements."""
        array = np.asarray(value)
        if array.shape != self.shape:
            array = array.reshape(self.shape) if array.size == self.size else np.broadcast_to(array, self.shape)
        if self.code == _INT4:
            # Assume contiguous: CANN has no other ones.
            flat = np.resize(rounded(array, _INT4).reshape(-1), self.size + self.size % 2)
            pairs = array_at(np.dtype(np.uint8), self.address, (flat.size // 2,), (1,))
            pairs[...] = flat[0::2] | (flat[1::2] << 4)
            watchers.writes(pairs)
        else:
            elements = self.memory()
            elements[...] = rounded(array, self.code)
            watchers.writes(elements)


def from_bfloat16_bits(bits: Array) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def rounded(array: Array, code: int) -> Array:
    """Round values as a tensor of this dtype stores them."""
    stored = _known(code)[1]
    if array.dtype.kind == "c" and stored.kind != "c":
        array = array.real
    if code == _BFLOAT16:
        return _bfloat16_bits(array)
    if code == _INT4:
        return array.astype(np.int8).view(np.uint8) & np.uint8(15)
    if array.dtype.kind == "f" and stored.kind in "iu":
        return _saturated(array, stored)
    with np.errstate(over="ignore"):  # infinity, where a float of 16 bits ends
        return array.astype(stored, copy=False)


def read_scalar(code: int, data: bytes) -> Any:
    """Read the value of an aclScalar as a number of Python."""
    _, stored = _known(code)
    value = np.frombuffer(data, stored, 1)
    return (from_bfloat16_bits(value) if code == _BFLOAT16 else value)[0].item()


def write_shapes(address: int, tensors: list[Any], values: tuple[Any, ...]) -> list[Any]:
    """Tell the host the shapes of outputs that depend on values; the tensors with these shapes, contiguous.

    At the address are nine int64 for each output: the rank, and the sizes.
    """
    shaped = []
    for place, (tensor, value) in enumerate(zip(tensors, values, strict=True)):
        shape = np.shape(value) if tensor is not None and value is not None else ()
        described = array_at(np.dtype(np.int64), address + place * 72, (1 + len(shape),), (8,))
        described[...] = (len(shape), *shape)
        watchers.writes(described)
        strides = tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))
        shaped.append(None if tensor is None else replace(tensor, shape=shape, strides=strides))
    return shaped


def _known(code: int) -> tuple[str, np.dtype[Any]]:
    try:
        return DTYPES[code]
    except KeyError:
        raise TypeError(f"tensors of aclDataType {code} are not emulated") from None


def array_at(stored: np.dtype[Any], address: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    if 0 in shape:
        return np.empty(shape, stored)
    return np.ndarray(shape, stored, _MEMORY, address - 1, strides)


def _bfloat16_bits(values: Array) -> Array:
    """Round to the nearest bfloat16, ties to even."""
    single = np.ascontiguousarray(values, np.float32).reshape(values.shape)
    bits = single.view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(single), np.uint32(0x7FC0), nearest).astype(np.uint16)


def _saturated(array: Array, stored: np.dtype[Any]) -> Array:
    """Round towards zero and saturate, as the hardware converts: what is too large becomes the largest, NaN
    becomes 0.
    """
    limits = np.iinfo(stored)
    wide = np.nan_to_num(np.trunc(array, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    # The largest int64 and uint64 are not float64 values: what reaches the next one is replaced, not converted.
    largest = wide >= limits.max
    return np.where(largest, limits.max, np.where(largest, 0, np.maximum(wide, limits.min)).astype(stored)).astype(
        stored
    )
