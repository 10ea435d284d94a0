"""Samples weight_quant_swiglu in 4 and 8 bits by groups of 32: gate and up of one token, and of a prompt."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.ops import weight_quant_matmul as product

from ms_ascend_ops import ops as fused

# M, N, K, bits.
SHAPES = ((1, 1536, 576, 4), (1, 11008, 4096, 4), (128, 11008, 4096, 4), (333, 1029, 800, 8))
SMALL_SHAPES = ((3, 5, 64, 4), (6, 4, 96, 8))
TOLERANCES = product.TOLERANCES
bytes_moved = product.bytes_moved
ours = fused.weight_quant_swiglu


def inputs(draw, rows, cols, inner, bits):
    return product.inputs(draw, rows, 2 * cols, inner, bits)


def stock(x, weight, scale, offset, bias):
    gate, up = ops.chunk(product.stock(x, weight, scale, offset, bias, "none"), 2, -1)
    return ops.silu(gate) * up


def pytorch(torch, x, weight, scale, offset, bias):
    gate, up = product.pytorch(torch, x, weight, scale, offset, bias, "none").chunk(2, -1)
    return torch.nn.functional.silu(gate) * up
