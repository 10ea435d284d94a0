"""Gradients of rotary embeddings, tables of cos and sin among them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ms_ascend_ops.torch.gradients.composed import Call, Gradients, composed, kernel


def _tables(x: Tensor, dy: Tensor, cos: Tensor, sin: Tensor, seq_axis: int, attributes: dict[str, Any]) -> Gradients:
    """Gradients of cos and sin: sums over the heads, and over the dims that the tables broadcast in, in float32."""
    halves, own = attributes["mode"] == "half", attributes["separate_halves"]
    half = (attributes["rotary_dim"] or x.shape[-1]) // 2

    def pairs(x: Tensor) -> tuple[Tensor, Tensor]:
        # The first and second elements of the pairs, as (*b, s, *n as one dim, half); heads are summed over.
        x = x.float().flatten(seq_axis + 1, -2) if x.dim() > seq_axis + 2 else x.float().unsqueeze(-2)
        x = x[..., : 2 * half]
        return (x[..., :half], x[..., half:]) if halves else (x[..., 0::2], x[..., 1::2])

    def of(table: Tensor, first: Tensor, second: Tensor) -> Tensor:
        both = [v.sum(-2).sum_to_size((*table.shape[:-1], half)) for v in (first, second)]
        if not own:
            both = [both[0] + both[1], torch.zeros_like(both[0])]  # of angles that stand twice the first is read
        if table.shape[-1] == half:
            return both[0].to(table.dtype)
        return (torch.cat(both, -1) if halves else torch.stack(both, -1).flatten(-2)).to(table.dtype)

    (x1, x2), (dy1, dy2) = pairs(x), pairs(dy)
    return {"cos": of(cos, x1 * dy1, x2 * dy2), "sin": of(sin, -(x2 * dy1), x1 * dy2)}


@composed("rotary_embedding", keeps=["x", "cos", "sin"])
def _rotary_embedding(call: Call) -> Gradients:
    cos, sin, dy = call["cos"], call["sin"], call.douts["y"]
    found = {}
    if call.needs("x"):
        found["x"] = kernel("rotary_embedding_grad")(dy, cos, sin, *call.attributes.values())
    if call.needs("cos", "sin"):
        found |= _tables(call["x"], dy, cos, sin, call.attributes["seq_axis"], call.attributes)
    return found


@composed("qkv_rotary_embedding", keeps=["qkv", "cos", "sin"])
def _qkv_rotary_embedding(call: Call) -> Gradients:
    cos, sin = call["cos"], call["sin"]
    douts = [call.douts[name] for name in ("q", "k", "v")]
    found = {}
    if call.needs("qkv"):
        found["qkv"] = kernel("qkv_rotary_embedding_grad")(*douts, cos, sin, *call.attributes.values())
    if call.needs("cos", "sin"):
        rotated = call.attributes["q_heads"] + call.attributes["k_heads"]
        heads_first = call.attributes["layout"] == "BNSD"
        dy = torch.cat([d.float().transpose(1, 2) if heads_first else d.float() for d in douts[:2]], 2)
        found |= _tables(call["qkv"][:, :, :rotated], dy, cos, sin, 1, call.attributes)
    return found
