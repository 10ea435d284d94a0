"""Samples layer_norm over the last axis."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

EPSILON = 1e-5
FLOPS = (7, 16)


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(cols), draw.normal(cols)]


def ours(x, gamma, beta):
    return fused.layer_norm(x, gamma, beta, EPSILON)[0]


def stock(x, gamma, beta):
    return ops.LayerNorm(-1, -1, EPSILON)(x, gamma, beta)[0]


def pytorch(torch, x, gamma, beta):
    return torch.nn.functional.layer_norm(x, gamma.shape, gamma, beta, EPSILON)


def onnx():
    return [Node("LayerNormalization", ["x", "gamma", "beta"], ["y"], attributes={"epsilon": EPSILON, "axis": -1})]
