"""Samples add, beside stock addition."""

from __future__ import annotations

from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

FLOPS = (1, 0)

ours = fused.add


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(rows, cols)]


def stock(x, y):
    return x + y


def pytorch(torch, x, y):
    return x + y


def onnx():
    return [Node("Add", ["x", "y"], ["z"])]
