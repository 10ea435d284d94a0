"""Samples flash_attention_varlen: prompts of different lengths, packed, causal and not.

Stock operators mask all of them.
"""

from __future__ import annotations

import numpy as np
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {"scale": 0.125}, "causal": {"scale": 0.125, "causal": True}}
# All positions, sequences, heads, key heads, head size.
SHAPES = (
    (64, 4, 8, 2, 64),  # the cost of a call
    (512, 3, 32, 8, 128),
    (2048, 8, 32, 32, 128),
    (333, 3, 7, 1, 45),
)
SMALL_SHAPES = ((7, 2, 2, 1, 4), (4, 3, 2, 2, 3))
# Stock operators round scores before the softmax, ours rounds probabilities.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2}
# The kernel of the gradient takes sums that the function makes of out and its gradient.
GRADIENT = ()


def inputs(draw, positions, sequences, heads, key_heads, size):
    # Each is longer than the one before; the first may be empty.
    ends = (positions * np.arange(1, sequences + 1) ** 2 // sequences**2).astype(np.int32)
    query, key = draw.normal(positions, heads, size), draw.normal(positions, key_heads, size)
    # Positive values do not cancel in sums, so errors are relative ones.
    return [query, key, abs(draw.normal(positions, key_heads, size)), ends, ends.copy()]


def ours(query, key, value, query_lengths, key_lengths, scale, causal=False):
    return fused.flash_attention_varlen(query, key, value, query_lengths, key_lengths, scale, causal)[0]


def stock(query, key, value, query_lengths, key_lengths, scale, causal=False):
    shared, count = query.shape[1] // key.shape[1], query.shape[0]
    key, value = (ops.repeat_interleave(x, shared, 1) if shared > 1 else x for x in (key, value))
    query, key, value = (x.swapaxes(0, 1) for x in (query, key, value))
    of_queries, of_keys = (
        (ops.arange(count).expand_dims(1) >= ends.expand_dims(0)).astype(query_lengths.dtype).sum(1)
        for ends in (query_lengths, key_lengths)
    )
    seen = of_queries.expand_dims(1) == of_keys.expand_dims(0)
    if causal:
        seen = ops.logical_and(seen, ops.arange(count).expand_dims(1) >= ops.arange(count).expand_dims(0))
    scores = ops.matmul(query, key.swapaxes(-1, -2)) * scale
    scores = scores + ops.select(seen, 0.0, -1e4).astype(scores.dtype)
    return ops.matmul(ops.softmax(scores, -1), value).swapaxes(0, 1)


def pytorch(torch, query, key, value, query_lengths, key_lengths, scale, causal=False):
    attention = torch.nn.functional.scaled_dot_product_attention
    ends, out = query_lengths.tolist(), []
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        parts = (x[begin:end].swapaxes(0, 1)[None] for x in (query, key, value))
        out.append(attention(*parts, is_causal=causal, scale=scale, enable_gqa=True)[0].swapaxes(0, 1))
    return torch.cat(out)
