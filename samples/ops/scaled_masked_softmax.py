"""Samples scaled_masked_softmax of attention scores with a causal mask."""

from __future__ import annotations

import numpy as np
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {"scale": 0.125}}
FLOPS = (7, 5)
SHAPES = ((1, 32, 1, 2048), (1, 8, 256, 256), (2, 16, 1024, 1024), (2, 7, 333, 129))
SMALL_SHAPES = ((2, 3, 5, 33), (1, 2, 4, 7))


def inputs(draw, batch, heads, queries, keys):
    seen = np.tri(queries, keys, keys - queries, dtype=bool)
    scores = draw.normal(batch, heads, queries, keys)
    return [scores, np.where(seen, 0.0, -1e4).astype(scores.dtype)]


def ours(x, mask, scale):
    return fused.scaled_masked_softmax(x, mask, scale)


def stock(x, mask, scale):
    return ops.softmax(x * scale + mask, -1)


def pytorch(torch, x, mask, scale):
    return torch.softmax(x * scale + mask, -1)
