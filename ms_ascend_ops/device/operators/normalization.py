"""Computes normalizations and their gradients; means and variances in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array, Tensor


def centered(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Return x less its mean along the axes; the mean; the variance.

    The mean is rounded, which is much where it is many times the deviation: what is left of it is taken off, too.
    """
    x = x.astype(np.float32)
    mean = x.mean(axes, keepdims=True)
    difference = x - mean
    left = difference.mean(axes, keepdims=True)
    difference -= left
    return difference, mean + left, np.square(difference).mean(axes, keepdims=True)


def _normalized(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """Return x with mean 0 and variance 1 along the axes; the mean; one by the standard deviation."""
    difference, mean, variance = centered(x, axes)
    rstd = 1 / np.sqrt(variance + np.float32(eps))
    return difference * rstd, mean, rstd


def _normalized_gradient(dy: Array, unit: Array, rstd: Array, axes: tuple[int, ...]) -> Array:
    """Return the gradient of what was normalized, from the gradient of `unit`."""
    return rstd * (dy - dy.mean(axes, keepdims=True) - unit * (dy * unit).mean(axes, keepdims=True))


def _last(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(-len(shape), 0))


def layer_norm(
    x: Array, shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    unit, mean, rstd = _normalized(x, _last(shape), eps)
    y = unit if weight is None else unit * weight
    return y if bias is None else y + bias, mean, rstd


def layer_norm_backward(
    dy: Array, x: Array, shape: Sequence[int], mean: Array, rstd: Array, weight: Array | None, _bias: Any, _mask: Any
) -> tuple[Array, Array, Array]:
    rows = tuple(range(x.ndim - len(shape)))
    mean, rstd = (one.reshape(*x.shape[: x.ndim - len(shape)], *[1] * len(shape)) for one in (mean, rstd))
    unit = (x - mean) * rstd
    dunit = dy if weight is None else dy * weight
    return _normalized_gradient(dunit, unit, rstd, _last(shape)), (dy * unit).sum(rows), dy.sum(rows)


def add_layer_norm(
    x1: Array, x2: Array, gamma: Array, beta: Array, bias: Array | None, eps: float, _more: bool
) -> tuple[Array, Array, Array, Array]:
    x = x1 + x2 if bias is None else x1 + x2 + bias
    return (*layer_norm(x, gamma.shape, gamma, beta, eps), x)


def add_layer_norm_grad(
    dy: Array, x1: Array, x2: Array, rstd: Array, mean: Array, gamma: Array, dsum: Array | None
) -> tuple[Array, Array, Array]:
    dx, dgamma, dbeta = layer_norm_backward(dy, x1 + x2, gamma.shape, mean, rstd, gamma, None, None)
    return dx if dsum is None else dx + dsum, dgamma, dbeta


def rms_norm(x: Array, gamma: Array, eps: float) -> tuple[Array, Array]:
    axes = _last(gamma.shape)
    rstd = 1 / np.sqrt(np.square(x).mean(axes, keepdims=True) + np.float32(eps))
    return x * rstd * gamma, rstd


def rms_norm_grad(dy: Array, x: Array, rstd: Array, gamma: Array) -> tuple[Array, Array]:
    axes = _last(gamma.shape)
    rstd = rstd.reshape(*x.shape[: x.ndim - gamma.ndim], *[1] * gamma.ndim)
    unit, dunit = x * rstd, dy * gamma
    dx = rstd * (dunit - unit * (dunit * unit).mean(axes, keepdims=True))
    return dx, (dy * unit).sum(tuple(range(x.ndim - gamma.ndim)))


def add_rms_norm(x1: Array, x2: Array, gamma: Array, eps: float) -> tuple[Array, Array, Array]:
    x = x1 + x2
    return (*rms_norm(x, gamma, eps), x)


def group_norm(
    x: Array, gamma: Array | None, beta: Array | None, n: int, c: int, area: int, group: int, eps: float
) -> tuple[Array, Array, Array]:
    unit, mean, rstd = _normalized(x.reshape(n, group, c // group * area), (2,), eps)
    y = unit.reshape(n, c, area)
    y = y if gamma is None else y * gamma.reshape(c, 1)
    return y if beta is None else y + beta.reshape(c, 1), mean, rstd


def group_norm_backward(
    dy: Array,
    x: Array,
    mean: Array,
    rstd: Array,
    gamma: Array | None,
    n: int,
    c: int,
    area: int,
    group: int,
    _mask: Any,
) -> tuple[Array, Array, Array]:
    dy, grouped = dy.reshape(n, c, area), (n, group, c // group * area)
    rstd = rstd.reshape(n, group, 1)
    unit = (x.reshape(grouped) - mean.reshape(n, group, 1)) * rstd
    dunit = dy if gamma is None else dy * gamma.reshape(c, 1)
    dx = _normalized_gradient(dunit.reshape(grouped), unit, rstd, (2,))
    return dx, (dy * unit.reshape(n, c, area)).sum((0, 2)), dy.sum((0, 2))


def batch_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    outputs: list[Tensor],
) -> tuple[Array | None, ...]:
    """Return running mean and variance, y, and the mean and 1 / deviation that the gradient takes.

    Without training PyTorch passes empty tensors for these two, which stay so.
    """
    if training or running_mean is None or running_var is None:
        unit, mean, rstd = _normalized(x, _channels(x), eps)
        mean, rstd = mean.reshape(-1), rstd.reshape(-1)
        count = x.size // max(x.shape[1], 1)
        variance = x.var(_channels(x)) * count / max(count - 1, 1)
        running_mean, running_var = (
            None if old is None else (1 - momentum) * old + momentum * new
            for old, new in ((running_mean, mean), (running_var, variance))
        )
    else:
        mean, rstd = running_mean, 1 / np.sqrt(running_var + np.float32(eps))
        unit = (x - _shaped(mean, x)) * _shaped(rstd, x)
    y = unit if weight is None else unit * _shaped(weight, x)
    y = y if bias is None else y + _shaped(bias, x)
    kept = [
        None if output is None or not np.prod(output.shape) else one
        for output, one in zip(outputs[-2:], (mean, rstd), strict=True)
    ]
    return running_mean, running_var, y, *kept


def batch_norm_backward(
    dy: Array,
    x: Array,
    weight: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    mean: Array | None,
    rstd: Array | None,
    training: bool,
    eps: float,
    _mask: Any,
) -> tuple[Array, Array, Array]:
    if not training or mean is None or rstd is None:
        assert running_mean is not None
        assert running_var is not None
        mean, rstd = running_mean, 1 / np.sqrt(running_var + np.float32(eps))
    axes, scale = _channels(x), _shaped(rstd, x)
    unit = (x - _shaped(mean, x)) * scale
    dunit = dy if weight is None else dy * _shaped(weight, x)
    dx = _normalized_gradient(dunit, unit, scale, axes) if training else dunit * scale
    return dx, (dy * unit).sum(axes), dy.sum(axes)


def batch_norm_stats(x: Array, eps: float) -> tuple[Array, Array]:
    _, mean, rstd = _normalized(x, _channels(x), eps)
    return mean.reshape(-1), rstd.reshape(-1)


def batch_norm_elemt(
    x: Array, weight: Array | None, bias: Array | None, mean: Array, rstd: Array, _eps: float
) -> Array:
    unit = (x - _shaped(mean, x)) * _shaped(rstd, x)
    y = unit if weight is None else unit * _shaped(weight, x)
    return y if bias is None else y + _shaped(bias, x)


def _channels(x: Array) -> tuple[int, ...]:
    """Return all axes but that of channels."""
    return (0, *range(2, x.ndim))


def _shaped(values: Array, x: Array) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 2))
