"""Samples softmax over the last axis, which is also one operator of stock MindSpore."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

FLOPS = (5, 4)


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols)]


ours = fused.softmax


def stock(x):
    return ops.softmax(x, -1)


def pytorch(torch, x):
    return torch.softmax(x, -1)


def onnx():
    return [Node("Softmax", ["x"], ["y"], attributes={"axis": -1})]
