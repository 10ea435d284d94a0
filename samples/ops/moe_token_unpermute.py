"""Samples moe_token_unpermute of the rows of experts, by weight."""

from __future__ import annotations

import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from ms_ascend_ops import ops as fused

# Tokens, experts per token, hidden size.
SHAPES = ((1, 2, 4096), (512, 2, 4096), (2048, 8, 2048), (333, 6, 1029))
SMALL_SHAPES = ((5, 2, 7), (3, 3, 4))


def inputs(draw, tokens, chosen, size):
    rows, count = draw.normal(tokens, chosen, size), tokens * chosen
    # Scatter by a permutation with a stride that is coprime to the number of rows.
    step = next(s for s in range(max(2, count // 3), 2 * count + 3) if np.gcd(s, max(1, count)) == 1)
    places = (np.arange(count, dtype=np.int64) * step % max(1, count)).astype(np.int32).reshape(tokens, chosen)
    return [rows, places, abs(draw.normal(tokens, chosen))]


def ours(permuted, sorted_indices, probs):
    return fused.moe_token_unpermute(permuted, sorted_indices, probs)


def stock(permuted, sorted_indices, probs):
    rows = ops.gather(permuted.reshape(-1, permuted.shape[-1]), sorted_indices.reshape(-1), 0)
    return (rows.reshape(permuted.shape) * probs.expand_dims(-1)).sum(1)


def pytorch(torch, permuted, sorted_indices, probs):
    rows = permuted.reshape(-1, permuted.shape[-1])[sorted_indices.long()]
    return (rows * probs[..., None]).sum(1)


def moe_token_unpermute(permuted, sorted_indices, probs):
    return auto_generate.moe_token_unpermute(
        permuted.reshape(-1, permuted.shape[-1]), sorted_indices.reshape(-1), probs
    )


CANN = {"MoeTokenUnpermute": moe_token_unpermute}
CANN_SHAPE = (512, 2, 4096)
