"""Gradients of products with a weight for each group of rows, and of the order of tokens around them."""

from __future__ import annotations

from ms_ascend_ops.torch.gradients.composed import Call, Gradients, composed, kernel


@composed("grouped_matmul", keeps=["x", "weight", "group_list"])
def _grouped_matmul(call: Call) -> Gradients:
    x, weight, ends, dy = call["x"], call["weight"], call["group_list"], call.douts["y"]
    transposed, found = call.attributes["transpose_weight"], {}
    if call.needs("x"):
        found["x"] = kernel("grouped_matmul")(dy, weight, ends, not transposed)
    if call.needs("weight"):
        found["weight"] = kernel("grouped_matmul_grad")(dy, x, ends, transposed)
    return found


@composed("moe_token_permute", keeps=["sorted_indices"])
def _moe_token_permute(call: Call) -> Gradients:
    return {"tokens": kernel("moe_token_unpermute")(call.douts["permuted"], call["sorted_indices"], None)}


@composed("moe_token_unpermute", keeps=["permuted", "sorted_indices", "probs"])
def _moe_token_unpermute(call: Call) -> Gradients:
    probs, tensors = call["probs"], (call["permuted"], call["sorted_indices"])
    dpermuted, dprobs = kernel("moe_token_unpermute_grad")(call.douts["tokens"], *tensors, probs)
    return {"permuted": dpermuted} | ({} if probs is None else {"probs": dprobs.to(probs.dtype)})
