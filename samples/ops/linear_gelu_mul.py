"""Samples linear_gelu_mul in both forms of GELU: gate and up of a feed-forward layer, and the operators it replaces."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.ops import linear_silu_mul

from ms_ascend_ops import ops as fused

VARIANTS = {"": {"approximate": "none"}, "tanh": {"approximate": "tanh"}}
SHAPES = linear_silu_mul.SHAPES
SMALL_SHAPES = linear_silu_mul.SMALL_SHAPES
TOLERANCES = linear_silu_mul.TOLERANCES
GRADIENT = ()

ours = fused.linear_gelu_mul
inputs = linear_silu_mul.inputs


def stock(x, gate_weight, up_weight, approximate):
    gate, up = (ops.matmul(x, weight.swapaxes(0, 1)) for weight in (gate_weight, up_weight))
    return ops.gelu(gate, approximate) * up


def pytorch(torch, x, gate_weight, up_weight, approximate):
    linear = torch.nn.functional.linear
    return torch.nn.functional.gelu(linear(x, gate_weight), approximate=approximate) * linear(x, up_weight)
