"""Samples kv_cache_update and kv_cache_append: new tokens of every sequence go to its end, in place."""

from __future__ import annotations

import numpy as np
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {}, "contiguous": {"contiguous": True}}
# Sequences, new tokens of each, the longest sequence, heads, head size.
SHAPES = (
    (1, 1, 4096, 8, 128),  # decoding one token
    (32, 1, 512, 8, 128),  # and those of a batch
    (1, 2048, 4096, 8, 128),  # a prompt
    (3, 37, 333, 5, 33),
)
SMALL_SHAPES = ((2, 3, 7, 2, 5), (1, 2, 4, 3, 8))


def inputs(draw, sequences, tokens, length, heads, dim):
    new = [draw.normal(sequences, tokens, heads, dim) for _ in range(2)]
    caches = [draw.normal(sequences, length, heads, dim) for _ in range(2)]
    first = length * np.arange(sequences)[:, None] + (length - tokens) // 2
    return [*new, *caches, (first + np.arange(tokens)).astype(np.int32)]


def bytes_moved(arrays, gradient):
    """Return the bytes of the new tokens, from and to; the slots."""
    return 2 * (arrays["key"].nbytes + arrays["value"].nbytes) + arrays["slot_mapping"].nbytes


def ours(key, value, key_cache, value_cache, slot_mapping, contiguous=False):
    if contiguous:
        return fused.kv_cache_append(key, value, key_cache, value_cache, slot_mapping[0, :1])
    return fused.kv_cache_update(key, value, key_cache, value_cache, slot_mapping)


def stock(key, value, key_cache, value_cache, slot_mapping, contiguous=False):
    length = key_cache.shape[1]
    places = ops.stack([slot_mapping // length, slot_mapping % length], -1)
    return ops.scatter_nd_update(key_cache, places, key), ops.scatter_nd_update(value_cache, places, value)


def pytorch(torch, key, value, key_cache, value_cache, slot_mapping, contiguous=False):
    pairs = (key_cache, key), (value_cache, value)
    if contiguous:
        return [cache.index_copy_(1, slot_mapping[0].long(), new) for cache, new in pairs]
    slots = slot_mapping.flatten().long()
    for cache, new in pairs:
        cache.flatten(0, 1).index_copy_(0, slots, new.flatten(0, 1))
    return [cache for cache, _ in pairs]
