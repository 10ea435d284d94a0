"""Samples rotary_embedding of queries, and what a LLaMA writes."""

from __future__ import annotations

import numpy as np
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {}, "interleave": {"mode": "interleave"}}
FLOPS = (3, 3)
SHAPES = ((1, 1, 32, 128), (1, 128, 32, 128), (1, 2048, 32, 128), (1, 2048, 8, 128), (2, 333, 7, 64))
SMALL_SHAPES = ((2, 3, 2, 8), (1, 5, 3, 12))


def inputs(draw, batch, seq, heads, dim):
    angles = np.arange(seq)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    x = draw.normal(batch, seq, heads, dim)
    return [x, np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)]


ours = fused.rotary_embedding


def stock(x, cos, sin, mode="half"):
    seq, half = cos.shape
    if mode == "half":
        cos, sin = (ops.concat([table, table], -1).reshape((1, seq, 1, 2 * half)) for table in (cos, sin))
        return x * cos + ops.concat([-x[..., half:], x[..., :half]], -1) * sin
    cos, sin = cos.reshape((1, seq, 1, half)), sin.reshape((1, seq, 1, half))
    first, second = x[..., 0::2], x[..., 1::2]
    return ops.stack([first * cos - second * sin, second * cos + first * sin], -1).reshape(x.shape)


def pytorch(torch, x, cos, sin, mode="half"):
    cos, sin = cos[None, :, None], sin[None, :, None]
    if mode == "half":
        half = cos.shape[-1]
        cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
        return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
