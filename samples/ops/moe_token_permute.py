"""Samples moe_token_permute of hidden states to their experts."""

from __future__ import annotations

import numpy as np
from mindspore import ops
from mindspore.ops import auto_generate

from ms_ascend_ops import ops as fused

VARIANTS = {"": {"num_experts": 8}, "many": {"num_experts": 128}}
# Tokens, experts per token, hidden size.
SHAPES = ((1, 2, 4096), (512, 2, 4096), (2048, 8, 2048), (333, 6, 1029))
SMALL_SHAPES = ((5, 2, 7), (3, 3, 4))
# The sums of moe_token_unpermute, which the function gives the places of rows.
GRADIENT = ()


def inputs(draw, tokens, chosen, size):
    x = draw.normal(tokens, size)
    # Draw experts of all kinds, some of them without tokens.
    experts = (np.arange(tokens * chosen) ** 2 % 7).astype(np.int32).reshape(tokens, chosen)
    return [x, experts]


def ours(tokens, indices, num_experts):
    return fused.moe_token_permute(tokens, indices, num_experts)[0]


def stock(tokens, indices, num_experts):
    # Equal experts keep their order: no two keys are equal.
    count = indices.shape[0] * indices.shape[1]
    order = ops.argsort(indices.reshape(-1) * count + ops.arange(count))
    return ops.gather(tokens, order // indices.shape[1], 0).reshape(*indices.shape, tokens.shape[1])


def pytorch(torch, tokens, indices, num_experts):
    order = torch.argsort(indices.view(-1), stable=True)
    torch.argsort(order)
    torch.bincount(indices.view(-1), minlength=num_experts).cumsum(0)
    return tokens[order // indices.shape[1]].view(*indices.shape, -1)


def moe_token_permute(tokens, indices, num_experts):
    return auto_generate.moe_token_permute(tokens, indices)[0].reshape(*indices.shape, tokens.shape[1])


CANN = {"MoeTokenPermute": moe_token_permute}
CANN_SHAPE = (512, 2, 4096)
