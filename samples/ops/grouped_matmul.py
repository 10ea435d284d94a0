"""Samples grouped_matmul of tokens sorted by expert; stock operators take expert by expert."""

from __future__ import annotations

import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate
from ms_ascend_ops.samples.operators import Call

from ms_ascend_ops import ops as fused

# nn.Dense keeps a matrix like this.
VARIANTS = {"": {"transpose_weight": True}}
# M, experts, N, K.
SHAPES = (
    (2, 8, 512, 256),  # a token of two experts
    (512, 8, 1024, 1024),
    (1024, 32, 768, 512),  # many small experts
    (333, 5, 777, 1029),
)
SMALL_SHAPES = ((7, 3, 5, 4), (6, 2, 4, 6))
# Kernels sum K products in different orders.
TOLERANCES = {"float32": 1e-4}
# The gradient of x is another product of groups.
GRADIENT = (
    Call("grouped_matmul", {"x": "dy"}, {"y": "dx"}, {"transpose_weight": False}),
    Call("grouped_matmul_grad"),
)


def inputs(draw, rows, experts, cols, inner):
    # Experts get more and more tokens; the second one none, where there are three.
    ends = (rows * np.arange(1, experts + 1) ** 2 // experts**2).astype(np.int32)
    if experts > 2:
        ends[1] = ends[0]
    weight = draw.normal(experts, cols, inner)
    return [draw.normal(rows, inner), (weight / inner**0.5).astype(weight.dtype), ends]


def ours(x, weight, group_list, transpose_weight):
    return fused.grouped_matmul(x, weight, group_list, transpose_weight)


def stock(x, weight, group_list, transpose_weight):
    """A graph knows no lengths of slices: every expert has all rows, and those of others become 0."""
    rows, y = ops.arange(x.shape[0]).expand_dims(1), 0
    begins = ops.concat([group_list[:1] * 0, group_list[:-1]])
    for expert in range(weight.shape[0]):
        own = ops.logical_and(rows >= begins[expert], rows < group_list[expert])
        y = y + ops.matmul(x, weight[expert].swapaxes(0, 1)) * own.astype(x.dtype)
    return y


def pytorch(torch, x, weight, group_list, transpose_weight):
    ends = group_list.tolist()
    parts = zip([0, *ends[:-1]], ends, weight, strict=True)
    return torch.cat([torch.nn.functional.linear(x[begin:end], matrix) for begin, end, matrix in parts])


def grouped_matmul_v4(x, weight, group_list, transpose_weight):
    """Take lists of tensors; its ends are int64, and its matrices are not transposed."""
    ends = group_list.astype("int64")
    return auto_generate.grouped_matmul_v4(
        [x], [weight.swapaxes(-1, -2)], group_list=ends, split_item=3, group_type=0, group_list_type=0
    )[0]


CANN = {"GroupedMatmulV4": grouped_matmul_v4}
CANN_SHAPE = (512, 8, 1024, 1024)
