"""Samples paged_attention: one token after many, over blocks in any order and over a contiguous cache; and the
end of a prompt.
"""

from __future__ import annotations

import mindspore as ms
import numpy as np
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {"scale": 0.125}}
# Sequences, new tokens of each, heads, key heads, cached tokens of the longest, block size, head size.
SHAPES = (
    (1, 1, 8, 2, 256, 16, 64),  # the cost of a call
    (1, 1, 32, 8, 2048, 2048, 128),  # one token, over a contiguous cache
    (1, 1, 32, 8, 2048, 16, 128),  # over blocks
    (8, 1, 32, 8, 2048, 128, 128),
    (1, 128, 32, 8, 2048, 128, 128),  # the end of a prompt
    (3, 5, 7, 1, 333, 12, 40),
)
SMALL_SHAPES = ((2, 3, 4, 2, 7, 3, 5), (1, 1, 2, 1, 4, 4, 8))
# Stock operators round scores before the softmax, ours rounds probabilities.
TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2}


def inputs(draw, sequences, tokens, heads, key_heads, length, block_size, size):
    blocks = -(-length // block_size)
    tables = draw.random.permutation(sequences * blocks).reshape(sequences, blocks).astype(np.int32)
    lengths = np.array([length - i % 3 for i in range(sequences)], np.int32)
    key = draw.normal(sequences * blocks, block_size, key_heads, size)
    # Positive values do not cancel in sums, so errors are relative ones.
    value = abs(draw.normal(sequences * blocks, block_size, key_heads, size))
    return [draw.normal(sequences, tokens, heads, size), key, value, tables, lengths]


def bytes_moved(arrays, gradient):
    """Return the bytes of query and result, and of the keys and values that the lengths reach."""
    caches = sum(cache[0, 0].nbytes for cache in (arrays["key_cache"], arrays["value_cache"]))
    return 2 * arrays["query"].nbytes + int(arrays["context_lengths"].sum()) * caches


def ours(query, key_cache, value_cache, block_tables, context_lengths, scale):
    return fused.paged_attention(query, key_cache, value_cache, block_tables, context_lengths, scale)


def stock(query, key_cache, value_cache, block_tables, context_lengths, scale):
    batch, tokens, heads, _ = query.shape
    key_heads = key_cache.shape[2]

    def heads_of(cache):
        gathered = ops.gather(cache, block_tables, 0).reshape(batch, -1, key_heads, cache.shape[-1]).swapaxes(1, 2)
        return ops.repeat_interleave(gathered, heads // key_heads, 1)

    key, value = heads_of(key_cache), heads_of(value_cache)
    scores = ops.matmul(query.swapaxes(1, 2), key.swapaxes(-1, -2)) * scale
    # How far a key is behind the query, if not before it.
    last = context_lengths.reshape(-1, 1, 1, 1) - tokens + ops.arange(0, tokens).reshape(-1, 1)
    hidden = (last < ops.arange(0, key.shape[2])).astype(scores.dtype)
    return ops.matmul(ops.softmax(scores - 1e4 * hidden, -1), value).swapaxes(1, 2)


def incre_flash_attention(query, key_cache, value_cache, block_tables, context_lengths, scale):
    """Take float16 and bfloat16, one token a sequence, and blocks whose size is a multiple of 16."""
    batch, tokens, heads, size = query.shape
    blocks, block_size, key_heads, _ = key_cache.shape
    key, value = (cache.reshape(blocks, block_size, -1) for cache in (key_cache, value_cache))
    out = ops.incre_flash_attention(
        query.reshape(batch, tokens, heads * size),
        [key],
        [value],
        actual_seq_lengths=context_lengths.astype(ms.int64),
        block_table=block_tables,
        num_heads=heads,
        input_layout="BSH",
        scale_value=scale,
        num_key_value_heads=key_heads,
        block_size=block_size,
    )
    return out.reshape(query.shape)


CANN = {"IncreFlashAttention": incre_flash_attention}
CANN_SHAPE = (8, 1, 32, 8, 2048, 128, 128)


def pytorch(torch, query, key_cache, value_cache, block_tables, context_lengths, scale):
    attention = torch.nn.functional.scaled_dot_product_attention
    batch, tokens, heads, _ = query.shape

    def heads_of(cache):
        # A contiguous cache lies in place already.
        gathered = cache if block_tables.numel() == 1 else cache[block_tables.long()]
        return gathered.reshape(batch, -1, *cache.shape[2:]).transpose(1, 2)

    key, value = heads_of(key_cache), heads_of(value_cache)
    options = {"scale": scale, "enable_gqa": heads != key.shape[1]}
    if batch == 1 and tokens == 1:
        length = int(context_lengths)
        key, value = key[:, :, :length], value[:, :, :length]
    else:
        last = context_lengths.reshape(-1, 1, 1, 1) - tokens + torch.arange(tokens).reshape(-1, 1)
        options["attn_mask"] = last >= torch.arange(key.shape[2])
    return attention(query.transpose(1, 2), key, value, **options).transpose(1, 2)
