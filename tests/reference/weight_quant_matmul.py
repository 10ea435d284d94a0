"""y = x w^T + bias in float64, of w = (weight + offset) * scale."""

import numpy as np

from tests.reference.matmul import ACTIVATIONS

ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-23}


def unpacked(weight, columns):
    """The numbers of a packed weight (n, w): int8, or two's complements of 4 bits, the first in a byte's lower half."""
    weight = np.asarray(weight, np.int64)
    if weight.shape[1] == columns:
        return weight
    pairs = np.stack([weight & 15, weight >> 4 & 15], axis=-1).reshape(len(weight), columns)
    return np.where(pairs > 7, pairs - 16, pairs)


def dequantised(weight, scale, offset, columns):
    """w, of shape (n, columns)."""
    group = columns // scale.shape[1]
    numbers = unpacked(weight, columns).astype(np.float64)
    shift = 0.0 if offset is None else np.repeat(offset, group, axis=1)
    return (numbers + shift) * np.repeat(scale, group, axis=1)


def product(x, weight, scale, offset=None, bias=None):
    return x @ dequantised(weight, scale, offset, x.shape[-1]).T + (0.0 if bias is None else bias)


def rounded(x, groups):
    """x as integers of 8 bits times a scale for each group. Ties are those of float32, in which the kernel divides."""
    grouped = np.asarray(x, np.float32).reshape(*x.shape[:-1], groups, -1)
    largest = np.maximum(np.abs(grouped).max(-1, keepdims=True), np.float32(1e-30))
    with np.errstate(invalid="ignore"):
        integers = np.rint(grouped * (np.float32(127) / largest)).astype(np.float64)
        scale = (largest * np.float32(1 / 127)).astype(np.float64)
        finite = np.isfinite(grouped).all(-1, keepdims=True)
        return np.where(finite, integers * scale, np.nan).reshape(x.shape)


def forward(x, weight, scale, offset=None, bias=None, activation="none", quantize_x="none"):
    if quantize_x == "int8":
        x = rounded(x, scale.shape[1])
    return ACTIVATIONS[activation](product(x, weight, scale, offset, bias))


def forward_terms(x, weight, scale, offset=None, bias=None, dtype="float32"):
    """The sums of the product, of magnitudes, times what rounding of the weights may do to them in float32.

    Weights of 16 bits are rounded once, where a tile of them is unpacked.
    """
    terms = np.abs(x) @ np.abs(dequantised(weight, scale, offset, x.shape[-1])).T
    return terms * (8 + ROUNDING[dtype] * 2.0**22)
