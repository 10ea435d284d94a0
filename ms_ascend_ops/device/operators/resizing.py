"""Resizes images: a product with a matrix of weights along each axis, and its transpose as the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


def _places(size: int, old: int, scale: float, corners: bool) -> Array:
    """Return where the centre of each new element lies among the old ones."""
    new = np.arange(size)
    if corners:
        return new * ((old - 1) / max(size - 1, 1))
    return (new + 0.5) * (1 / scale if scale > 0 else old / size) - 0.5


def _nearest(size: int, old: int, scale: float) -> Array:
    places = np.minimum(np.floor(np.arange(size) * (1 / scale if scale > 0 else old / size)), old - 1).astype(int)
    return np.eye(old, dtype=np.float32)[places]


def _linear(size: int, old: int, scale: float, corners: bool) -> Array:
    places = np.clip(_places(size, old, scale, corners), 0, old - 1)
    low = np.floor(places).astype(int)
    part = (places - low)[:, None]
    unit = np.eye(old, dtype=np.float32)
    return ((1 - part) * unit[low] + part * unit[np.minimum(low + 1, old - 1)]).astype(np.float32)


def _cubic(size: int, old: int, scale: float, corners: bool) -> Array:
    places = _places(size, old, scale, corners)
    low = np.floor(places).astype(int)
    unit = np.eye(old, dtype=np.float32)
    result = np.zeros((size, old), np.float32)
    for offset in range(-1, 3):
        far = np.abs(places - low - offset)
        near = 1.25 * far**3 - 2.25 * far**2 + 1
        outer = -0.75 * (far**3 - 5 * far**2 + 8 * far - 4)
        result += np.where(far <= 1, near, outer)[:, None] * unit[np.clip(low + offset, 0, old - 1)]
    return result


def _resized(x: Array, matrices: Sequence[Array]) -> Array:
    for axis, matrix in zip(range(x.ndim - len(matrices), x.ndim), matrices, strict=True):
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix.T, -1, axis)
    return x


def _matrices(weights: Any, new: Sequence[int], old: Sequence[int], scales: Sequence[float], *more: Any) -> list[Array]:
    scales = [*scales, *[0.0] * (len(new) - len(scales))]
    return [weights(n, o, s, *more) for n, o, s in zip(new, old, scales, strict=True)]


def upsample_nearest(x: Array, size: Sequence[int], *scales: float) -> Array:
    return _resized(x, _matrices(_nearest, size, x.shape[2:], scales))


def upsample_nearest_backward(dy: Array, size: Sequence[int], old: Sequence[int], *scales: float) -> Array:
    return _resized(dy, [m.T for m in _matrices(_nearest, size, old[2:], scales)])


def upsample_linear(x: Array, size: Sequence[int], corners: bool, *scales: float) -> Array:
    return _resized(x, _matrices(_linear, size, x.shape[2:], scales, corners))


def upsample_linear_backward(
    dy: Array, size: Sequence[int], old: Sequence[int], corners: bool, *scales: float
) -> Array:
    return _resized(dy, [m.T for m in _matrices(_linear, size, old[2:], scales, corners)])


def upsample_cubic(x: Array, size: Sequence[int], corners: bool, *scales: float) -> Array:
    return _resized(x, _matrices(_cubic, size, x.shape[2:], scales, corners))


def upsample_cubic_backward(dy: Array, size: Sequence[int], old: Sequence[int], corners: bool, *scales: float) -> Array:
    return _resized(dy, [m.T for m in _matrices(_cubic, size, old[2:], scales, corners)])
