"""Samples swiglu, and the three operators it replaces."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

FLOPS = (5, 15)

ours = fused.swiglu


def inputs(draw, rows, cols):
    return [draw.normal(rows, 2 * cols)]


def stock(x):
    gate, up = ops.chunk(x, 2, -1)
    return ops.silu(gate) * up


def pytorch(torch, x):
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


def onnx():
    quick_gelu = Node("QuickGelu", ["gate"], ["silu"], domain="com.microsoft", attributes={"alpha": 1.0})
    split = Node("Split", ["x"], ["gate", "up"], attributes={"axis": -1, "num_outputs": 2})
    return [split, quick_gelu, Node("Mul", ["silu", "up"], ["y"])]
