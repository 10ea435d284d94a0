"""Computes steps of optimizers: new values of what they change in place, in the order of the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


def apply_adam_w(
    var: Array,
    m: Array,
    v: Array,
    most: Array | None,
    grad: Array,
    step: Array,
    lr: float,
    beta1: float,
    beta2: float,
    decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
) -> tuple[Array, Array, Array, Array | None]:
    """Apply AdamW; `step` counts the steps before this one."""
    grad = -grad if maximize else grad
    count = float(step.reshape(-1)[0]) + 1
    var = var * (1 - lr * decay)
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    largest = v
    if amsgrad and most is not None:
        most = largest = np.maximum(most, v)
    denominator = np.sqrt(largest) / np.sqrt(1 - beta2**count) + eps
    return var - lr / (1 - beta1**count) * m / denominator, m, v, most


def apply_adam(
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
    use_nesterov: int = 0,
) -> tuple[Array, Array, Array]:
    rate = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad * grad - v)
    direction = beta1 * m + (1 - beta1) * grad if use_nesterov else m
    return var - rate * direction / (np.sqrt(v) + epsilon), m, v


def apply_adam_with_amsgrad(
    var: Array,
    m: Array,
    v: Array,
    most: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
) -> tuple[Array, Array, Array, Array]:
    rate = lr * np.sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (1 - beta1) * (grad - m)
    v = v + (1 - beta2) * (grad * grad - v)
    most = np.maximum(most, v)
    return var - rate * m / (np.sqrt(most) + epsilon), m, v, most


def apply_momentum(
    var: Array, accum: Array, lr: Array, grad: Array, momentum: Array, use_nesterov: int = 0
) -> tuple[Array, Array]:
    accum = accum * momentum + grad
    return var - lr * (grad + momentum * accum if use_nesterov else accum), accum


def apply_gradient_descent(var: Array, alpha: Array, delta: Array) -> Array:
    return var - alpha * delta


def sgd(
    var: Array,
    grad: Array,
    lr: Array,
    accum: Array,
    momentum: Array,
    stat: Array,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: int = 0,
) -> tuple[Array, Array, Array]:
    """Apply SGD; `stat` is not 0 in the first step."""
    grad = grad + weight_decay * var
    accum = np.where(stat != 0, grad, accum * momentum + (1 - dampening) * grad)
    step = grad + momentum * accum if nesterov else accum
    return var - lr * np.where(momentum == 0, grad, step), accum, np.zeros_like(stat)


def apply_rms_prop(
    var: Array, ms: Array, mom: Array, lr: Array, grad: Array, rho: Any = 0, momentum: Any = 0, epsilon: Any = 0
) -> tuple[Array, Array, Array]:
    ms = rho * ms + (1 - rho) * grad * grad
    mom = momentum * mom + lr * grad / np.sqrt(ms + epsilon)
    return var - mom, ms, mom


def apply_rms_prop_of_tensors(
    var: Array, ms: Array, mom: Array, lr: Array, rho: Array, momentum: Array, epsilon: Array, grad: Array
) -> tuple[Array, Array, Array]:
    return apply_rms_prop(var, ms, mom, lr, grad, rho, momentum, epsilon)


def apply_centered_rms_prop(
    var: Array, mg: Array, ms: Array, mom: Array, lr: Array, rho: Array, momentum: Array, epsilon: Array, grad: Array
) -> tuple[Array, Array, Array, Array]:
    mg = rho * mg + (1 - rho) * grad
    ms = rho * ms + (1 - rho) * grad * grad
    mom = momentum * mom + lr * grad / np.sqrt(ms - mg * mg + epsilon)
    return var - mom, mg, ms, mom


def apply_adagrad(var: Array, accum: Array, lr: Array, grad: Array, update_slots: int = 1) -> tuple[Array, Array]:
    accum = accum + grad * grad if update_slots else accum
    return var - lr * grad / np.sqrt(accum), accum


def apply_adagrad_v2(
    var: Array, accum: Array, lr: Array, epsilon: Array, grad: Array, update_slots: int = 1
) -> tuple[Array, Array]:
    accum = accum + grad * grad if update_slots else accum
    return var - lr * grad / (np.sqrt(accum) + epsilon), accum


def apply_ftrl(
    var: Array, accum: Array, linear: Array, grad: Array, lr: Array, l1: Array, l2: Array, lr_power: Array
) -> tuple[Array, Array, Array]:
    new = accum + grad * grad
    linear = linear + grad - (new**-lr_power - accum**-lr_power) / lr * var
    quadratic = new**-lr_power / lr + 2 * l2
    return np.where(np.abs(linear) > l1, (np.sign(linear) * l1 - linear) / quadratic, 0), new, linear


def adam_with_decay(
    grad: Array,
    v: Array,
    m: Array,
    var: Array,
    lr: Array,
    beta1: Array,
    rest1: Array,
    beta2: Array,
    rest2: Array,
    decay: Array,
    epsilon: Array,
) -> tuple[Array, Array, Array]:
    """Apply AdamW without the correction of the first steps."""
    v = beta2 * v + rest2 * grad * grad
    m = beta1 * m + rest1 * grad
    return v, m, var - lr * (m / (np.sqrt(v) + epsilon) + decay * var)


def lamb_update(
    grad: Array,
    v: Array,
    m: Array,
    var: Array,
    beta1: Array,
    rest1: Array,
    beta2: Array,
    rest2: Array,
    epsilon: Array,
    steps: Array,
    use_weight: Array,
    decay: Array,
) -> tuple[Array, Array, Array]:
    """Return v and m after the step, and the step that Lamb scales by the norms of a layer."""
    m = beta1 * m + rest1 * grad
    v = beta2 * v + rest2 * grad * grad
    unit = m / (1 - beta1**steps) / (np.sqrt(v / (1 - beta2**steps)) + epsilon)
    return v, m, unit + decay * var * use_weight


def lamb_apply(weight_norm: Array, step_norm: Array, lr: Array, step: Array, var: Array) -> Array:
    """Apply the step of Lamb. The ratio of the norms is 1 where one of them is 0."""
    known = (weight_norm > 0) & (step_norm > 0)
    return var - lr * np.where(known, weight_norm / np.where(known, step_norm, 1), 1) * step
