"""Packs weights in 8 and 4 bits, as `ops.weight_quant_matmul` takes them. NumPy only."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["dequantize_weight", "pack_int4", "quantize_weight", "unpack_int4"]

Array = np.ndarray[Any, Any]


def pack_int4(numbers: Array) -> Array:
    """Pack numbers of 4 bits, two in a byte, the first in the lower half.

    Args:
        numbers: integers from -8 to 7, shape (..., k), k even.

    Returns:
        int8, shape (..., k / 2).

    Raises:
        ValueError: k is odd, or a number is out of range.
    """
    if numbers.shape[-1] % 2:
        raise ValueError(f"pack_int4: numbers.shape[-1] must be even, got {numbers.shape}")
    if numbers.size and not (numbers.min() >= -8 and numbers.max() <= 7):
        raise ValueError(f"pack_int4: numbers must be from -8 to 7, got {numbers.min()} to {numbers.max()}")
    nibbles = numbers.astype(np.int8).view(np.uint8) & 15
    packed: Array = (nibbles[..., 0::2] | nibbles[..., 1::2] << 4).view(np.int8)
    return packed


def unpack_int4(packed: Array) -> Array:
    """Unpack what `pack_int4` has packed.

    Args:
        packed: int8, shape (..., k).

    Returns:
        int8, shape (..., 2 k), from -8 to 7.
    """
    nibbles = np.stack([packed.view(np.uint8) & 15, packed.view(np.uint8) >> 4], axis=-1)
    numbers: Array = (nibbles.reshape(*packed.shape[:-1], -1) ^ 8).astype(np.int8) - np.int8(8)
    return numbers


def quantize_weight(
    weight: Array, bits: int = 4, group_size: int = 0, symmetric: bool = False, dtype: Any = np.float16
) -> tuple[Array, Array, Array | None]:
    """Round a weight to the nearest numbers of 8 or 4 bits, with a scale and an offset for each group of a row.

    Args:
        weight: floats, shape (n, k), as nn.Dense keeps them.
        bits: 8 or 4.
        group_size: consecutive elements with one scale: a multiple of 32 that divides k, or 0: a whole row.
        symmetric: without offsets: zero is zero.
        dtype: of scales and offsets.

    Returns:
        The numbers (int8; of 4 bits two in a byte), the scales, and the offsets or None: shapes (n, k) or (n, k / 2),
        and (n, k / group_size). The weight is about (numbers + offset) * scale.

    Raises:
        ValueError: another number of bits, a weight that is no matrix or not finite, a group that does not divide k, a
            scale that `dtype` does not reach.
    """
    weight = np.asarray(weight)
    if bits not in (4, 8):
        raise ValueError(f"quantize_weight: bits must be 4 or 8, got {bits!r}")
    if weight.ndim != 2 or not weight.size:
        raise ValueError(f"quantize_weight: weight must be a matrix with elements, got shape {weight.shape}")
    rows, columns = weight.shape
    group = group_size or columns
    if group < 0 or columns % group or (group < columns and (group % 32 or group > 1024)):
        raise ValueError(
            f"quantize_weight: group_size must be 0, or a multiple of 32 up to 1024 that divides weight.shape[-1]"
            f" ({columns}), got {group_size}"
        )
    if bits == 4 and columns % 2:
        raise ValueError(f"quantize_weight: weight.shape[-1] must be even for 4 bits, got {weight.shape}")
    grouped = weight.astype(np.float32).reshape(rows, columns // group, group)
    if not np.isfinite(grouped).all():
        raise ValueError("quantize_weight: weight must be finite")
    half = 2 ** (bits - 1)
    offset = None
    if symmetric:
        span = np.abs(grouped).max(-1) / (half - 1)
    else:
        low, high = np.minimum(grouped.min(-1), 0), np.maximum(grouped.max(-1), 0)
        span = (high - low) / (2 * half - 1)
    with np.errstate(over="ignore"):
        scale = np.where(span > 0, span, 1.0).astype(dtype)
    exact = scale.astype(np.float32)
    if not np.isfinite(exact).all():
        raise ValueError(f"quantize_weight: a scale of {span.max():.6g} is beyond {np.dtype(dtype).name}; use float32")
    # A scale that its dtype rounds to 0 belongs to a group that is 0 to that precision.
    scale, exact = np.where(exact > 0, scale, np.ones_like(scale)), np.where(exact > 0, exact, np.float32(1))
    shift = np.zeros_like(exact)
    if not symmetric:
        offset = (low / exact + half).astype(dtype)
        shift = offset.astype(np.float32)
    numbers = np.clip(np.rint(grouped / exact[..., None] - shift[..., None]), -half, half - 1)
    numbers = numbers.astype(np.int8).reshape(rows, columns)
    return pack_int4(numbers) if bits == 4 else numbers, scale, offset


def dequantize_weight(numbers: Array, scale: Array, offset: Array | None = None, columns: int | None = None) -> Array:
    """Undo `quantize_weight`: (numbers + offset) * scale.

    Args:
        numbers: int8, shape (n, k), or (n, k / 2) with two numbers of 4 bits in a byte.
        scale: floats, shape (n, groups).
        offset: floats, shape of scale; None: zeros.
        columns: k, which tells numbers of 4 bits from those of 8; None: as many as `numbers` has.

    Returns:
        float32, shape (n, k).
    """
    if columns is not None and columns == 2 * numbers.shape[-1]:
        numbers = unpack_int4(numbers)
    group = numbers.shape[-1] // scale.shape[-1]
    shift = 0.0 if offset is None else np.repeat(offset.astype(np.float32), group, axis=1)
    return (numbers.astype(np.float32) + shift) * np.repeat(scale.astype(np.float32), group, axis=1)
