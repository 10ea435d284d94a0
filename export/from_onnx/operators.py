"""Writes ONNX's operators as Python expressions of `mindspore.ops`, for sizes that are known.

A function takes a `Node` and returns the expression of its output; of several outputs one that has them in order.
"""

from __future__ import annotations

from ms_ascend_ops.export.from_onnx import elementwise, layout, norms, products, reductions, windows
from ms_ascend_ops.export.from_onnx.node import Writer
from ms_ascend_ops.export.from_onnx.softmax import softmax

__all__ = ["OPERATORS"]

OPERATORS: dict[str, Writer] = {
    **elementwise.OPERATORS,
    **layout.OPERATORS,
    **norms.OPERATORS,
    **products.OPERATORS,
    **reductions.OPERATORS,
    "AveragePool": windows.average_pool,
    "Conv": windows.conv,
    "ConvTranspose": windows.conv_transpose,
    "LogSoftmax": softmax,
    "MaxPool": windows.max_pool,
    "Resize": windows.resize,
    "Softmax": softmax,
}
