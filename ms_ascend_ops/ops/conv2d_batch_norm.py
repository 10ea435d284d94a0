"""Convolution in two dims with the batch normalization of inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.convolution_gradients import convolution_gradients
from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.gradients import as_dtype, gradient_of_activation, needs_gradient, or_zeros
from ms_ascend_ops.mindspore_versions import zeros_like
from ms_ascend_ops.ops.conv2d import placement

__all__ = ["conv2d_batch_norm"]


def _bprop(attributes: dict[str, Any]) -> Callable[..., Any]:
    epsilon, last = attributes["epsilon"], attributes["data_format"] == "NHWC"
    placed = {name: value for name, value in attributes.items() if name not in ("epsilon", "activation")}
    of_convolution = convolution_gradients({name: value for name, value in placed.items() if name != "has_bias"})
    convolution = kernel("conv2d", **placed)
    through_activation = gradient_of_activation(attributes["activation"], _first)
    shape, positions = ((1, 1, 1, -1), (0, 1, 2)) if last else ((1, -1, 1, 1), (0, 2, 3))

    def bprop(x, weight, gamma, beta, mean, variance, bias, out, dout):  # type: ignore[no-untyped-def]
        rstd = (as_dtype(variance, ms.float32) + epsilon).rsqrt()
        factor = as_dtype(gamma, ms.float32) * rstd
        z = as_dtype(convolution(x, weight, bias), ms.float32)
        normal = (z - as_dtype(mean, ms.float32).reshape(shape)) * rstd.reshape(shape)
        before = normal * as_dtype(gamma, ms.float32).reshape(shape) + as_dtype(beta, ms.float32).reshape(shape)
        through = through_activation(before, weight, bias, as_dtype(out, ms.float32), as_dtype(dout, ms.float32))
        dgamma, dbeta = zeros_like(gamma), zeros_like(beta)
        if needs_gradient(gamma):
            dgamma = as_dtype(or_zeros((through * normal).sum(positions), through), gamma.dtype)
        if needs_gradient(beta):
            dbeta = as_dtype(or_zeros(through.sum(positions), through), beta.dtype)
        dz = as_dtype(through * factor.reshape(shape), x.dtype)
        dx, dweight, dbias = of_convolution(dz, x, weight, bias)
        return dx, dweight, dgamma, dbeta, zeros_like(mean), zeros_like(variance), dbias

    return bprop


def _first(before: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return before


_select = Selector("conv2d_batch_norm", composed=_bprop)


def _call(
    x: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, bias: Tensor | None,
    stride_h: int, stride_w: int, pad_top: int, pad_bottom: int, pad_left: int, pad_right: int, dilation_h: int,
    dilation_w: int, groups: int, epsilon: float, activation: str, data_format: str,
) -> Tensor:  # fmt: skip
    select = _select(
        x, weight, gamma, beta, mean, variance, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right,
        dilation_h, dilation_w, groups, epsilon, activation, data_format,
    )  # fmt: skip
    return select(x, weight, gamma, beta, mean, variance, bias)  # type: ignore[no-any-return]


def conv2d_batch_norm(
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    beta: Tensor,
    mean: Tensor,
    variance: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    epsilon: float = 1e-5,
    activation: str = "none",
    data_format: str = "NCHW",
) -> Tensor:
    r"""Convolution in two dims with the batch normalization of inference and an activation.

    .. math::
        y = \mathrm{act}\left(\frac{weight * x + bias_o - mean_o}{\sqrt{variance_o + \epsilon}} \cdot \gamma_o
        + \beta_o\right)

    The convolution is that of `ops.conv2d`. Mean and variance are what a network has gathered in training; those of a
    batch are not taken.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (n, c, h, w), or (n, h, w, c) with "NHWC".
        weight: Tensor[dtype of x], shape (o, c / groups, k, l), or (o, k, l, c / groups) with "NHWC".
        gamma: Tensor[dtype of x | float32], shape (o,).
        beta: Tensor[dtype of gamma], shape (o,).
        mean: Tensor[dtype of gamma], shape (o,).
        variance: Tensor[dtype of gamma], shape (o,); >= 0.
        bias: Tensor[dtype of gamma], shape (o,).
        stride: step between two positions of the kernel, an int or (rows, columns).
        padding: zeros around x, an int, (rows, columns) or (top, bottom, left, right), "same" or "valid".
        dilation: distance of two elements of the kernel, an int or (rows, columns).
        groups: groups of channels of the convolution; a divisor of c and o.
        epsilon: added to the variance, inside the root; > 0.
        activation: "none", "relu", "gelu" (by error function), "gelu_tanh", "silu", "relu6" or "hard_swish".
        data_format: "NCHW": channels are axis 1; "NHWC": the last axis.

    Returns:
        Tensor[dtype of x], shape (n, o, p, q), or (n, p, q, o); p and q as of `ops.conv2d`.

    Raises:
        TypeError: an input is no tensor, or has another dtype; a number is none.
        ValueError: shapes that do not fit each other, and what `ops.conv2d` refuses; epsilon is not > 0.

    Differentiable in x, weight, gamma, beta and bias; mean and variance get zeros, as of MindSpore's BatchNorm. NaN of
    a channel's vectors reaches that channel, and so does a variance below -epsilon; "relu" makes 0 of it on a CPU, as
    MindSpore's does. No samples give an empty y.

    Products are accumulated in float32; the norm, as a factor and an offset of each channel, and the activation are
    calculated in float32, and the result is rounded once. The order of sums follows from the shapes.

    Source: Ioffe and Szegedy, Batch Normalization, 2015.
    """
    p = placement(x, weight, "conv2d_batch_norm", stride, padding, dilation, data_format)
    return _call(
        x, weight, gamma, beta, mean, variance, bias, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], groups, epsilon,
        activation, data_format,
    )  # fmt: skip
