"""Writes ONNX's Softmax and LogSoftmax.

MindSpore's kernel on a CPU spoils the rows behind a row of -inf alone, as a mask makes them, and has zeros for a row
that is NaN in ONNX. Where a row may be like that, softmax is written by its formula, which patterns know, too.
"""

from __future__ import annotations

import math

import numpy as np
from ms_ascend_ops.export.from_onnx.graph import Array, Graph
from ms_ascend_ops.export.from_onnx.node import DTYPES, Node

__all__ = ["softmax"]

# Their result is finite where their input is.
_FINITE = {
    *("BatchNormalization", "Conv", "ConvTranspose", "Cos", "Erf", "Gelu", "Gemm", "GlobalAveragePool", "HardSigmoid"),
    *("HardSwish", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "MatMul", "Mish"),
    *("RMSNormalization", "Relu", "Sigmoid", "Sin", "Softmax", "Softplus", "Softsign", "Tanh"),
}

# The result of the first is as large as all their inputs, of the second as the first input.
_OF_ALL = {"Add", "Concat", "Max", "Mean", "Min", "Mul", "Sub", "Sum"}
_OF_FIRST = {
    *("DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "Identity", "Neg", "Reshape", "Slice", "Split"),
    *("Squeeze", "Tile", "Transpose", "Unsqueeze"),
}

# Masks have the most negative number of their dtype, and the sum of two of them is -inf.
_LARGE = {"float16": 6e4, "bfloat16": 1e38, "float32": 1e38, "float64": 1e300}


def softmax(n: Node) -> str:
    """Write Softmax or LogSoftmax, over one axis or, before opset 13, over all from one on."""
    function = {"Softmax": "softmax", "LogSoftmax": "log_softmax"}[n.node.op_type]
    shape, axis, x = n.shape(0), n.axis(-1 if n.opset >= 13 else 1), n[0]
    flat = n.opset < 13
    if flat:
        x, axis = f"ops.reshape({x}, {(math.prod(shape[:axis]), math.prod(shape[axis:]))})", 1
    if not _may_be_infinite(n.graph, n.names[0]):
        result = f"ops.{function}({x}, {axis})"
    elif n.dtype(0) in ("float16", "bfloat16"):
        result = f"_{function}({x}.astype(ms.float32), {axis}).astype(ms.{n.dtype(0)})"
    else:
        result = f"_{function}({x}, {axis})"
    return f"ops.reshape({result}, {shape})" if flat else result


def _may_be_infinite(graph: Graph, name: str) -> bool:
    """Tell whether a value may hold inf or -inf though all products are finite: large activations are unknown here."""
    producers = {output: node for node in graph.nodes for output in node.output}
    left, seen = [name], set()
    while left:
        name = left.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        dtype = DTYPES.get(graph.dtype(name) or 0, "")
        if dtype not in _LARGE:
            continue
        if name in graph.constants:
            if _is_large(graph.constants[name], _LARGE[dtype]):
                return True
            continue
        node = producers.get(name)
        if node is None:
            return True
        if node.op_type in _OF_ALL:
            left += node.input
        elif node.op_type in _OF_FIRST:
            left.append(node.input[0])
        elif node.op_type == "Where":
            left += node.input[1:]
        elif node.op_type == "Div" and (divisor := graph.constants.get(node.input[1])) is not None and divisor.all():
            left.append(node.input[0])
        elif node.op_type not in _FINITE:
            return True
    return False


def _is_large(values: Array, most: float) -> bool:
    return bool((np.abs(values.astype(np.float64)) >= most).any())
