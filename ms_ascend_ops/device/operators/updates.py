"""Steps of optimizers, and what else changes parameters in place."""

from __future__ import annotations

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
    """AdamW; `step` counts the steps before this one."""
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
