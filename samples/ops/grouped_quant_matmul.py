"""Samples grouped_quant_matmul of tokens sorted by expert; stock operators take expert by expert, in float32."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from ms_ascend_ops import ops as fused

# M, experts, N, K.
SHAPES = (
    (2, 8, 512, 256),  # a token of two experts
    (512, 8, 1024, 1024),
    (1024, 32, 768, 512),  # many small experts
    (333, 5, 777, 1029),
)
SMALL_SHAPES = ((7, 3, 5, 4), (6, 2, 4, 33))
TOLERANCES = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


def inputs(draw, rows, experts, cols, inner):
    # Experts get more and more tokens; the second one none, where there are three.
    ends = (rows * np.arange(1, experts + 1) ** 2 // experts**2).astype(np.int32)
    if experts > 2:
        ends[1] = ends[0]
    x = draw.random.integers(-127, 128, (rows, inner)).astype(np.int8)
    weight = draw.random.integers(-127, 128, (experts, cols, inner)).astype(np.int8)
    scale = (draw.random.uniform(0.5, 1.5, (experts, cols)) / (127 * inner**0.5)).astype(draw.normal(1).dtype)
    return [x, weight, scale, ends, (draw.random.uniform(0.5, 1.5, rows) / 64).astype(np.float32)]


def bytes_moved(arrays, gradient):
    """Return the bytes of everything once."""
    return sum(array.nbytes for array in arrays.values())


def ours(x, weight, scale, group_list, pertoken_scale):
    return fused.grouped_quant_matmul(x, weight, scale, group_list, pertoken_scale)


def stock(x, weight, scale, group_list, pertoken_scale):
    """A graph knows no lengths of slices: every expert has all rows, and those of others become 0."""
    rows, y = ops.arange(x.shape[0]).expand_dims(1), 0
    begins = ops.concat([group_list[:1] * 0, group_list[:-1]])
    for expert in range(weight.shape[0]):
        own = ops.logical_and(rows >= begins[expert], rows < group_list[expert])
        product = ops.matmul(x.astype("float32"), weight[expert].astype("float32").swapaxes(0, 1))
        y = y + product * scale.astype("float32")[expert] * own.astype("float32")
    return (y * pertoken_scale.expand_dims(-1)).astype(scale.dtype)


def pytorch(torch, x, weight, scale, group_list, pertoken_scale):
    ends = group_list.tolist()
    parts = [
        torch.nn.functional.linear(x[begin:end].float(), matrix.float()) * factors.float()
        for begin, end, matrix, factors in zip([0, *ends[:-1]], ends, weight, scale, strict=True)
    ]
    return (torch.cat(parts) * pertoken_scale[:, None]).to(scale.dtype)


def grouped_matmul_v4(x, weight, scale, group_list, pertoken_scale):
    """Take lists of tensors; its ends are int64, its matrices are not transposed, scale and result are bfloat16."""
    return auto_generate.grouped_matmul_v4(
        [x],
        [weight.swapaxes(-1, -2)],
        scale=[scale.astype(ms.bfloat16)],
        pre_token_scale=[pertoken_scale],
        group_list=group_list.astype("int64"),
        split_item=3,
        group_type=0,
        group_list_type=0,
    )[0]


CANN = {"GroupedMatmulV4": grouped_matmul_v4}
CANN_SHAPE = (512, 8, 1024, 1024)
