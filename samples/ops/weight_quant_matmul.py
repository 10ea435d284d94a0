"""Samples weight_quant_matmul in 4 and 8 bits by groups of 32: of one token, and of a prompt; and with SiLU behind."""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from ms_ascend_ops import ops as fused

# M, N, K, bits.
SHAPES = ((1, 1536, 576, 4), (1, 4096, 4096, 4), (1, 4096, 4096, 8), (128, 4096, 4096, 4), (333, 1029, 800, 4))
SMALL_SHAPES = ((3, 5, 64, 4), (6, 4, 96, 8))
# Kernels sum K products in different orders; 16-bit ones also round the weights elsewhere.
TOLERANCES = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}
GROUP = 32
VARIANTS = {"": {"activation": "none"}, "silu": {"activation": "silu"}}


def inputs(draw, rows, cols, inner, bits):
    numbers = draw.random.integers(-128, 128, (cols, inner * bits // 8)).astype(np.int8)
    factors = (cols, inner // GROUP)
    scale = (draw.random.uniform(0.5, 1.5, factors) / (2 ** (bits - 1) * inner**0.5)).astype(np.float16)
    offset = draw.random.integers(-2, 3, factors).astype(np.float16)
    return [draw.normal(rows, inner), numbers, scale, offset, draw.normal(cols, dtype="float32")]


def bytes_moved(arrays, gradient):
    """Return the bytes of everything once."""
    return sum(array.nbytes for array in arrays.values())


def ours(x, weight, scale, offset, bias, activation):
    return fused.weight_quant_matmul(x, weight, scale, offset, bias, activation)


def _unpacked(stack, weight, columns):
    """Turn bytes into floats: what each holds, or its two halves."""
    if weight.shape[-1] == columns:
        return weight
    high = (weight / 16).floor()
    low = weight - 16 * high
    return stack((low - 16 * (low / 8).floor(), high), -1).reshape(weight.shape[0], columns)


def stock(x, weight, scale, offset, bias, activation):
    columns, dtype = x.shape[-1], x.dtype
    numbers = _unpacked(ops.stack, weight.astype("float32"), columns)
    groups = numbers.reshape(numbers.shape[0], scale.shape[1], -1)
    w = (groups + offset.astype("float32").expand_dims(-1)) * scale.astype("float32").expand_dims(-1)
    y = ops.matmul(x, w.reshape(-1, columns).astype(dtype).swapaxes(0, 1)).astype("float32") + bias
    return (ops.silu(y) if activation == "silu" else y).astype(dtype)


def pytorch(torch, x, weight, scale, offset, bias, activation):
    columns = x.shape[-1]
    numbers = _unpacked(torch.stack, weight.float(), columns)
    groups = numbers.reshape(numbers.shape[0], scale.shape[1], -1)
    w = (groups + offset.float()[..., None]) * scale.float()[..., None]
    y = torch.nn.functional.linear(x, w.reshape(-1, columns).to(x.dtype), bias.to(x.dtype))
    return torch.nn.functional.silu(y) if activation == "silu" else y


def weight_quant_batch_matmul(x, weight, scale, offset, bias, activation):
    """Take weights of 8 bits, as those of 4 are a type of their own there, and x in 16 bits.

    All but the weight have the type of x, and scale and offset groups first.
    """
    product = auto_generate.WeightQuantBatchMatmul(transpose_weight=True, antiquant_group_size=GROUP)
    x = x.astype(ms.float16) if x.dtype == ms.float32 else x
    scale, offset = (values.astype(x.dtype).swapaxes(0, 1) for values in (scale, offset))
    y = product(x, weight, scale, offset, None, None, bias.astype(x.dtype))
    return ops.silu(y) if activation == "silu" else y


CANN = {"WeightQuantBatchMatmulV2": weight_quant_batch_matmul}
CANN_SHAPE = (128, 4096, 4096, 8)
