"""Convolution in two dims and group normalization of the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.convolution_gradients import convolution_gradients
from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.gradients import needs_gradient, reshaped
from ms_ascend_ops.mindspore_versions import ones_like, zeros_like
from ms_ascend_ops.ops.conv2d import placement

__all__ = ["conv2d_group_norm"]

_NORM = ("num_groups", "epsilon", "activation", "data_format")


def _bprop(attributes: dict[str, Any]) -> Callable[..., Any]:
    own = {name: value for name, value in attributes.items() if not name.startswith("has_") and name not in _NORM}
    last = attributes["data_format"] == "NHWC"
    of_convolution = convolution_gradients({**own, "data_format": attributes["data_format"]})
    of_norm = kernel("group_norm_grad", **{name: attributes[name] for name in _NORM})
    add, product = kernel("add"), kernel("matmul", has_bias=False)

    def over_positions(dz: Tensor) -> Tensor:
        """Sums of float32 numbers."""
        if last:
            return dz.sum((1, 2))
        # It is a product with ones: an operator of MindSpore's that sums up takes a CPU ten times as long.
        rows = reshaped(dz, (dz.shape[0] * dz.shape[1], -1))
        return product(rows, ones_like(rows[:1]).reshape((-1, 1)), None).reshape(dz.shape[:2])

    def bprop(x, weight, gamma, beta, bias, shift, residual, out, dout):  # type: ignore[no-untyped-def]
        through, dgamma, dbeta = of_norm(dout[0], dout[2], dout[3], out[1], out[2], out[3], gamma, beta)
        dz = add(through, dout[1])
        dx, dweight, dbias = of_convolution(dz, x, weight, bias)
        dshift = shift
        if shift is not None:
            dshift = zeros_like(shift)
            if needs_gradient(shift):
                # dz is added up as it was before it was rounded: otherwise many roundings would be added up, too.
                wide = dz if dz.dtype == ms.float32 else add(through.astype(ms.float32), dout[1].astype(ms.float32))
                dshift = over_positions(wide).astype(shift.dtype)
        return dx, dweight, dgamma, dbeta, dbias, dshift, residual if residual is None else dz

    return bprop


_select = Selector("conv2d_group_norm", composed=_bprop)


def _call(
    x: Tensor, weight: Tensor, gamma: Tensor, beta: Tensor, bias: Tensor | None, shift: Tensor | None,
    residual: Tensor | None, stride_h: int, stride_w: int, pad_top: int, pad_bottom: int, pad_left: int, pad_right: int,
    dilation_h: int, dilation_w: int, groups: int, num_groups: int, epsilon: float, activation: str, data_format: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    select = _select(
        x, weight, gamma, beta, bias, shift, residual, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right,
        dilation_h, dilation_w, groups, num_groups, epsilon, activation, data_format,
    )  # fmt: skip
    return select(x, weight, gamma, beta, bias, shift, residual)  # type: ignore[no-any-return]


def conv2d_group_norm(
    x: Tensor,
    weight: Tensor,
    gamma: Tensor,
    beta: Tensor,
    bias: Tensor | None = None,
    shift: Tensor | None = None,
    residual: Tensor | None = None,
    num_groups: int = 1,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    epsilon: float = 1e-5,
    activation: str = "none",
    data_format: str = "NCHW",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Convolution in two dims and group normalization of the result, whose statistics are taken of each tile.

    .. math::
        z &= weight * x + bias_o + shift_{n,o} + residual \\
        y &= \mathrm{act}\left(\frac{z - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \gamma + \beta\right)

    The first is what `ops.conv2d` computes, the second `ops.group_norm`. In a residual block of a U-Net the shift is a
    projection of the time embedding.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (n, c, h, w), or (n, h, w, c) with "NHWC".
        weight: Tensor[dtype of x], shape (o, c / groups, k, l), or (o, k, l, c / groups) with "NHWC".
        gamma: Tensor[dtype of x | float32], shape (o,).
        beta: Tensor[dtype of gamma], shape (o,).
        bias: Tensor[dtype of gamma], shape (o,).
        shift: Tensor[dtype of x], shape (n, o), added at all positions.
        residual: Tensor[dtype of x], shape of y.
        num_groups: groups of channels that are normalized together, a divisor of o.
        stride: step between two positions of the kernel, an int or (rows, columns).
        padding: zeros around x, an int, (rows, columns) or (top, bottom, left, right), "same" or "valid".
        dilation: distance of two elements of the kernel, an int or (rows, columns).
        groups: groups of channels of the convolution; a divisor of c and o.
        epsilon: added to the variance, inside the root; > 0.
        activation: "none", "silu" or "relu".
        data_format: "NCHW": channels are axis 1; "NHWC": the last axis.

    Returns:
        y: Tensor[dtype of x], shape (n, o, p, q), or (n, p, q, o); p and q as of `ops.conv2d`.
        z: Tensor[dtype of x], shape of y.
        mean: Tensor[float32], shape (n, num_groups).
        rstd: Tensor[float32], shape (n, num_groups): 1 / sqrt(var + epsilon).

    Raises:
        TypeError: an input is no tensor, or has another dtype; a number is none.
        ValueError: shapes that do not fit each other; num_groups does not divide the output channels; for the rest see
            `ops.conv2d` and `ops.group_norm`.

    Differentiable in all tensors, through all four outputs. A NaN or an infinity of x, of the weight or of what is
    added makes the groups NaN that have a z which it reaches. No samples give empty outputs.

    z is calculated in float32 and rounded once; statistics are those of the rounded z, as `ops.group_norm` takes them
    of it. Of each tile the mean is taken first, then the squares of the distances from it, so that nothing cancels; but
    the mean of a channel is a float32, whose rounding rstd has a relative error of, in units of the deviation. The
    order of sums follows from the shapes: results do not change from run to run, or with the number of cores.

    Source: Wu and He, Group Normalization, 2018.
    """
    p = placement(x, weight, "conv2d_group_norm", stride, padding, dilation, data_format)
    return _call(
        x, weight, gamma, beta, bias, shift, residual, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], groups,
        num_groups, epsilon, activation, data_format,
    )  # fmt: skip
