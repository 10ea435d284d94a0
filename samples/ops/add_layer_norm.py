"""Samples add_layer_norm over the last axis."""

from __future__ import annotations

from ms_ascend_ops.samples.operators import Call
from ms_ascend_ops.samples.ops import layer_norm

from ms_ascend_ops import ops as fused

FLOPS = (8, 17)
# What comes in through the sum is the gradient of the output x; what goes out is that of x1, and of x2.
GRADIENT = (Call("add_layer_norm_grad", {"dresidual": "dx"}, {"dx": "dx1"}),)


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(rows, cols), draw.normal(cols), draw.normal(cols)]


def ours(x1, x2, gamma, beta):
    return fused.add_layer_norm(x1, x2, gamma, beta, layer_norm.EPSILON)[0]


def stock(x1, x2, gamma, beta):
    return layer_norm.stock(x1 + x2, gamma, beta)


def pytorch(torch, x1, x2, gamma, beta):
    return layer_norm.pytorch(torch, x1 + x2, gamma, beta)
