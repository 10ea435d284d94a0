"""Computes sums, extremes, orders and what is made of them. Floats are summed in float32 at least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


def softmax(self: Array, dim: int) -> Array:
    powers = np.exp(self - self.max(dim, keepdims=True))
    return powers / powers.sum(dim, keepdims=True)


def softmax_backward(grad: Array, output: Array, dim: int) -> Array:
    return output * (grad - (grad * output).sum(dim, keepdims=True))


def log_softmax(self: Array, dim: int) -> Array:
    shifted = self - self.max(dim, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))


def log_softmax_backward(grad: Array, output: Array, dim: int) -> Array:
    return grad - np.exp(output) * grad.sum(dim, keepdims=True)


def log_sum_exp(self: Array, dims: Sequence[int], keepdim: bool) -> Array:
    axes = _axes(dims, self)
    most = self.max(axes, keepdims=True)
    finite = np.where(np.isfinite(most), most, 0)
    result = np.log(np.exp(self - finite).sum(axes, keepdims=True)) + finite
    return result if keepdim else result.squeeze(axes)


def mean(self: Array, dims: Sequence[int], keepdim: bool) -> Array:
    return np.mean(self, _axes(dims, self), keepdims=keepdim)


def reduce_sum(self: Array, dims: Sequence[int], keepdims: bool) -> Array:
    return np.sum(self, _axes(dims, self), keepdims=keepdims)


def reduce_nansum(self: Array, dims: Sequence[int], keepdims: bool) -> Array:
    return np.nansum(self, _axes(dims, self), keepdims=keepdims)


def prod(self: Array) -> Array:
    return np.asarray(np.prod(self))


def prod_dim(self: Array, dim: int, keepdim: bool) -> Array:
    return np.prod(self, dim, keepdims=keepdim)


def amax(self: Array, dims: Sequence[int], keepdim: bool) -> Array:
    return np.amax(self, _axes(dims, self), keepdims=keepdim)


def amin(self: Array, dims: Sequence[int], keepdim: bool) -> Array:
    return np.amin(self, _axes(dims, self), keepdims=keepdim)


def all_finite(gradient: Array, is_finite: Array) -> Array:
    """Compute the operator that MindSpore's wheel brings: despite its name it sets the flag if something is not finite.

    MindSpore clears it before, and calls the operator for one tensor after the other.
    """
    return is_finite | (not np.isfinite(gradient).all())


def all_true(self: Array, dims: Sequence[int], keepdim: bool) -> Array:
    return np.all(self, _axes(dims, self), keepdims=keepdim)


def any_true(self: Array, dims: Sequence[int], keepdim: bool) -> Array:
    return np.any(self, _axes(dims, self), keepdims=keepdim)


def arg_max(self: Array, dim: int, keepdim: bool) -> Array:
    return np.asarray(np.argmax(self, dim, keepdims=keepdim) if self.ndim else 0)


def arg_min(self: Array, dim: int, keepdim: bool) -> Array:
    return np.asarray(np.argmin(self, dim, keepdims=keepdim) if self.ndim else 0)


def max_dim(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    return _extreme(self, arg_max(self, dim, True), dim, keepdim)


def min_dim(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    return _extreme(self, arg_min(self, dim, True), dim, keepdim)


def median(self: Array) -> Array:
    return np.sort(self, None)[(self.size - 1) // 2] if not np.isnan(self).any() else np.asarray(np.nan)


def median_dim(self: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    return kthvalue(self, (self.shape[dim] + 1) // 2, dim, keepdim)


def kthvalue(self: Array, k: int, dim: int, keepdim: bool) -> tuple[Array, Array]:
    order = np.argsort(self, dim, kind="stable")
    return _extreme(self, np.take(order, [k - 1], dim), dim, keepdim)


def _extreme(self: Array, places: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    if self.ndim == 0:
        return self, np.zeros((), np.int64)
    values = np.take_along_axis(self, places, dim)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def cumsum(self: Array, dim: int) -> Array:
    return np.cumsum(self, dim) if self.ndim else self


def cummax(self: Array, dim: int) -> tuple[Array, Array]:
    return _running(np.maximum, self, dim)


def cummin(self: Array, dim: int) -> tuple[Array, Array]:
    return _running(np.minimum, self, dim)


def _running(function: np.ufunc, self: Array, dim: int) -> tuple[Array, Array]:
    """Return the extreme so far, and the last position where it was reached."""
    values = function.accumulate(self, dim)
    places = np.arange(self.shape[dim]).reshape(-1, *[1] * (self.ndim - 1 - dim % self.ndim))
    reached = np.where((self == values) | np.isnan(self), places, 0)
    return values, np.maximum.accumulate(reached, dim)


def norm(self: Array, order: Any, dims: Sequence[int], keepdim: bool) -> Array:
    axes, size = _axes(dims, self), np.abs(self)
    if order == np.inf:
        return size.max(axes, keepdims=keepdim)
    if order == -np.inf:
        return size.min(axes, keepdims=keepdim)
    if order == 0:
        return (size != 0).sum(axes, keepdims=keepdim)
    return (size**order).sum(axes, keepdims=keepdim) ** (1 / order)


def cdist(x1: Array, x2: Array, order: float, _mode: int) -> Array:
    return norm(x1[..., :, None, :] - x2[..., None, :, :], order, [-1], False)


def var(self: Array, dims: Sequence[int] | None, correction: int, keepdim: bool) -> Array:
    return np.var(self, _axes(dims, self), ddof=correction, keepdims=keepdim)


def std(self: Array, dims: Sequence[int] | None, correction: int, keepdim: bool) -> Array:
    return np.std(self, _axes(dims, self), ddof=correction, keepdims=keepdim)


def var_mean(self: Array, dims: Sequence[int] | None, correction: int, keepdim: bool) -> tuple[Array, Array]:
    return var(self, dims, correction, keepdim), np.mean(self, _axes(dims, self), keepdims=keepdim)


def std_mean(self: Array, dims: Sequence[int] | None, correction: int, keepdim: bool) -> tuple[Array, Array]:
    return std(self, dims, correction, keepdim), np.mean(self, _axes(dims, self), keepdims=keepdim)


def sort(self: Array, _stable: bool, dim: int, descending: bool) -> tuple[Array, Array]:
    places = _order(self, dim, descending)
    return (np.take_along_axis(self, places, dim), places) if self.ndim else (self, np.zeros((), np.int64))


def topk(self: Array, k: int, dim: int, largest: bool, _sorted: bool) -> tuple[Array, Array]:
    if self.ndim == 0:
        return self, np.zeros((), np.int64)
    places = np.take(_order(self, dim, largest), range(k), dim)
    return np.take_along_axis(self, places, dim), places


def _order(self: Array, dim: int, descending: bool) -> Array:
    """Sort stably; backwards, the first one of equals comes first, too."""
    if not descending:
        return np.argsort(self, dim, kind="stable")
    backwards = np.argsort(np.flip(self, dim), dim, kind="stable")
    return self.shape[dim] - 1 - np.flip(backwards, dim)


def trace(self: Array) -> Array:
    return np.trace(self)


def bincount(self: Array, weights: Array | None, minlength: int) -> Array:
    return np.bincount(self, weights, minlength)


def histc(self: Array, bins: int, smallest: Any, largest: Any) -> Array:
    low, high = (self.min(), self.max()) if smallest == largest else (smallest, largest)
    return np.histogram(self, bins, (low - 1, high + 1) if low == high else (low, high))[0]


def _axes(dims: Sequence[int] | None, self: Array) -> tuple[int, ...]:
    """Return the axes. CANN means all dimensions where none is given."""
    return tuple(dims) if dims and self.ndim else tuple(range(self.ndim))


OPERATORS: dict[str, Callable[..., Any]] = {"max": np.max, "min": np.min}
