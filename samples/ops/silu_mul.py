"""Samples silu_mul, and the two operators it replaces."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

FLOPS = (5, 15)

ours = fused.silu_mul


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(rows, cols)]


def stock(gate, up):
    return ops.silu(gate) * up


def pytorch(torch, gate, up):
    return torch.nn.functional.silu(gate) * up


def onnx():
    quick_gelu = Node("QuickGelu", ["gate"], ["silu"], domain="com.microsoft", attributes={"alpha": 1.0})
    return [quick_gelu, Node("Mul", ["silu", "up"], ["y"])]
