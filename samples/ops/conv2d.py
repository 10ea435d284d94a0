"""conv2d as a U-Net has it: 3 x 3 with padding, at several resolutions, with and without an activation."""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Node

from ms_ascend_ops import ops as fused

SAME = {"pad_top": 1, "pad_bottom": 1, "pad_left": 1, "pad_right": 1}
VARIANTS = {"": SAME, "silu": {**SAME, "activation": "silu"}}
# Samples, channels, output channels, rows and columns.
SHAPES = ((1, 64, 64, 64), (2, 128, 128, 32), (1, 256, 256, 32), (1, 512, 512, 16), (1, 65, 33, 37))
SMALL_SHAPES = ((2, 3, 5, 6), (1, 4, 2, 5))
# Sums of hundreds of products, in the order of other kernels.
TOLERANCES = {"float32": 1e-4}
# That of x is another convolution, of the weight with its input channels first: no kernel of these tensors.
GRADIENT = ()


def inputs(draw, samples, channels, outs, size):
    weight = draw.normal(outs, channels, 3, 3)
    return [
        draw.normal(samples, channels, size, size),
        (weight / (9 * channels) ** 0.5).astype(weight.dtype),
        draw.normal(outs),
    ]


def ours(x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, activation="none"):
    return fused.conv2d(x, weight, bias, 1, (pad_top, pad_bottom, pad_left, pad_right), 1, 1, activation)


def stock(x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, activation="none"):
    y = ops.conv2d(x, weight, bias, 1, "pad", (pad_top, pad_left))  # as much on the other sides
    return {"none": lambda y: y, "silu": ops.silu}[activation](y)


def conv2d(x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, activation="none"):
    """Bias and activation are operators of their own there."""
    return stock(x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, activation)


CANN = {"Conv2D": conv2d}
CANN_SHAPE = (1, 256, 256, 32)


def pytorch(torch, x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, activation="none"):
    y = torch.nn.functional.conv2d(x, weight, bias, 1, (pad_top, pad_left))
    return {"none": lambda y: y, "silu": torch.nn.functional.silu}[activation](y)


def onnx(pad_top, pad_bottom, pad_left, pad_right, activation="none"):
    pads = {"pads": [pad_top, pad_left, pad_bottom, pad_right]}
    if activation == "none":
        return [Node("Conv", ["x", "weight", "bias"], ["y"], attributes=pads)]
    silu = [Node("Sigmoid", ["z"], ["sigmoid"]), Node("Mul", ["z", "sigmoid"], ["y"])]
    return [Node("Conv", ["x", "weight", "bias"], ["z"], attributes=pads), *silu]
