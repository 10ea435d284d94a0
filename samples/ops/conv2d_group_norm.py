"""Samples conv2d_group_norm as a residual block of a U-Net has it: 3 x 3 with padding, with the time embedding
and SiLU, and what a block ends with: a residual and no activation.
"""

from __future__ import annotations

from mindspore import ops

from ms_ascend_ops import ops as fused

SAME = {"pad_top": 1, "pad_bottom": 1, "pad_left": 1, "pad_right": 1, "num_groups": 32}
VARIANTS = {"": SAME, "silu": {**SAME, "activation": "silu"}}
# Samples, channels, output channels, rows and columns.
SHAPES = ((2, 64, 64, 32), (2, 128, 128, 16), (2, 320, 320, 64), (1, 512, 512, 16), (1, 65, 96, 37))
SMALL_SHAPES = ((2, 3, 32, 3), (1, 4, 64, 5))
OUTPUTS = 2
# Kernels sum hundreds of products in different orders.
TOLERANCES = {"float32": 1e-4}
# The gradients are those of conv2d and of group_norm.
GRADIENT = ()


def inputs(draw, samples, channels, outs, size):
    weight = draw.normal(outs, channels, 3, 3)
    return [
        draw.normal(samples, channels, size, size),
        (weight / (9 * channels) ** 0.5).astype(weight.dtype),
        *(draw.normal(outs) for _ in range(3)),
        draw.normal(samples, outs),
        draw.normal(samples, outs, size, size),
    ]


def ours(
    x,
    weight,
    gamma,
    beta,
    bias,
    shift,
    residual,
    pad_top,
    pad_bottom,
    pad_left,
    pad_right,
    num_groups,
    activation="none",
):
    return fused.conv2d_group_norm(
        x,
        weight,
        gamma,
        beta,
        bias,
        shift,
        residual,
        num_groups,
        1,
        (pad_top, pad_bottom, pad_left, pad_right),
        activation=activation,
    )[:2]


def stock(
    x,
    weight,
    gamma,
    beta,
    bias,
    shift,
    residual,
    pad_top,
    pad_bottom,
    pad_left,
    pad_right,
    num_groups,
    activation="none",
):
    z = ops.conv2d(x, weight, bias, 1, "pad", (pad_top, pad_left))  # as much on the other sides
    z = z + shift[:, :, None, None] + residual
    y = ops.group_norm(z, num_groups, gamma, beta, 1e-5)
    return ops.silu(y) if activation == "silu" else y, z


def pytorch(
    torch,
    x,
    weight,
    gamma,
    beta,
    bias,
    shift,
    residual,
    pad_top,
    pad_bottom,
    pad_left,
    pad_right,
    num_groups,
    activation="none",
):
    z = torch.nn.functional.conv2d(x, weight, bias, 1, (pad_top, pad_left))
    z = z + shift[:, :, None, None] + residual
    y = torch.nn.functional.group_norm(z, num_groups, gamma, beta, 1e-5)
    return torch.nn.functional.silu(y) if activation == "silu" else y, z


# Bias, sums and norm are operators of their own there.
CANN = {"Conv2D": stock}
CANN_SHAPE = (2, 320, 320, 64)
