"""Computes functions that NumPy lacks, to the accuracy of float64 or nearly so."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array

__all__ = ["erf", "erfc", "erfinv"]

_STEPS = 256  # of the table of erf, in one
_BLOCK = 1 << 14
_TABLE_ENDS = 6  # from where on erf is 1 in float64
_FRACTION_BEGINS, _FRACTION_STEPS = 2.0, 60


def erf(x: Any) -> Array:
    """Compute 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x: a table, and Taylor's series from there."""
    values = np.asarray(x)
    result = np.empty(values.shape, np.result_type(values.dtype, np.float32))
    flat, made = np.ravel(values), result.reshape(-1)
    # Process blocks: a dozen arrays of float64 then stay in the cache rather than wait for memory.
    for first in range(0, flat.size, _BLOCK):
        made[first : first + _BLOCK] = _erf(flat[first : first + _BLOCK].astype(np.float64))
    return result


def erfc(x: Any) -> Array:
    """Compute 1 - erf(x), by a continued fraction where that is small."""
    values = np.asarray(x)
    wide = values.astype(np.float64)
    large = fraction = np.maximum(wide, _FRACTION_BEGINS)
    for n in range(_FRACTION_STEPS, 0, -1):
        fraction = large + n / 2 / fraction
    tail = np.exp(-large * large) / (math.sqrt(math.pi) * fraction)
    result = np.where(wide > _FRACTION_BEGINS, tail, 1 - _erf(wide))
    return result.astype(np.result_type(values.dtype, np.float32), copy=False)


def erfinv(x: Any) -> Array:
    """Invert erf by Newton's steps from Winitzki's approximation."""
    values = np.asarray(x)
    wide = values.astype(np.float64)
    inside = np.where(np.abs(wide) < 1, wide, 0)
    log = np.log1p(-inside * inside)
    half = 2 / (math.pi * 0.147) + log / 2
    guess = np.copysign(np.sqrt(np.sqrt(half * half - log / 0.147) - half), inside)
    for _ in range(4):
        guess = guess - (_erf(guess) - inside) / (2 / math.sqrt(math.pi) * np.exp(-guess * guess))
    outside = np.where(np.abs(wide) == 1, np.copysign(np.inf, wide), np.nan)
    result = np.where(np.abs(wide) < 1, guess, outside)
    return result.astype(np.result_type(values.dtype, np.float32), copy=False)


def _erf(wide: Array) -> Array:
    size = np.minimum(np.abs(wide), _TABLE_ENDS)
    index = np.rint(np.where(np.isnan(size), 0, size) * _STEPS).astype(np.intp)
    begin = index / _STEPS
    step = size - begin
    square = begin * begin
    series = 1 - step * (begin - step * ((2 * square - 1) / 3 - step * begin * (2 * square - 3) / 6))
    slope = 2 / math.sqrt(math.pi) * np.exp(-square)
    return np.copysign(_table()[index] + step * slope * series, wide)


@cache
def _table() -> Array:
    return np.array([math.erf(index / _STEPS) for index in range(_TABLE_ENDS * _STEPS + 1)])
