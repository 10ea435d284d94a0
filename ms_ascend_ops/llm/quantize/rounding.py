"""Rounds a matrix to another type, to the nearest numbers of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ms_ascend_ops.llm.checkpoints.quantized import GROUP, QuantizedMatrix

__all__ = ["TYPES", "check_group", "floats_of", "nbytes_of", "rounded"]

Array = np.ndarray[Any, Any]

# Sorted from few bits to many.
TYPES = ("int4", "int8", "float16", "bfloat16", "float32")
_FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


def check_group(name: str, columns: int, group: int) -> None:
    """Check that a matrix has groups of this size.

    Raises:
        ValueError: it has not; the message begins with `name`.
    """
    if group < GROUP or group % GROUP or columns % group:
        raise ValueError(
            f"{name}: the group size must be a multiple of {GROUP} that divides the matrix's {columns} columns, "
            f"got {group}"
        )


def rounded(weight: Array, kind: str, group: int = GROUP) -> Array | QuantizedMatrix:
    """Round the matrix to one of `TYPES`.

    int8: numbers from -127 to 127 with a scale for each group of columns. int4: numbers from 0 to 15 with a scale and a
    zero point, which is one of them: zero stays zero. Scales are float16, or float32 where float16 ends.

    Args:
        weight: floats, shape (rows, columns).
        kind: the type.
        group: columns with one scale: a multiple of 32 that divides them.

    Raises:
        ValueError: another type or group, or a weight that is not finite.
    """
    if kind in _FLOATS:
        with np.errstate(over="ignore"):
            return weight.astype(_FLOATS[kind])
    if kind not in TYPES:
        raise ValueError(f"rounded: the type must be one of {', '.join(TYPES)}, got {kind!r}")
    rows, columns = weight.shape
    check_group("rounded", columns, group)
    groups = weight.astype(np.float32).reshape(rows, columns // group, group)
    if not np.isfinite(groups).all():
        raise ValueError("rounded: the weight must be finite")
    if kind == "int8":
        scale = _scale(np.abs(groups).max(-1) / np.float32(127))
        numbers = np.rint(groups / scale.astype(np.float32)[..., None])
        return QuantizedMatrix(np.clip(numbers, -127, 127).astype(np.int8).reshape(rows, columns), scale)
    low, high = np.minimum(groups.min(-1), 0), np.maximum(groups.max(-1), 0)
    scale = _scale((high - low) / np.float32(15))
    exact = scale.astype(np.float32)
    zero = np.clip(np.rint(-low / exact), 0, 15)
    numbers = np.clip(np.rint(groups / exact[..., None]) + zero[..., None], 0, 15).astype(np.uint8)
    pairs = numbers.reshape(rows, columns)
    return QuantizedMatrix(pairs[:, 0::2] | pairs[:, 1::2] << 4, scale, zero=zero.astype(np.int8))


def _scale(span: Array) -> Array:
    """Return the scale as it is stored; 1 in place of 0, which groups of zeros and very small ones would have."""
    half = span.max(initial=0) <= np.finfo(np.float16).max
    scale = span.astype(np.float16 if half else np.float32)
    scale[scale == 0] = 1
    return scale


def floats_of(weight: Array | QuantizedMatrix) -> Array:
    """Return the matrix in float32."""
    return weight.dequantized() if isinstance(weight, QuantizedMatrix) else weight.astype(np.float32)


def nbytes_of(shape: tuple[int, ...], kind: str, group: int = GROUP) -> int:
    """Return the number of bytes of a matrix in a file."""
    rows, columns = shape
    if kind in _FLOATS:
        return rows * columns * int(np.dtype(_FLOATS[kind]).itemsize)
    parts = rows * columns // group
    return rows * columns // 2 + 3 * parts if kind == "int4" else rows * columns + 2 * parts
