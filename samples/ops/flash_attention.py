"""Samples flash_attention: a prompt, causal; one token after many; heads that share keys."""

from __future__ import annotations

import mindspore as ms
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {"scale": 0.125}, "causal": {"scale": 0.125, "causal": True}}
# Batch, heads, key heads, queries, keys, head size.
SHAPES = (
    (1, 8, 2, 1, 256, 64),  # the cost of a call
    (1, 32, 8, 1, 2048, 128),  # one token
    (1, 32, 8, 512, 512, 128),  # a prompt
    (1, 32, 32, 512, 512, 128),
    (2, 8, 8, 1024, 1024, 64),
    (1, 8, 8, 2048, 2048, 64),
    (2, 7, 1, 129, 333, 40),
)
SMALL_SHAPES = ((1, 2, 1, 3, 5, 4), (2, 2, 2, 2, 3, 3))
# Stock operators round scores before the softmax, ours rounds probabilities.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2}
# The kernel of the gradient takes sums that the function makes of out and its gradient.
GRADIENT = ()


def operations(arrays):
    """Count those of the two products as if no key were hidden: a causal mask leaves out half of them at most."""
    query, key = arrays["query"], arrays["key"]
    return 4 * query.size * key.shape[2]


def inputs(draw, batch, heads, key_heads, queries, keys, size):
    query, key = draw.normal(batch, heads, queries, size), draw.normal(batch, key_heads, keys, size)
    # Positive values do not cancel in sums, so errors are relative ones.
    return [query, key, abs(draw.normal(batch, key_heads, keys, size))]


def ours(query, key, value, scale, causal=False):
    return fused.flash_attention(query, key, value, None, scale, causal)[0]


def stock(query, key, value, scale, causal=False):
    shared = query.shape[1] // key.shape[1]
    key, value = (ops.repeat_interleave(x, shared, 1) if shared > 1 else x for x in (key, value))
    scores = ops.matmul(query, key.swapaxes(-1, -2)) * scale
    if causal:
        queries, keys = scores.shape[-2:]
        scores = scores + ops.triu(ops.full((queries, keys), -1e4, dtype=scores.dtype), keys - queries + 1)
    return ops.matmul(ops.softmax(scores, -1), value)


def flash_attention_score(query, key, value, scale, causal=False):
    """Take float16 and bfloat16."""
    heads, queries, keys = query.shape[1], query.shape[2], key.shape[2]
    mask = ops.triu(ops.ones((queries, keys), ms.uint8), keys - queries + 1) if causal else None
    return ops.flash_attention_score(query, key, value, heads, attn_mask=mask, scalar_value=scale, input_layout="BNSD")


CANN = {"FlashAttentionScore": flash_attention_score}
CANN_SHAPE = (1, 32, 8, 512, 512, 128)


def pytorch(torch, query, key, value, scale, causal=False):
    queries, keys = query.shape[2], key.shape[2]
    attention = torch.nn.functional.scaled_dot_product_attention
    options = {"scale": scale, "enable_gqa": query.shape[1] != key.shape[1]}
    if not causal or queries == keys:
        return attention(query, key, value, is_causal=causal, **options)
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return attention(query, key, value, attn_mask=mask, **options)
