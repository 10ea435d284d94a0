"""Samples group_norm of feature maps, 32 groups, as diffusion models have it: channels first, also with SiLU."""

from __future__ import annotations

from mindspore import ops

from ms_ascend_ops import ops as fused

EPSILON = 1e-5
VARIANTS = {
    "": {"num_groups": 32},
    "silu": {"num_groups": 32, "activation": "silu"},
}
FLOPS = (7, 16)
SHAPES = ((1, 32, 8, 8), (8, 256, 14, 14), (8, 256, 32, 32), (2, 320, 64, 64), (1, 128, 512, 512), (3, 96, 33, 31))
SMALL_SHAPES = ((2, 32, 3, 5), (1, 64, 2, 3))
# The gradients of gamma and beta are sums over a whole feature map.
TOLERANCES = {"float32": 1e-3}


def inputs(draw, batch, channels, height, width):
    return [draw.normal(batch, channels, height, width), draw.normal(channels), draw.normal(channels)]


def ours(x, gamma, beta, num_groups, activation="none"):
    return fused.group_norm(x, gamma, beta, num_groups, EPSILON, activation)[0]


def stock(x, gamma, beta, num_groups, activation="none"):
    y = ops.group_norm(x, num_groups, gamma, beta, EPSILON)
    return ops.silu(y) if activation == "silu" else y


def pytorch(torch, x, gamma, beta, num_groups, activation="none"):
    y = torch.nn.functional.group_norm(x, num_groups, gamma, beta, EPSILON)
    return torch.nn.functional.silu(y) if activation == "silu" else y
