"""Computes products of integers, and makes integers of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array
from ms_ascend_ops.device.operators.normalization import rms_norm

_EXACT = 1024  # products of two int8 whose sum float32 holds exactly


def integer_product(self: Array, other: Array) -> Array:
    """Multiply matrices of int8, exactly, as float32 products of parts."""
    parts = [
        np.matmul(self[..., at : at + _EXACT].astype(np.float32), other[..., at : at + _EXACT, :].astype(np.float32))
        for at in range(0, self.shape[-1], _EXACT)
    ]
    return parts[0] if len(parts) == 1 else np.sum([part.astype(np.float64) for part in parts], 0)


def scale_values(scale: Array) -> Array:
    """Return scales. One of 64 bits holds a float32 in its lower half."""
    return scale.astype(np.uint64).astype(np.uint32).view(np.float32) if scale.dtype.itemsize == 8 else scale


def trans_quant_param(scale: Array, offset: Array | None) -> Array:
    bits = scale.astype(np.float32).view(np.uint32).astype(np.uint64)
    if offset is not None:
        bits = bits | ((offset.astype(np.int64) & 0x1FF).astype(np.uint64) << np.uint64(37))
    return bits | np.uint64(1 << 46)


def quant_matmul(
    x1: Array,
    x2: Array,
    scale: Array,
    offset: Array | None,
    row_scale: Array | None,
    bias: Array | None,
    transpose_x1: bool,
    transpose_x2: bool,
) -> Array:
    """Compute a product. A bias of integers is added before, one of floats after scaling."""
    left = x1.swapaxes(-1, -2) if transpose_x1 else x1
    right = x2.swapaxes(-1, -2) if transpose_x2 else x2
    product = integer_product(left, right)
    is_integer = bias is not None and bias.dtype.kind == "i"
    if is_integer:
        product = product + bias
    product = product * scale_values(scale)
    if row_scale is not None:
        product = product * row_scale[:, None]
    if bias is not None and not is_integer:
        product = product + bias
    return product if offset is None else product + offset


def weight_quant_matmul(
    x: Array,
    weight: Array,
    scale: Array,
    offset: Array | None,
    quant_scale: Array | None,
    quant_offset: Array | None,
    bias: Array | None,
    _group: int,
) -> Array:
    """Compute a product. The groups of a weight's rows are as many as the scale has rows."""
    product = np.matmul(x, dequantized(weight, scale, offset))
    product = product if bias is None else product + bias
    if quant_scale is None:
        return product
    return _int8(product * scale_values(quant_scale) + (0 if quant_offset is None else quant_offset))


def dequantized(weight: Array, scale: Array, offset: Array | None) -> Array:
    """Dequantize (K, N) integers, with one scale and offset for all, for each column, or for each group of rows."""
    values = weight.astype(np.float32)
    if scale.size == 1:
        return (values + (0 if offset is None else offset.reshape(()))) * scale.reshape(())
    groups = 1 if scale.ndim == 1 else scale.shape[-2]
    grouped = values.reshape(*values.shape[:-2], groups, -1, values.shape[-1])
    form = (*scale.shape[:-2], groups, 1, scale.shape[-1])
    grouped = (grouped + (0 if offset is None else offset.reshape(form))) * scale.reshape(form)
    return grouped.reshape(values.shape)


def dynamic_quant(x: Array, smooth: Array | None) -> tuple[Array, Array]:
    values = x if smooth is None else x * smooth
    scale = np.abs(values).max(-1) / np.float32(127)
    return _int8(values / np.where(scale == 0, 1, scale)[..., None]), scale


def dynamic_quant_v2(x: Array, smooth: Array | None, group: Any, _dtype: int) -> tuple[Array, Array, None]:
    if group is not None:
        raise NotImplementedError("groupIndex is not emulated")
    return (*dynamic_quant(x, smooth), None)


def ascend_quant(x: Array, scale: Array, offset: Array | None, square: bool, mode: str, _dtype: int) -> Array:
    factor = scale * scale if square else scale
    rounding: Any = {"round": np.rint, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}[(mode or "round").lower()]
    return np.clip(rounding(x * factor + (0 if offset is None else offset)), -128, 127)


def add_rms_norm_quant(
    x1: Array,
    x2: Array,
    gamma: Array,
    scale1: Array,
    scale2: Array | None,
    zero1: Array | None,
    zero2: Array | None,
    _axis: int,
    eps: float,
    divide: bool,
) -> tuple[Array | None, Array | None, Array]:
    x = x1 + x2
    y, _ = rms_norm(x, gamma, eps)

    def quantized(scale: Array | None, zero: Array | None) -> Array | None:
        if scale is None:
            return None
        return _int8((y / scale if divide else y * scale) + (0 if zero is None else zero))

    return quantized(scale1, zero1), quantized(scale2, zero2), x


def _int8(values: Array) -> Array:
    return np.clip(np.rint(values), -128, 127)
