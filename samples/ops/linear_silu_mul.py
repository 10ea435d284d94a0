"""Samples linear_silu_mul: gate and up of a prompt and of one token, and the operators it replaces."""

from __future__ import annotations

from mindspore import ops

from ms_ascend_ops import ops as fused

# M, N, K.
SHAPES = ((1, 1408, 1024), (1, 5632, 2048), (128, 5632, 2048), (512, 2816, 1024), (333, 1029, 777))
SMALL_SHAPES = ((3, 5, 7), (2, 4, 6))
# Kernels sum K products in different orders.
TOLERANCES = {"float32": 1e-4}
# The gradient is made of products.
GRADIENT = ()

ours = fused.linear_silu_mul


def inputs(draw, rows, cols, inner):
    weights = [draw.normal(cols, inner) for _ in range(2)]
    return [draw.normal(rows, inner), *((weight / inner**0.5).astype(weight.dtype) for weight in weights)]


def stock(x, gate_weight, up_weight):
    return ops.silu(ops.matmul(x, gate_weight.swapaxes(0, 1))) * ops.matmul(x, up_weight.swapaxes(0, 1))


def pytorch(torch, x, gate_weight, up_weight):
    linear = torch.nn.functional.linear
    return torch.nn.functional.silu(linear(x, gate_weight)) * linear(x, up_weight)
