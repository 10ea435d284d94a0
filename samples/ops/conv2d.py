"""Samples conv2d as networks have it: ResNet-50, ConvNeXt-T, MobileNetV3-Large and a U-Net for diffusion, with
and without an activation.
"""

from __future__ import annotations

from mindspore import ops
from ms_ascend_ops.samples.operators import Call, Node

from ms_ascend_ops import ops as fused
from ms_ascend_ops.convolution import inputs_first, whole_gradient_of_x

VARIANTS = {"": {}, "silu": {"activation": "silu"}}
# Samples, channels, output channels, rows and columns, those of the kernel, stride, groups.
SHAPES = (
    (1, 3, 64, 224, 7, 2, 1),  # ResNet-50
    (1, 64, 64, 56, 3, 1, 1),
    (1, 256, 128, 56, 1, 1, 1),
    (1, 128, 128, 56, 3, 2, 1),
    (1, 512, 512, 7, 3, 1, 1),
    (2, 64, 64, 56, 3, 1, 1),
    (2, 128, 256, 28, 3, 2, 1),
    (2, 256, 256, 28, 1, 1, 1),
    (2, 3, 64, 224, 7, 2, 1),
    (2, 256, 256, 28, 3, 1, 32),  # ResNeXt
    (1, 3, 96, 224, 4, 4, 1),  # ConvNeXt-T
    (2, 96, 96, 56, 7, 1, 96),
    (1, 384, 384, 14, 7, 1, 384),
    (1, 384, 768, 14, 2, 2, 1),
    (1, 16, 64, 112, 1, 1, 1),  # MobileNetV3-Large
    (1, 72, 72, 56, 5, 2, 72),
    (1, 960, 960, 7, 5, 1, 960),
    (2, 4, 320, 64, 3, 1, 1),  # a U-Net
    (2, 320, 320, 64, 3, 1, 1),
    (2, 320, 320, 64, 3, 2, 1),
    (2, 1280, 1280, 8, 3, 1, 1),
    (1, 65, 33, 37, 3, 1, 1),  # tails
)
SMALL_SHAPES = ((2, 3, 5, 6, 3, 1, 1), (1, 4, 2, 5, 3, 1, 1))
# Kernels sum hundreds of products in different orders.
TOLERANCES = {"float32": 1e-4}
# The gradient of an activation is an operator of its own.
GRADIENT_VARIANTS = ("",)


def attributes(samples, channels, outs, size, kernel, stride, groups):
    """Return the attributes: padding, but for a kernel whose windows do not overlap."""
    pad = 0 if kernel == stride else kernel // 2
    pads = {f"pad_{side}": pad for side in ("top", "bottom", "left", "right")}
    return {**pads, "stride_h": stride, "stride_w": stride, "groups": groups}


def inputs(draw, samples, channels, outs, size, kernel, stride, groups):
    weight = draw.normal(outs, channels // groups, kernel, kernel)
    return [
        draw.normal(samples, channels, size, size),
        (weight / (kernel**2 * channels // groups) ** 0.5).astype(weight.dtype),
        draw.normal(outs),
    ]


def GRADIENT(arrays, attributes):  # noqa: N802 - a function in the place of a table
    """dx is a convolution of dy; with sizes that are known by one call, as in a network."""
    plain = {"data_format": "NCHW", "dilation_h": 1, "dilation_w": 1, **attributes}
    x, weight, dy = (arrays[name].shape for name in ("x", "weight", "dy"))
    arrays["swapped"] = arrays["weight"].reshape(inputs_first(weight, plain["groups"], "NCHW"))
    whole = {**whole_gradient_of_x(plain, x, weight, dy), "stride_h": 1, "stride_w": 1}
    return (
        Call("conv2d", {"x": "dy", "weight": "swapped", "bias": ""}, {"y": "dx"}, whole),
        Call("conv2d_grad"),
    )


def ours(x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w, groups, activation="none"):
    pads = (pad_top, pad_bottom, pad_left, pad_right)
    return fused.conv2d(x, weight, bias, (stride_h, stride_w), pads, 1, groups, activation)


def stock(x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w, groups, activation="none"):
    pads = (pad_top, pad_left)  # as much on the other sides
    y = ops.conv2d(x, weight, bias, (stride_h, stride_w), "pad", pads, 1, groups)
    return {"none": lambda y: y, "silu": ops.silu}[activation](y)


CANN = {"Conv2D": stock}  # bias and activation are operators of their own there
CANN_SHAPE = (1, 256, 256, 32, 3, 1, 1)


def pytorch(
    torch, x, weight, bias, pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w, groups, activation="none"
):
    y = torch.nn.functional.conv2d(x, weight, bias, (stride_h, stride_w), (pad_top, pad_left), 1, groups)
    return {"none": lambda y: y, "silu": torch.nn.functional.silu}[activation](y)


def onnx(pad_top, pad_bottom, pad_left, pad_right, stride_h, stride_w, groups, activation="none"):
    placed = {"pads": [pad_top, pad_left, pad_bottom, pad_right], "strides": [stride_h, stride_w], "group": groups}
    if activation == "none":
        return [Node("Conv", ["x", "weight", "bias"], ["y"], attributes=placed)]
    silu = [Node("Sigmoid", ["z"], ["sigmoid"]), Node("Mul", ["z", "sigmoid"], ["y"])]
    return [Node("Conv", ["x", "weight", "bias"], ["z"], attributes=placed), *silu]
