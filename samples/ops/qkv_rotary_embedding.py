"""Samples qkv_rotary_embedding of 32 query heads and 8 of keys and values, and what a network writes behind its
products.
"""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.ops import rotary_embedding

from ms_ascend_ops import ops as fused

HEADS = {"q_heads": 32, "k_heads": 8, "v_heads": 8}
VARIANTS = {"": HEADS, "BSND": {**HEADS, "layout": "BSND"}, "interleave": {**HEADS, "mode": "interleave"}}
OUTPUTS = 3
FLOPS = (3.75, 3.75)  # 3 for each element of q, and of k, which has a quarter as many
# All heads together are as many as the attributes say.
SHAPES = ((1, 1, 48, 128), (1, 128, 48, 128), (1, 2048, 48, 128), (3, 37, 48, 20))
SMALL_SHAPES = ((2, 3, 48, 4), (1, 5, 48, 6))
inputs = rotary_embedding.inputs


ours = fused.qkv_rotary_embedding


def stock(qkv, cos, sin, q_heads, k_heads, v_heads, mode="half", layout="BNSD"):
    q, k, v = ops.split(qkv, [q_heads, k_heads, v_heads], 2)
    q, k = (rotary_embedding.stock(x, cos, sin, mode) for x in (q, k))
    return (q, k, v) if layout == "BSND" else tuple(ops.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))


def pytorch(torch, qkv, cos, sin, q_heads, k_heads, v_heads, mode="half", layout="BNSD"):
    q, k, v = qkv.split((q_heads, k_heads, v_heads), 2)
    q, k = (rotary_embedding.pytorch(torch, x, cos, sin, mode) for x in (q, k))
    return (q, k, v) if layout == "BSND" else tuple(x.transpose(1, 2).contiguous() for x in (q, k, v))
