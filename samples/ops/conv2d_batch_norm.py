"""Samples conv2d_batch_norm as ResNet-50 and MobileNetV3-Large have it, with and without an activation."""

from __future__ import annotations

import numpy as np
from mindspore import ops

from ms_ascend_ops import ops as fused

VARIANTS = {"": {}, "hard_swish": {"activation": "hard_swish"}}
# Samples, channels, output channels, rows and columns, those of the kernel, stride, groups.
SHAPES = (
    (1, 64, 64, 56, 3, 1, 1),  # ResNet-50
    (1, 256, 128, 56, 1, 1, 1),
    (1, 128, 128, 56, 3, 2, 1),
    (1, 512, 512, 7, 3, 1, 1),
    (1, 3, 16, 224, 3, 2, 1),  # MobileNetV3-Large
    (1, 16, 64, 112, 1, 1, 1),
    (1, 72, 72, 56, 5, 2, 72),
    (1, 200, 80, 14, 1, 1, 1),
    (1, 960, 960, 7, 5, 1, 960),
    (1, 65, 33, 37, 3, 1, 1),  # tails
)
SMALL_SHAPES = ((2, 3, 5, 6, 3, 1, 1), (1, 4, 2, 5, 3, 1, 1))
# Kernels sum hundreds of products in different orders.
TOLERANCES = {"float32": 1e-4}
# The gradient is composed of operators: frozen statistics are seldom trained.
GRADIENT = ()


def attributes(samples, channels, outs, size, kernel, stride, groups):
    pads = {f"pad_{side}": kernel // 2 for side in ("top", "bottom", "left", "right")}
    return {**pads, "stride_h": stride, "stride_w": stride, "groups": groups}


def inputs(draw, samples, channels, outs, size, kernel, stride, groups):
    weight = draw.normal(outs, channels // groups, kernel, kernel)
    gamma, beta, mean, variance, bias = (draw.normal(outs) for _ in range(5))
    return [
        draw.normal(samples, channels, size, size),
        (weight / (kernel**2 * channels // groups) ** 0.5).astype(weight.dtype),
        *(gamma, beta, mean, (np.abs(variance) + 0.5).astype(variance.dtype), bias),
    ]


def ours(
    x, weight, gamma, beta, mean, variance, bias, pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w, groups,
    activation="none",
):  # fmt: skip
    pads = (pad_top, pad_bottom, pad_left, pad_right)
    vectors = (gamma, beta, mean, variance, bias)
    return fused.conv2d_batch_norm(x, weight, *vectors, (stride_h, stride_w), pads, 1, groups, activation=activation)


def stock(
    x, weight, gamma, beta, mean, variance, bias, pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w, groups,
    activation="none",
):  # fmt: skip
    pads = (pad_top, pad_left)  # as much on the other sides
    z = ops.conv2d(x, weight, bias, (stride_h, stride_w), "pad", pads, 1, groups)
    y = ops.batch_norm(z, mean, variance, gamma, beta)
    return ops.hardswish(y) if activation == "hard_swish" else y


def pytorch(
    torch, x, weight, gamma, beta, mean, variance, bias, pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w,
    groups, activation="none",
):  # fmt: skip
    f = torch.nn.functional
    z = f.conv2d(x, weight, bias, (stride_h, stride_w), (pad_top, pad_left), 1, groups)
    y = f.batch_norm(z, mean, variance, gamma, beta)
    return f.hardswish(y) if activation == "hard_swish" else y


# The norm and the activation are operators of their own there.
CANN = {"Conv2D": stock}
CANN_SHAPE = (1, 256, 256, 32, 3, 1, 1)
