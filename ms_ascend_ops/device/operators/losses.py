"""Computes losses and their gradients. Reduction 0: none, 1: mean, 2: sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.elementwise import sigmoid
from ms_ascend_ops.device.operators.memory import Array
from ms_ascend_ops.device.operators.reductions import log_softmax

_NONE, _MEAN = 0, 1


def _reduced(values: Array, reduction: int) -> Array:
    if reduction == _NONE:
        return values
    return np.asarray(np.mean(values) if reduction == _MEAN else np.sum(values))


def _share(grad: Array, reduction: int, count: int) -> Array:
    """Return what each element gets of the gradient of a loss."""
    return grad / count if reduction == _MEAN else grad


def _count(*tensors: Array) -> int:
    return int(np.prod(np.broadcast_shapes(*(tensor.shape for tensor in tensors))))


def mse_loss(self: Array, target: Array, reduction: int) -> Array:
    return _reduced(np.square(self - target), reduction)


def mse_loss_backward(grad: Array, self: Array, target: Array, reduction: int) -> Array:
    return _share(grad, reduction, _count(self, target)) * 2 * (self - target)


def l1_loss(self: Array, target: Array, reduction: int) -> Array:
    return _reduced(np.abs(self - target), reduction)


def l1_loss_backward(grad: Array, self: Array, target: Array, reduction: int) -> Array:
    return _share(grad, reduction, _count(self, target)) * np.sign(self - target)


def smooth_l1_loss(self: Array, target: Array, reduction: int, beta: float) -> Array:
    far = np.abs(self - target)
    near = far * far / (2 * beta) if beta > 0 else far
    return _reduced(np.where(far < beta, near, far - beta / 2), reduction)


def smooth_l1_loss_backward(grad: Array, self: Array, target: Array, reduction: int, beta: float) -> Array:
    difference = self - target
    slope = np.where(np.abs(difference) < beta, difference / (beta or 1), np.sign(difference))
    return _share(grad, reduction, _count(self, target)) * slope


def soft_margin_loss(self: Array, target: Array, reduction: int) -> Array:
    return _reduced(np.logaddexp(0, -self * target), reduction)


def soft_margin_loss_backward(grad: Array, self: Array, target: Array, reduction: int) -> Array:
    return _share(grad, reduction, _count(self, target)) * -target * sigmoid(-self * target)


def kl_div(self: Array, target: Array, reduction: int, log_target: bool) -> Array:
    if log_target:
        return _reduced(np.exp(target) * (target - self), reduction)
    return _reduced(np.where(target > 0, target * (np.log(np.where(target > 0, target, 1)) - self), 0), reduction)


def kl_div_backward(grad: Array, self: Array, target: Array, reduction: int, log_target: bool) -> Array:
    slope = -np.exp(target) if log_target else np.where(target > 0, -target, 0)
    return _share(grad, reduction, _count(self, target)) * slope


def binary_cross_entropy(self: Array, target: Array, weight: Array | None, reduction: int) -> Array:
    """Compute the loss. Logarithms end at -100."""
    loss = -(target * np.maximum(np.log(self), -100) + (1 - target) * np.maximum(np.log1p(-self), -100))
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_backward(
    grad: Array, self: Array, target: Array, weight: Array | None, reduction: int
) -> Array:
    slope = (self - target) / np.maximum(self * (1 - self), 1e-12)
    return _share(grad, reduction, self.size) * (slope if weight is None else slope * weight)


def binary_cross_entropy_with_logits(
    self: Array, target: Array, weight: Array | None, pos_weight: Array | None, reduction: int
) -> Array:
    positive = 1 if pos_weight is None else pos_weight
    loss = positive * target * np.logaddexp(0, -self) + (1 - target) * np.logaddexp(0, self)
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits_backward(
    grad: Array, self: Array, target: Array, weight: Array | None, pos_weight: Array | None, reduction: int
) -> Array:
    positive = target if pos_weight is None else pos_weight * target
    slope = (positive + 1 - target) * sigmoid(self) - positive
    return _share(grad, reduction, _count(self, target)) * (slope if weight is None else slope * weight)


def nll_loss(self: Array, target: Array, weight: Array | None, reduction: int, ignore: int) -> tuple[Array, Array]:
    """Return the loss, and the sum of the weights of all targets."""
    classes, weights = _classes(self, target, weight, ignore)
    axis = _axis(self)
    loss = -np.take_along_axis(self, np.expand_dims(classes, axis), axis)
    loss = loss.reshape(target.shape) * weights
    total = weights.sum()
    if reduction == _NONE:
        return loss, total
    return loss.sum() / (total if reduction == _MEAN else 1), total


def nll_loss_backward(
    grad: Array, self: Array, target: Array, weight: Array | None, reduction: int, ignore: int, total: Array
) -> Array:
    classes, weights = _classes(self, target, weight, ignore)
    share = -grad * weights / (total.reshape(()) if reduction == _MEAN else 1)
    result = np.zeros(self.shape, np.float32)
    axis = _axis(self)
    np.put_along_axis(result, np.expand_dims(classes, axis), np.expand_dims(share, axis), axis)
    return result


def _axis(self: Array) -> int:
    """Return the axis of the classes."""
    return min(1, self.ndim - 1)


def _classes(self: Array, target: Array, weight: Array | None, ignore: int) -> tuple[Array, Array]:
    """Return the class of each target, and its weight, which is 0 where it is ignored."""
    seen = target != ignore
    classes = np.where(seen, target, 0)
    count = self.shape[_axis(self)]
    if classes.size and (classes.min() < 0 or classes.max() >= count):
        raise IndexError(f"targets go from {classes.min()} to {classes.max()}, there are {count} classes")
    return classes, np.where(seen, 1.0 if weight is None else weight[classes], 0.0).astype(np.float32)


def cross_entropy_loss(
    x: Array,
    target: Array,
    weight: Array | None,
    reduction: str | None,
    ignore: int,
    smoothing: float,
    _scale: float,
    _return_z: bool,
) -> tuple[Array, Array, None, None]:
    logs = log_softmax(x, -1)
    kind = {"none": 0, "mean": 1, "sum": 2}[reduction or "mean"]
    loss, total = nll_loss(logs, target, weight, kind, ignore)
    if smoothing:
        weights = 1.0 if weight is None else weight
        spread = -(logs * weights).sum(-1) * (target != ignore)
        smooth = spread if kind == _NONE else spread.sum() / (total if kind == _MEAN else 1)
        loss = (1 - smoothing) * loss + smoothing / x.shape[-1] * smooth
    return loss, logs, None, None


def cross_entropy_loss_grad(
    grad: Array,
    logs: Array,
    target: Array,
    weight: Array | None,
    _grad_z: Any,
    _lse: Any,
    reduction: str | None,
    ignore: int,
    smoothing: float,
    _scale: float,
) -> Array:
    kind = {"none": 0, "mean": 1, "sum": 2}[reduction or "mean"]
    classes, weights = _classes(logs, target, weight, ignore)
    share = grad / weights.sum() if kind == _MEAN else grad
    dlogs = np.zeros(logs.shape, np.float32)
    np.put_along_axis(dlogs, classes[:, None], ((smoothing - 1) * weights * share)[:, None], 1)
    if smoothing:
        seen = (target != ignore)[:, None] * np.reshape(share, (-1, 1))
        dlogs -= smoothing / logs.shape[1] * seen * (1.0 if weight is None else weight)
    return dlogs - np.exp(logs) * dlogs.sum(1, keepdims=True)
