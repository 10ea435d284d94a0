"""Computes layers and losses by the names of the graph engine: see graph_engine.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators import convolutions, losses, pooling, reductions
from ms_ascend_ops.device.operators.memory import Array, Tensor
from ms_ascend_ops.device.operators.normalization import centered
from ms_ascend_ops.device.operators.random import dropout_mask

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
_GRADIENT_EPSILON = 1e-12  # the operator gets none


def ge_bias_add(x: Array, bias: Array, data_format: str = "NCHW") -> Array:
    return x + _by_channel(bias, x, data_format)


def ge_bias_add_grad(dy: Array, data_format: str = "NCHW") -> Array:
    channel = _channel(dy, data_format)
    return dy.sum(tuple(axis for axis in range(dy.ndim) if axis != channel))


def _channel(x: Array, data_format: str) -> int:
    return 1 if x.ndim > 2 and data_format.startswith("NC") else x.ndim - 1


def _by_channel(values: Array, x: Array, data_format: str) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 1 - _channel(x, data_format)))


def ge_layer_norm(
    x: Array, gamma: Array, beta: Array, begin_norm_axis: int = 0, epsilon: float = 1e-7
) -> tuple[Array, Array, Array]:
    axes = tuple(range(begin_norm_axis % x.ndim, x.ndim))
    difference, mean, variance = centered(x, axes)
    return difference / np.sqrt(variance + np.float32(epsilon)) * gamma + beta, mean, variance


def ge_layer_norm_grad(dy: Array, x: Array, variance: Array, mean: Array, gamma: Array) -> tuple[Array, Array, Array]:
    axes = tuple(axis for axis in range(x.ndim) if mean.shape[axis] == 1 and axis >= x.ndim - gamma.ndim)
    rstd = 1 / np.sqrt(variance + np.float32(_GRADIENT_EPSILON))
    unit, dunit = (x - mean) * rstd, dy * gamma
    dx = rstd * (dunit - dunit.mean(axes, keepdims=True) - unit * (dunit * unit).mean(axes, keepdims=True))
    rows = tuple(range(x.ndim - gamma.ndim))
    return dx, (dy * unit).sum(rows), dy.sum(rows)


def bn_training_reduce(x: Array) -> tuple[Array, Array]:
    axes = (0, *range(2, x.ndim))
    return x.sum(axes, keepdims=True), np.square(x).sum(axes, keepdims=True)


def bn_training_update(
    x: Array,
    total: Array,
    squares: Array,
    scale: Array,
    offset: Array,
    mean: Array,
    variance: Array,
    factor: float = 0.1,
    epsilon: float = 1e-4,
) -> tuple[Array, ...]:
    """Return the running mean and variance, the normalized x, and the batch's mean and variance."""
    count = x.size // x.shape[1]
    batch_mean = _flat(total) / count
    batch_variance = _flat(squares) / count - np.square(batch_mean)
    unbiased = batch_variance * count / max(count - 1, 1)
    y = _batch_unit(x, batch_mean, batch_variance, epsilon) * _shaped(scale, x) + _shaped(offset, x)
    new_mean = (1 - factor) * _flat(mean) + factor * batch_mean
    new_variance = (1 - factor) * _flat(variance) + factor * unbiased
    return new_mean, new_variance, y, batch_mean, batch_variance


def bn_training_update_grad(
    dy: Array, x: Array, mean: Array, variance: Array, epsilon: float = 1e-4
) -> tuple[Array, Array]:
    axes = (0, *range(2, x.ndim))
    return (dy * _batch_unit(x, mean, variance, epsilon)).sum(axes), dy.sum(axes)


def bn_training_reduce_grad(
    dy: Array,
    x: Array,
    dscale: Array,
    doffset: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    epsilon: float = 1e-4,
) -> Array:
    count = x.size // x.shape[1]
    unit = _batch_unit(x, mean, variance, epsilon)
    centred = dy - _shaped(doffset, x) / count - unit * _shaped(dscale, x) / count
    return bn_infer_grad(centred, scale, variance, epsilon)


def bn_infer(x: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float = 1e-4) -> Array:
    return _batch_unit(x, mean, variance, epsilon) * _shaped(scale, x) + _shaped(offset, x)


def bn_infer_grad(dy: Array, scale: Array, variance: Array, epsilon: float = 1e-4) -> Array:
    return dy * _shaped(scale, dy) / np.sqrt(_shaped(variance, dy) + np.float32(epsilon))


def _flat(values: Array) -> Array:
    return values.reshape(-1)


def _shaped(values: Array, x: Array) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 2))


def _batch_unit(x: Array, mean: Array, variance: Array, epsilon: float) -> Array:
    return (x - _shaped(mean, x)) / np.sqrt(_shaped(variance, x) + np.float32(epsilon))


def conv_2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    strides: Sequence[int] = (1, 1, 1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    *,
    outputs: list[Tensor],
) -> Array:
    moves = strides[2:], pads, dilations[2:]
    return convolutions.convolution(x, weight, bias, *moves, False, (), groups, outputs=outputs)


def conv_2d_backprop_input(
    _size: Array,
    weight: Array,
    dy: Array,
    strides: Sequence[int] = (1, 1, 1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    *,
    outputs: list[Tensor],
) -> Array:
    moves = strides[2:], pads, dilations[2:]
    return convolutions.convolution(dy, weight, None, *moves, True, (), groups, outputs=outputs)


def conv_2d_backprop_filter(
    x: Array,
    _size: Array,
    dy: Array,
    strides: Sequence[int] = (1, 1, 1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    *,
    outputs: list[Tensor],
) -> Any:
    weight = np.empty(outputs[0].shape, np.float32)
    moves = strides[2:], pads, dilations[2:]
    return convolutions.convolution_backward(dy, x, weight, (), *moves, False, (), groups, (0, 1, 0))[1]


def ge_max_pool(
    x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str = "VALID", *, outputs: list[Tensor]
) -> Array:
    window = ksize[2:], strides[2:], _same(x.shape, outputs[0].shape, ksize, strides, padding)
    return pooling.max_pool_with_indices(x, *window, (1,), False, outputs=outputs)[0]


def ge_max_pool_grad(
    x: Array, y: Array, dy: Array, ksize: Sequence[int], strides: Sequence[int], padding: str = "VALID"
) -> Array:
    window = ksize[2:], strides[2:], _same(x.shape, y.shape, ksize, strides, padding)
    outputs = [Tensor(0, 0, 0, y.shape, (), 0)]
    return pooling.max_pool_backward(dy, x, pooling.max_pool_with_indices(x, *window, (1,), False, outputs=outputs)[1])


def ge_avg_pool(
    x: Array, ksize: Sequence[int], strides: Sequence[int], padding: str = "VALID", *, outputs: list[Tensor]
) -> Array:
    window = ksize[2:], strides[2:], _same(x.shape, outputs[0].shape, ksize, strides, padding)
    return pooling.avg_pool(x, *window, False, False, 0, outputs=outputs)


def ge_avg_pool_grad(
    _shape: Array,
    dy: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str = "VALID",
    *,
    outputs: list[Tensor],
) -> Array:
    x = np.empty(outputs[0].shape, np.float32)
    window = ksize[2:], strides[2:], _same(x.shape, dy.shape, ksize, strides, padding)
    return pooling.avg_pool_backward(dy, x, *window, False, False, 0)


def _same(size: Sequence[int], area: Sequence[int], kernel: Sequence[int], stride: Sequence[int], mode: str) -> Any:
    """Return what SAME pads in front; behind it the window ends where the input does."""
    if mode.upper() != "SAME":
        return (0, 0)
    moves = zip(size[2:], area[2:], kernel[2:], stride[2:], strict=True)
    return tuple(max((a - 1) * t + k - s, 0) // 2 for s, a, k, t in moves)


def kl_divergence(x: Array, target: Array, reduction: str = "mean") -> Array:
    return losses.kl_div(x, target, _reduction(reduction), False) / (len(x) if reduction == "batchmean" else 1)


def kl_divergence_grad(dy: Array, x: Array, target: Array, reduction: str = "mean", log_target: int = 0) -> Array:
    share = dy / len(x) if reduction == "batchmean" else dy
    return losses.kl_div_backward(share, x, target, _reduction(reduction), bool(log_target))


def _reduction(text: str) -> int:
    return _REDUCTIONS.get(text, 2)


def l2_normalize(x: Array, axis: Sequence[int] = (), eps: float = 1e-4) -> Array:
    return x / np.sqrt(np.maximum(np.square(x).sum(tuple(axis), keepdims=True), np.float32(eps)))


def l2_normalize_grad(x: Array, y: Array, dy: Array, dim: Sequence[int] = (), eps: float = 1e-4) -> Array:
    axes = tuple(dim)
    length = np.sqrt(np.maximum(np.square(x).sum(axes, keepdims=True), np.float32(eps)))
    return (dy - y * (dy * y).sum(axes, keepdims=True)) / length


def softmax_cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
    logs = reductions.log_softmax(features, -1)
    return -(labels * logs).sum(-1), np.exp(logs) - labels


def sparse_softmax_cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
    return softmax_cross_entropy(features, np.eye(features.shape[-1], dtype=np.float32)[labels])


def smooth_l1_of(predict: Array, label: Array, sigma: float = 1.0) -> Array:
    return losses.smooth_l1_loss(predict, label, 0, sigma)


def smooth_l1_grad_of(predict: Array, label: Array, dout: Array, sigma: float = 1.0) -> Array:
    return losses.smooth_l1_loss_backward(dout, predict, label, 0, sigma)


def softmax_of(x: Array, axes: Sequence[int] = (-1,)) -> Array:
    most = x.max(tuple(axes), keepdims=True)
    powers = np.exp(x - most)
    return powers / powers.sum(tuple(axes), keepdims=True)


def drop_out_gen_mask(shape: Array, keep: Array, seed: int = 0, seed2: int = 0, *, outputs: list[Tensor]) -> Array:
    return dropout_mask(shape.tolist(), 1 - float(keep.reshape(())), seed, seed2, 0, outputs=outputs)


def drop_out_do_mask(x: Array, mask: Array, keep: Array) -> Array:
    kept = np.unpackbits(mask.reshape(-1).view(np.uint8), count=x.size, bitorder="little").astype(bool)
    return np.where(kept.reshape(x.shape), x / keep.reshape(()), 0)
