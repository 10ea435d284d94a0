"""Arrays of any dtype an operator has, bfloat16 included, which NumPy does not know: its bits are kept in uint16."""

import numpy as np

from ms_ascend_ops.acceptance import EPSILON, LARGEST, SMALLEST

STORAGE = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(np.uint16),
    "float32": np.dtype(np.float32),
    "int32": np.dtype(np.int32),
    "int8": np.dtype(np.int8),
}
__all__ = ["EPSILON", "FLOATS", "LARGEST", "SMALLEST", "STORAGE", "decode", "encode", "poisoned"]

FLOATS = ("float16", "bfloat16", "float32")


def encode(values, dtype):
    """Round float64 values to `dtype`, to nearest even."""
    with np.errstate(over="ignore"):
        if dtype != "bfloat16":
            return np.asarray(values, np.float64).astype(STORAGE[dtype])
        single = np.asarray(values, np.float64).astype(np.float32)
    bits = single.view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)


def decode(array, dtype):
    """The values of an encoded array, as float64."""
    if dtype != "bfloat16":
        return np.asarray(array, np.float64)
    return (np.asarray(array, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def poisoned(shape, dtype):
    """An output buffer full of NaN, or of the least integer: what a kernel does not write shows."""
    if dtype in ("int32", "int8"):
        return np.full(shape, np.iinfo(dtype).min, dtype)
    return np.full(shape, encode(np.nan, dtype), STORAGE[dtype])
