"""Samples quant_matmul of one token and of a prompt."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from ms_ascend_ops import ops as fused

# M, N, K.
SHAPES = ((1, 1536, 576), (1, 4096, 4096), (128, 4096, 4096), (333, 1029, 800))
SMALL_SHAPES = ((3, 5, 64), (2, 4, 33))
TOLERANCES = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}


def inputs(draw, rows, cols, inner):
    x, weight = (draw.random.integers(-127, 128, shape).astype(np.int8) for shape in ((rows, inner), (cols, inner)))
    scale = (draw.random.uniform(0.5, 1.5, cols) / (127 * inner**0.5)).astype(draw.normal(1).dtype)
    row_scale = (draw.random.uniform(0.5, 1.5, rows) / 64).astype(np.float32)
    return [x, weight, scale, row_scale, draw.normal(cols, dtype="float32")]


def bytes_moved(arrays, gradient):
    """Return the bytes of everything once."""
    return sum(array.nbytes for array in arrays.values())


def ours(x, weight, scale, pertoken_scale, bias):
    return fused.quant_matmul(x, weight, scale, pertoken_scale, bias)


def stock(x, weight, scale, pertoken_scale, bias):
    product = ops.matmul(x.astype("float32"), weight.astype("float32").swapaxes(0, 1))
    return (product * scale.astype("float32") * pertoken_scale.expand_dims(-1) + bias).astype(scale.dtype)


def pytorch(torch, x, weight, scale, pertoken_scale, bias):
    product = torch.nn.functional.linear(x.float(), weight.float())
    return (product * scale.float() * pertoken_scale[:, None] + bias).to(scale.dtype)


def quant_batch_matmul(x, weight, scale, pertoken_scale, bias):
    """Its scale is float32 or bfloat16, and its bias bfloat16: one of other types is added afterwards."""
    if scale.dtype == ms.bfloat16:
        product = auto_generate.QuantBatchMatmul(transpose_x1=False, transpose_x2=True, dtype=ms.bfloat16)
        return product(x, weight, scale, None, bias.astype(ms.bfloat16), pertoken_scale)
    product = auto_generate.QuantBatchMatmul(transpose_x1=False, transpose_x2=True, dtype=ms.float16)
    return product(x, weight, scale.astype(ms.float32), None, None, pertoken_scale) + bias.astype(ms.float16)


CANN = {"QuantBatchMatmulV3": quant_batch_matmul}
CANN_SHAPE = (128, 4096, 4096)
