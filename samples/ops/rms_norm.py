"""Samples rms_norm, and what a LLaMA writes."""

from __future__ import annotations

import mindspore as ms
from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

EPSILON = 1e-6
FLOPS = (4, 14)


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(cols)]


def ours(x, gamma):
    return fused.rms_norm(x, gamma, EPSILON)[0]


def stock(x, gamma):
    values = x.astype(ms.float32)
    variance = values.pow(2).mean(-1, keep_dims=True)
    values = values * ops.rsqrt(variance + EPSILON)
    return gamma * values.astype(x.dtype)


def pytorch(torch, x, gamma):
    return torch.nn.functional.rms_norm(x, gamma.shape, gamma, EPSILON)


def onnx():
    return [Node("SimplifiedLayerNormalization", ["x", "gamma"], ["y"], attributes={"epsilon": EPSILON, "axis": -1})]
