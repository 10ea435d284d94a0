"""Computes gradients of element-wise operators, and smaller operators, by the names of the graph engine: see
graph_engine.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators import elementwise, indexing, losses, reductions, resizing, shapes
from ms_ascend_ops.device.operators.memory import Array, Tensor

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def add_n(xs: list[Array]) -> Array:
    return sum(xs[1:], xs[0])


def unpack(x: Array, axis: int = 0) -> list[Array]:
    return [np.take(x, place, axis) for place in range(x.shape[axis])]


def split_of(x: Array, split_dim: int = 0, *, outputs: list[list[Tensor]]) -> list[Array]:
    return shapes.split(x, None, split_dim, outputs=outputs)


def cumsum_of(x: Array, axis: Array, exclusive: int = 0, reverse: int = 0) -> Array:
    dim = int(axis.reshape(()))
    flipped = np.flip(x, dim) if reverse else x
    total = np.cumsum(flipped, dim)
    total = total - flipped if exclusive else total
    return np.flip(total, dim) if reverse else total


def lp_norm(x: Array, p: int = 2, axes: Sequence[int] = (), keepdim: int = 0, epsilon: float = 1e-12) -> Array:
    return np.maximum(reductions.norm(x, p, axes, bool(keepdim)), np.float32(epsilon))


def gather_elements(x: Array, index: Array, dim: int = 0) -> Array:
    return indexing.gather(x, dim, index)


def gather_d(x: Array, dim: Array, index: Array) -> Array:
    return indexing.gather(x, int(dim.reshape(())), index)


def scatter_elements(data: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "none") -> Array:
    return indexing.scatter(data, axis, indices, updates, {"none": 0, "add": 1, "mul": 2}[reduction])


def _chosen_gradient(compare: Callable[..., Array]) -> Callable[..., Any]:
    def gradient(dy: Array, x1: Array, x2: Array, grad_x: int = 1, grad_y: int = 1) -> tuple[Array, Array]:
        first = compare(x1, x2)
        return _summed(np.where(first, dy, 0), x1.shape), _summed(np.where(first, 0, dy), x2.shape)

    return gradient


def _summed(values: Array, shape: Sequence[int]) -> Array:
    """Return the sum over what was broadcast."""
    extra = values.ndim - len(shape)
    axes = (*range(extra), *(extra + axis for axis, size in enumerate(shape) if size == 1))
    return values.sum(axes).reshape(shape) if axes else values


def exp_of(x: Array, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Array:
    inner = scale * x + shift
    return np.exp(inner) if base == -1.0 else np.power(np.float32(base), inner)


def log_of(x: Array, base: float = -1.0, scale: float = 1.0, shift: float = 0.0) -> Array:
    natural = np.log(scale * x + shift)
    return natural if base == -1.0 else natural / np.float32(np.log(base))


def resize_bilinear(x: Array, size: Array, align_corners: int = 0, half_pixel_centers: int = 0) -> Array:
    _only_half_pixels(align_corners, half_pixel_centers)
    return resizing.upsample_linear(x, [int(one) for one in size.reshape(-1)], bool(align_corners))


def resize_bilinear_grad(dy: Array, image: Array, align_corners: int = 0, half_pixel_centers: int = 0) -> Array:
    _only_half_pixels(align_corners, half_pixel_centers)
    return resizing.upsample_linear_backward(dy, dy.shape[2:], image.shape, bool(align_corners))


def _only_half_pixels(align_corners: int, half_pixel_centers: int) -> None:
    if not (align_corners or half_pixel_centers):
        raise NotImplementedError("without align_corners and half_pixel_centers it is not emulated")


def sort_of(x: Array, axis: int = -1, descending: int = 0) -> tuple[Array, Array]:
    return reductions.sort(x, True, axis, bool(descending))


def arg_max_of(x: Array, dimension: Array) -> Array:
    return np.argmax(x, int(dimension.reshape(())))


def arg_min_of(x: Array, dimension: Array) -> Array:
    return np.argmin(x, int(dimension.reshape(())))


def arg_max_with_value(x: Array, dimension: int = 0, keep_dims: int = 0) -> tuple[Array, Array]:
    return reductions.max_dim(x, dimension, bool(keep_dims))[::-1]


def arg_min_with_value(x: Array, dimension: int = 0, keep_dims: int = 0) -> tuple[Array, Array]:
    return reductions.min_dim(x, dimension, bool(keep_dims))[::-1]


def elu_of(x: Array, alpha: float = 1.0) -> Array:
    return elementwise.elu(x, alpha, 1, 1)


def softplus_of(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return elementwise.softplus(x, beta, threshold)


def softplus_grad_of(dy: Array, x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return elementwise.softplus_backward(dy, x, beta, threshold)


def hard_sigmoid_of(x: Array, alpha: float = 1 / 6, beta: float = 0.5) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def leaky_relu_of(x: Array, negative_slope: float = 0.0) -> Array:
    return elementwise.leaky_relu(x, negative_slope)


def leaky_relu_grad_of(dy: Array, x: Array, negative_slope: float = 0.0) -> Array:
    return elementwise.leaky_relu_backward(dy, x, negative_slope, False)


def nll_of(
    x: Array, target: Array, weight: Array | None = None, reduction: str = "mean", ignore_index: int = -100
) -> tuple[Array, Array]:
    return losses.nll_loss(x, target, weight, _REDUCTIONS[reduction], ignore_index)


def nll_grad_of(
    x: Array,
    dy: Array,
    target: Array,
    weight: Array,
    total: Array,
    reduction: str = "mean",
    ignore_index: int = -100,
) -> Array:
    return losses.nll_loss_backward(dy, x, target, weight, _REDUCTIONS[reduction], ignore_index, total)


def cross_entropy_of(x: Array, y: Array, weight: Array | None = None, reduction: str = "mean") -> Array:
    return losses.binary_cross_entropy(x, y, weight, _REDUCTIONS[reduction])


def cross_entropy_grad_of(x: Array, y: Array, dy: Array, weight: Array | None = None, reduction: str = "mean") -> Array:
    return losses.binary_cross_entropy_backward(dy, x, y, weight, _REDUCTIONS[reduction])


def sigmoid_cross_entropy(
    predict: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: str = "none",
) -> Array:
    return losses.binary_cross_entropy_with_logits(predict, target, weight, pos_weight, _REDUCTIONS[reduction])


def sigmoid_cross_entropy_grad(predict: Array, target: Array, dout: Array) -> Array:
    return losses.binary_cross_entropy_with_logits_backward(dout, predict, target, None, None, 0)


def reverse_of(x: Array, axis: Array) -> Array:
    return np.flip(x, tuple(axis.reshape(-1).tolist()))


def line_space(start: Array, stop: Array, number: Array) -> Array:
    return np.linspace(start.reshape(()), stop.reshape(()), int(number.reshape(())))


def matrix_band_part(x: Array, lower: Array, upper: Array) -> Array:
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    below, above = int(lower.reshape(())), int(upper.reshape(()))
    seen = ((rows - columns <= below) | (below < 0)) & ((columns - rows <= above) | (above < 0))
    return np.where(seen, x, 0)


def eye_of(num_rows: int = 0, num_columns: int = 0) -> Array:
    return np.eye(num_rows, num_columns or num_rows)


def gelu_tanh_grad(dy: Array, x: Array, _y: Array) -> Array:
    return elementwise.gelu_tanh_backward(dy, x)


OPERATORS: dict[str, Callable[..., Any]] = {
    "acos_grad": lambda y, dy: -dy / np.sin(y),
    "acosh_grad": lambda y, dy: dy / np.sinh(y),
    "asin_grad": lambda y, dy: dy / np.cos(y),
    "asinh_grad": lambda y, dy: dy / np.cosh(y),
    "atan_grad": lambda x, dy: dy / (1 + x * x),
    "clip_by_value": np.clip,
    "elu_grad_of": lambda dy, y: np.where(y > 0, dy, dy * (y + 1)),
    "hardswish_grad_of": elementwise.hardswish_backward,
    "identity": lambda x: x,
    "inv_grad": lambda x, dy: -dy * x * x,
    "masked_fill_of": lambda x, mask, value: np.where(mask.astype(bool), value, x),
    "maximum_grad": _chosen_gradient(np.greater_equal),
    "minimum_grad": _chosen_gradient(np.less_equal),
    "relu6": lambda x: np.clip(x, 0, 6),
    "relu6_grad": lambda dy, x: np.where((x > 0) & (x < 6), dy, 0),
    "reshape": lambda x, *_: x,
    "sigmoid_grad": lambda y, dy: elementwise.sigmoid_backward(dy, y),
    "squared_difference": lambda x1, x2: np.square(x1 - x2),
    "tanh_grad": lambda y, dy: elementwise.tanh_backward(dy, y),
}
