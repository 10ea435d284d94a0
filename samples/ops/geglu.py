"""Samples geglu, and the three operators it replaces."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

VARIANTS = {"": {}, "tanh": {"approximate": "tanh"}}
FLOPS = (25, 36)


def inputs(draw, rows, cols):
    return [draw.normal(rows, 2 * cols)]


def ours(x, approximate="none"):
    return fused.geglu(x, -1, False, approximate)


def stock(x, approximate="none"):
    up, gate = ops.chunk(x, 2, -1)
    return up * ops.gelu(gate, approximate)


def pytorch(torch, x, approximate="none"):
    up, gate = x.chunk(2, -1)
    return up * torch.nn.functional.gelu(gate, approximate=approximate)


def onnx(approximate="none"):
    gelu = "FastGelu" if approximate == "tanh" else "Gelu"
    return [
        Node("Split", ["x"], ["up", "gate"], attributes={"axis": -1, "num_outputs": 2}),
        Node(gelu, ["gate"], ["gelu"], domain="com.microsoft"),
        Node("Mul", ["gelu", "up"], ["y"]),
    ]
