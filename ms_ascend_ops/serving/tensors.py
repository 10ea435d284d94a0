"""Converts tensors of the Open Inference Protocol: datatypes, JSON and bytes, to arrays and back.

bfloat16, which NumPy does not have, is an array of uint16 here.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ms_ascend_ops.serving.errors import BadRequest

__all__ = ["DATATYPES", "TensorSpec", "Values", "checked_shape", "from_bytes", "from_numbers", "to_bytes", "to_numbers"]

Array = np.ndarray[Any, Any]

# The bytes of a tensor are little-endian.
DATATYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype("<u2"),
}

_MOST_DIMENSIONS = 8


@dataclass(frozen=True)
class TensorSpec:
    """Describes an input or output of a model. A size of -1 is any."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def metadata(self) -> dict[str, Any]:
        """Return it as the protocol has it."""
        return {"name": self.name, "datatype": self.datatype, "shape": list(self.shape)}


@dataclass(frozen=True)
class Values:
    """Holds a tensor of a request or an answer."""

    datatype: str
    array: Array


def checked_shape(shape: Any, name: str) -> tuple[int, ...]:
    """Return the shape that a request says.

    Raises:
        BadRequest: it is no list of sizes.
    """
    if not isinstance(shape, Sequence) or isinstance(shape, str) or len(shape) > _MOST_DIMENSIONS:
        raise BadRequest(f"input {name}: shape must be a list of at most {_MOST_DIMENSIONS} sizes, got {_short(shape)}")
    for size in shape:
        if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size < 2**31:
            raise BadRequest(f"input {name}: sizes of shape must be integers from 1 on, got {_short(size)}")
    return tuple(shape)


def checked_datatype(datatype: Any, name: str) -> str:
    """Return the datatype that a request says.

    Raises:
        BadRequest: there is no such datatype.
    """
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise BadRequest(f"input {name}: datatype must be one of {', '.join(DATATYPES)}, got {_short(datatype)}")
    return datatype


def from_bytes(data: bytes | memoryview, datatype: str, shape: tuple[int, ...], name: str) -> Values:
    """Make a tensor from its bytes, without a copy.

    Raises:
        BadRequest: there are more bytes or fewer than the shape says.
    """
    dtype = DATATYPES[datatype]
    expected = math.prod(shape) * dtype.itemsize
    if len(data) != expected:
        raise BadRequest(f"input {name}: {datatype} {list(shape)} has {expected} bytes, got {len(data)}")
    return Values(datatype, np.frombuffer(data, dtype).reshape(shape))


def from_numbers(data: Any, datatype: str, shape: tuple[int, ...], name: str) -> Values:
    """Make a tensor from the numbers of JSON, in one list or in lists of lists.

    Raises:
        BadRequest: they are not numbers that the datatype has, or not as many as the shape says.
    """
    flat, sizes = _flattened(data, name)
    if len(flat) != math.prod(shape) or (len(sizes) > 1 and sizes != shape):
        raise BadRequest(f"input {name}: shape {list(shape)} has {math.prod(shape)} values, got data of {list(sizes)}")
    return Values(datatype, _converted(flat, datatype, name).reshape(shape))


def _flattened(data: Any, name: str) -> tuple[list[Any], tuple[int, ...]]:
    """Flatten lists of lists; return the numbers and the sizes.

    NumPy would make arrays of texts and objects of others.
    """
    if not isinstance(data, list):
        raise BadRequest(f"input {name}: data must be a list, got {_short(data)}")
    sizes = [len(data)]
    while data and isinstance(data[0], list):
        lengths = {len(part) if isinstance(part, list) else -1 for part in data}
        if len(lengths) > 1 or len(sizes) == _MOST_DIMENSIONS:
            raise BadRequest(f"input {name}: the lists of data must have equal lengths and at most 8 depths")
        sizes += lengths
        data = list(chain.from_iterable(data))
    kinds = set(map(type, data))
    if not (kinds <= {int, float} or kinds == {bool}):
        odd = next(value for value in data if type(value) not in (int, float))
        raise BadRequest(f"input {name}: data must be numbers, or only true and false, got {_short(odd)}")
    return data, tuple(sizes)


def _converted(numbers: list[Any], datatype: str, name: str) -> Array:
    dtype = DATATYPES[datatype]
    is_float = datatype in ("FP16", "FP32", "FP64", "BF16")
    allowed = {bool} if datatype == "BOOL" else {int, float} if is_float else {int}
    if not set(map(type, numbers)) <= allowed:
        odd = next(number for number in numbers if type(number) not in allowed)
        raise BadRequest(f"input {name}: data must be values of {datatype}, got {_short(odd)}")
    if datatype == "BOOL":
        return np.array(numbers, dtype)
    if not is_float:
        limits = np.iinfo(dtype)
        least, most = min(numbers, default=0), max(numbers, default=0)
        if least < limits.min or most > limits.max:
            odd = least if least < limits.min else most
            raise BadRequest(f"input {name}: {datatype} is {limits.min} to {limits.max}, got {_short(odd)}")
        return np.array(numbers, dtype)
    try:
        array = np.array(numbers, np.float64)
    except OverflowError as error:
        raise BadRequest(f"input {name}: a value is out of the range of {datatype}") from error
    with np.errstate(over="ignore"):
        converted = array.astype(np.float32 if datatype == "BF16" else dtype)
    if not np.array_equal(np.isfinite(converted), np.isfinite(array)):
        raise BadRequest(f"input {name}: a value is out of the range of {datatype}")
    return to_bfloat16(converted) if datatype == "BF16" else converted


def to_bfloat16(array: Array) -> Array:
    """Convert float32 to bfloat16, its upper 16 bits, rounded to even; NaN stays NaN."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(array), (bits >> 16) | 0x40, rounded).astype(np.uint16)


def from_bfloat16(array: Array) -> Array:
    """Convert bfloat16, the upper 16 bits of float32, to float32."""
    return (array.astype(np.uint32) << 16).view(np.float32)


def to_bytes(values: Values) -> bytes:
    """Return the bytes of a tensor, in the order of its rows."""
    return np.ascontiguousarray(values.array, DATATYPES[values.datatype]).tobytes()


def to_numbers(values: Values) -> list[Any]:
    """Return the numbers of a tensor, in one list."""
    array = from_bfloat16(values.array) if values.datatype == "BF16" else values.array
    numbers: list[Any] = array.ravel().tolist()
    return numbers


def _short(value: Any) -> str:
    return reprlib.repr(value)  # whose length and depth are limited
