"""Samples add_rms_norm, beside what a LLaMA writes."""

from __future__ import annotations

from ms_ascend_ops.samples.operators import Call
from ms_ascend_ops.samples.ops import rms_norm

from ms_ascend_ops import ops as fused

FLOPS = (5, 15)
# What comes in through the sum is the gradient of the output x; what goes out is that of x1, and of x2.
GRADIENT = (Call("add_rms_norm_grad", {"dresidual": "dx"}, {"dx": "dx1"}),)


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(rows, cols), draw.normal(cols)]


def ours(x1, x2, gamma):
    return fused.add_rms_norm(x1, x2, gamma, rms_norm.EPSILON)[0]


def stock(x1, x2, gamma):
    return rms_norm.stock(x1 + x2, gamma)


def pytorch(torch, x1, x2, gamma):
    return rms_norm.pytorch(torch, x1 + x2, gamma)
