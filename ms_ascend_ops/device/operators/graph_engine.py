"""Operators by their names of the graph engine (aclopCompileAndExecute): tensors by position, attributes by name."""

from __future__ import annotations

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


def ge_layer_norm(
    x: Array, gamma: Array, beta: Array, *, begin_norm_axis: int = 0, begin_params_axis: int = 0, epsilon: float = 1e-7
) -> tuple[Array, Array, Array]:
    axes = tuple(range(begin_norm_axis % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    variance = x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float32(epsilon)) * gamma + beta, mean, variance
