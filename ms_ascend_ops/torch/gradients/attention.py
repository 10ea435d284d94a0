"""Gradients of attention and of its softmax, masks among them."""

from __future__ import annotations

import torch
from torch import Tensor

from ms_ascend_ops.torch.gradients.composed import Call, Gradients, composed, kernel

# Behind every logarithm of a sum of exponentials. A query that sees no key has -inf; with a number above all scores in
# its place, the probabilities that the gradient calculates again are 0.
_HUGE = 3.0e38


@composed("flash_attention", keeps=["query", "key", "value", "mask", "out", "lse"])
def _flash_attention(call: Call) -> Gradients:
    out, lse = call["out"], call["lse"]
    dout, dlse = call.douts["out"], call.douts["lse"]
    # The probabilities' share of their own gradient: the sum of p * dp over the keys is that of out * dout.
    delta = (out.float() * dout.float()).sum(-1)
    delta = (delta if call.attributes["layout"] == "BNSD" else delta.transpose(1, 2)) - dlse
    lse = torch.where(lse > -_HUGE, lse, torch.full_like(lse, _HUGE))
    tensors = dout, call["query"], call["key"], call["value"], lse, delta, call["mask"]
    results = kernel("flash_attention_grad")(*tensors, *call.attributes.values())
    found = dict(zip(("query", "key", "value"), results, strict=True))
    if call.needs("mask"):
        found["mask"] = _mask_gradient(*tensors, **call.attributes)
    return found


def _mask_gradient(
    dout: Tensor, query: Tensor, key: Tensor, value: Tensor, lse: Tensor, delta: Tensor, mask: Tensor,
    scale: float, causal: bool, window: int, layout: str,
) -> Tensor:  # fmt: skip
    """Compute the gradient of flash_attention's mask by torch's operators: scores and softmax are in memory then."""

    def products(x: Tensor, y: Tensor) -> Tensor:
        """x y^T for each head of x, of which consecutive ones share one of y, in float32."""
        x, y = (t.float() if layout == "BNSD" else t.float().transpose(1, 2) for t in (x, y))
        return x @ y.repeat_interleave(x.shape[1] // y.shape[1], 1).transpose(-1, -2)

    scores = products(query, key) * scale + mask.float()
    dscores = torch.exp(scores - lse.unsqueeze(-1)) * (products(dout, value) - delta.unsqueeze(-1))
    if causal or window:
        s, t = scores.shape[-2:]
        queries, keys = (torch.arange(n, device=scores.device) for n in (s, t))
        behind = queries.unsqueeze(-1) + (t - s) - keys  # how many positions a key is behind a query
        hidden = (behind < 0) & causal
        dscores = dscores.masked_fill(hidden | (behind >= window) if window else hidden, 0.0)
    return dscores.sum_to_size(mask.shape).to(mask.dtype)


@composed("flash_attention_varlen", keeps=["query", "key", "value", "query_lengths", "key_lengths", "out", "lse"])
def _flash_attention_varlen(call: Call) -> Gradients:
    out, lse = call["out"], call["lse"]
    delta = (out.float() * call.douts["out"].float()).sum(-1).transpose(0, 1) - call.douts["lse"]
    lse = torch.where(lse > -_HUGE, lse, torch.full_like(lse, _HUGE))
    tensors = call.douts["out"], call["query"], call["key"], call["value"], lse, delta.contiguous()
    lengths = call["query_lengths"], call["key_lengths"]
    results = kernel("flash_attention_varlen_grad")(*tensors, *lengths, *call.attributes.values())
    return dict(zip(("query", "key", "value"), results, strict=True))


@composed("scaled_masked_softmax", keeps=["mask", "y"])
def _scaled_masked_softmax(call: Call) -> Gradients:
    dy, y = call.douts["y"], call["y"]
    found = {}
    if call.needs("x"):
        found["x"] = kernel("scaled_masked_softmax_grad")(dy, y, *call.attributes.values())
    if call.needs("mask"):
        mask = call["mask"]
        dscores = kernel("softmax_grad")(dy.float(), y.float())
        found["mask"] = dscores.sum_to_size(mask.shape).to(mask.dtype)
    return found
