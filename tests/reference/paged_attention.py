"""Attention over a paged cache in float64, a sequence at a time, with its keys and values in one piece."""

import numpy as np

from tests.reference import flash_attention


def forward(query, key_cache, value_cache, block_tables, context_lengths, scale=1.0, window=0, softcap=0.0):
    results = []
    for sequence, (table, length) in enumerate(zip(block_tables.astype(int), context_lengths.astype(int), strict=True)):
        blocks = table[: -(-length // key_cache.shape[1])]
        key, value = (cache[blocks].reshape(-1, *cache.shape[2:])[None, :length] for cache in (key_cache, value_cache))
        attended, _ = flash_attention.forward(
            query[sequence : sequence + 1],
            key,
            value,
            scale=scale,
            causal=True,
            window=window,
            layout="BSND",
            softcap=softcap,
        )
        results.append(attended[0])
    return np.stack(results) if results else np.zeros((*query.shape[:-1], value_cache.shape[-1]))
