"""Samples moe_gating_top_k of routers: Mixtral's, Qwen3-MoE's, and DeepSeek-V3's with groups."""

from __future__ import annotations

from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {
    "": {"k": 2},
    "groups": {"k": 2, "scoring": "sigmoid", "group_count": 2, "k_group": 1, "group_score": "top2", "scale": 2.5},
}
# Tokens, experts.
SHAPES = ((1, 8), (512, 8), (4096, 128), (16384, 256), (333, 60))
SMALL_SHAPES = ((5, 8), (3, 12))


CANN_SHAPE = (4096, 128)


def inputs(draw, tokens, experts):
    experts = max(4, experts + experts % 2)  # two groups of two at least
    return [draw.normal(tokens, experts), draw.normal(experts) * draw.normal(1).dtype.type(0.1)]


def ours(x, bias, k, scoring="softmax", group_count=1, k_group=1, group_score="max", scale=1.0):
    return fused.moe_gating_top_k(x, bias, k, scoring, True, group_count, k_group, group_score, scale)[0]


def stock(x, bias, k, scoring="softmax", group_count=1, k_group=1, group_score="max", scale=1.0):
    # Compute in float32, as models do.
    x = x.astype("float32")
    scores = ops.softmax(x, -1) if scoring == "softmax" else ops.sigmoid(x)
    values = scores + bias.astype("float32")
    if group_count > 1:
        groups = values.reshape(values.shape[0], group_count, -1)
        best = ops.topk(groups, 2 if group_score == "top2" else 1)[0].sum(-1)
        worst = ops.topk(best, k_group)[0][:, -1:]
        values = ops.select((best >= worst).expand_dims(-1), groups, groups * 0 - 1e9).reshape(values.shape)
    weights = ops.gather_elements(scores, 1, ops.topk(values, k)[1])
    return weights / (weights.sum(-1, keepdims=True) + 1e-20) * scale


def pytorch(torch, x, bias, k, scoring="softmax", group_count=1, k_group=1, group_score="max", scale=1.0):
    x = x.float()
    scores = torch.softmax(x, -1) if scoring == "softmax" else torch.sigmoid(x)
    values = scores + bias
    if group_count > 1:
        groups = values.view(len(values), group_count, -1)
        best = groups.topk(2 if group_score == "top2" else 1)[0].sum(-1)
        closed = torch.ones_like(best, dtype=torch.bool).scatter_(1, best.topk(k_group, sorted=False)[1], False)
        values = groups.masked_fill(closed[..., None], float("-inf")).view(values.shape)
    weights = scores.gather(1, values.topk(k)[1])
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * scale
