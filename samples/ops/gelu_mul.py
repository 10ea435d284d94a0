"""Samples gelu_mul, and the two operators it replaces."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

VARIANTS = {"": {}, "tanh": {"approximate": "tanh"}}
FLOPS = (25, 36)

ours = fused.gelu_mul


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols), draw.normal(rows, cols)]


def stock(gate, up, approximate="none"):
    return ops.gelu(gate, approximate) * up


def pytorch(torch, gate, up, approximate="none"):
    return torch.nn.functional.gelu(gate, approximate=approximate) * up


def onnx(approximate="none"):
    gelu = "FastGelu" if approximate == "tanh" else "Gelu"
    return [Node(gelu, ["gate"], ["gelu"], domain="com.microsoft"), Node("Mul", ["gelu", "up"], ["y"])]
