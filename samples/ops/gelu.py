"""Samples gelu in both forms, and stock GELU."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

VARIANTS = {"": {}, "tanh": {"approximate": "tanh"}}
FLOPS = (24, 32)

ours = fused.gelu


def inputs(draw, rows, cols):
    return [draw.normal(rows, cols)]


def stock(x, approximate="none"):
    return ops.gelu(x, approximate)


def pytorch(torch, x, approximate="none"):
    return torch.nn.functional.gelu(x, approximate=approximate)


def onnx(approximate="none"):
    if approximate == "tanh":
        return [Node("FastGelu", ["x"], ["y"], domain="com.microsoft")]
    return [Node("Gelu", ["x"], ["y"], domain="com.microsoft")]
