"""Gradients of convolutions, alone or before a norm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ms_ascend_ops import registry
from ms_ascend_ops.convolution import answered_gradient_of_x, gradient_of_x, inputs_first
from ms_ascend_ops.torch.gradients.composed import Call, Gradients, composed, kernel, through_activation


@composed("conv2d", keeps=["x", "weight", "bias", "y"])
def _conv2d(call: Call) -> Gradients:
    attributes, conv2d = call.attributes, kernel("conv2d")
    x, weight, bias = call["x"], call["weight"], call["bias"]

    def convolution(*tensors: Any, **changed: Any) -> Any:
        return conv2d(*tensors, *{**attributes, **changed}.values())

    dz = through_activation(call, lambda: convolution(x, weight, bias, activation="none"))
    return _of_convolution(call, dz, attributes)


def _of_convolution(call: Call, dz: Tensor, attributes: dict[str, Any]) -> Gradients:
    """Return gradients of x, weight and bias; `attributes` are those of conv2d."""
    x, weight, bias, conv2d = call["x"], call["weight"], call["bias"], kernel("conv2d")

    def convolution(*tensors: Any, **changed: Any) -> Any:
        return conv2d(*tensors, *{**attributes, **changed}.values())

    found = {}
    if call.needs("x"):
        found["x"] = _of_x(dz, x, weight, attributes, convolution)
    if call.needs("weight") or (bias is not None and call.needs("bias")):
        found["weight"], dbias = kernel("conv2d_grad")(dz, x, weight, *attributes.values())
        if bias is not None:
            found["bias"] = dbias.to(bias.dtype)
    return found


def _of_x(dy: Tensor, x: Tensor, weight: Tensor, attributes: dict[str, Any], convolution: Callable[..., Any]) -> Tensor:
    """Put together convolutions of dy with the kernel elements that reach every stride-th pixel of x.

    On a CPU it is one where a library answers; not for one kernel element, which leaves most of x untouched.
    """
    last, groups = attributes["data_format"] == "NHWC", attributes["groups"]
    dim = 1 if last else 2  # of rows
    # The shape that it had with input channels before output channels; the kernel reads it as it lies.
    swapped = inputs_first(weight.shape, groups, attributes["data_format"])
    plain = {"stride_h": 1, "stride_w": 1, "activation": "none"}
    shapes = x.shape, weight.shape, dy.shape
    # A traced graph is for kernels of this size: how many convolutions there are depends on it.
    rows, cols = (int(size) for size in weight.shape[dim : dim + 2])
    if dy.device.type == "cpu" and rows * cols > 1 and all(isinstance(size, int) for shape in shapes for size in shape):
        whole = answered_gradient_of_x(attributes, str(dy.dtype).removeprefix("torch."), *shapes)
        if whole is not None:
            return convolution(dy, weight.contiguous().view(swapped), None, **{**whole, **plain})  # type: ignore[no-any-return]
    parts = gradient_of_x(attributes, lambda **changed: changed)(rows, cols)
    strides = attributes["stride_h"], attributes["stride_w"]
    dx: Tensor | None = None
    for index, part in enumerate(parts):
        if part is None:
            continue
        row, row_step, col, col_step, changed = part
        elements = weight[:, row::row_step, col::col_step] if last else weight[:, :, row::row_step, col::col_step]
        elements = elements.contiguous().view(inputs_first(elements.shape, groups, attributes["data_format"]))
        found = convolution(dy, elements, None, **{**changed, **plain})
        if strides == (1, 1):
            return found  # type: ignore[no-any-return]
        if dx is None:
            sizes = [count * stride for count, stride in zip(found.shape[dim : dim + 2], strides, strict=True)]
            shape = list(found.shape)
            shape[dim : dim + 2] = sizes
            dx = found.new_zeros(shape)
        i, j = divmod(index, strides[1])
        if last:
            dx[:, i :: strides[0], j :: strides[1]] = found
        else:
            dx[:, :, i :: strides[0], j :: strides[1]] = found
    assert dx is not None
    return dx.narrow(dim, 0, x.shape[dim]).narrow(dim + 1, 0, x.shape[dim + 1]).contiguous()


_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda z: z,
    "relu": torch.relu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
    "silu": torch.nn.functional.silu,
    "relu6": torch.nn.functional.relu6,
    "hard_swish": torch.nn.functional.hardswish,
}


@composed("conv2d_batch_norm", keeps=["x", "weight", "gamma", "beta", "mean", "variance", "bias"])
def _conv2d_batch_norm(call: Call) -> Gradients:
    """Differentiate what is behind the convolution, which is calculated again, by PyTorch."""
    known = {name: value for name, value in call.attributes.items() if name != "epsilon"}
    attributes = registry.signature("conv2d").check_attributes({**known, "activation": "none"})
    shape = (1, 1, 1, -1) if attributes["data_format"] == "NHWC" else (1, -1, 1, 1)
    z = kernel("conv2d")(call["x"], call["weight"], call["bias"], *attributes.values())
    rstd = (call["variance"].float() + call.attributes["epsilon"]).rsqrt()

    def behind(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        normal = (z - call["mean"].float().reshape(shape)) * rstd.reshape(shape)
        return _ACTIVATIONS[call.attributes["activation"]](normal * gamma.reshape(shape) + beta.reshape(shape))

    _, differentiate = torch.func.vjp(behind, z.float(), call["gamma"].float(), call["beta"].float())
    dz, dgamma, dbeta = differentiate(call.douts["y"].float())
    dtype = call["gamma"].dtype
    found = _of_convolution(call, dz.to(call["x"].dtype), attributes)
    return {**found, "gamma": dgamma.to(dtype), "beta": dbeta.to(dtype)}


@composed("conv2d_group_norm", keeps=["x", "weight", "gamma", "beta", "bias", "z", "mean", "rstd"])
def _conv2d_group_norm(call: Call) -> Gradients:
    norm = [call.attributes[name] for name in ("num_groups", "epsilon", "activation", "data_format")]
    known = {name: value for name, value in call.attributes.items() if name not in ("num_groups", "epsilon")}
    attributes = registry.signature("conv2d").check_attributes({**known, "activation": "none"})
    douts = [call.douts[name] for name in ("y", "mean", "rstd")]
    through, dgamma, dbeta = kernel("group_norm_grad")(
        *douts, call["z"], call["mean"], call["rstd"], call["gamma"], call["beta"], *norm
    )
    dz = through + call.douts["z"]
    found = {**_of_convolution(call, dz, attributes), "gamma": dgamma, "beta": dbeta, "residual": dz}
    if call.needs("shift"):
        # dz is added up as it was before it was rounded: otherwise many roundings would be added up, too.
        wide = through.float() + call.douts["z"].float()
        dims = (1, 2) if call.attributes["data_format"] == "NHWC" else (2, 3)
        found["shift"] = wide.sum(dims).to(dz.dtype)
    return found
