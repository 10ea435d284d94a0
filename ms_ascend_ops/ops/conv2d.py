"""Convolution in two dims, with bias and activation."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock
from mindspore.ops.operations import Conv2DBackpropInput

from ms_ascend_ops.checks import CHECKS
from ms_ascend_ops.convolution import gradient_of_x, named_padding, numbers
from ms_ascend_ops.custom import Selector, device_target, kernel
from ms_ascend_ops.gradients import gradient_of_activation, needs_gradient

__all__ = ["conv2d"]


def _bprop(attributes: dict[str, Any]) -> Callable[..., Any]:
    own = {name: value for name, value in attributes.items() if name != "has_bias"}
    last, groups = attributes["data_format"] == "NHWC", attributes["groups"]
    stride_h, stride_w = attributes["stride_h"], attributes["stride_w"]
    dim = 1 if last else 2  # of rows
    before = kernel("conv2d", **{**attributes, "activation": "none"})
    through_activation = gradient_of_activation(attributes["activation"], before)
    of_weight = kernel("conv2d_grad", **own)
    # A bias is the weight of 1 x 1 taps of an input of ones. Kernels and this: an operator of MindSpore's that sums up
    # takes a CPU ten times as long.
    of_bias = kernel("conv2d_grad", data_format=attributes["data_format"])
    strided = stride_h != 1 or stride_w != 1
    # The parts of dx put together by operators that move elements take a CPU longer than oneDNN the whole.
    of_stock = ms.constexpr(_stock_gradient_of_x(attributes)) if strided and device_target() == "CPU" else None
    parts_of_x = ms.constexpr(gradient_of_x(attributes, lambda **a: kernel("conv2d", **a, has_bias=False)))

    def of_x(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        dtype = weight.dtype
        if of_stock is not None and dtype == ms.float32 and not last and _are_known(x.shape):
            return of_stock(weight.shape[0], weight.shape[2], weight.shape[3])(dy, weight, x.shape)
        parts = parts_of_x(weight.shape[dim], weight.shape[dim + 1])
        # Stock operators of shapes have no bfloat16 in graphs on a CPU.
        wide = weight.astype(ms.float32) if dtype == ms.bfloat16 else weight
        if not strided:
            return parts[0][4](dy, _as_inputs_first(wide, groups, last).astype(dtype), None)
        found = []
        for part in parts:
            if part is not None:
                row, row_step, col, col_step, convolution = part
                taps = wide[:, row::row_step, col::col_step] if last else wide[:, :, row::row_step, col::col_step]
                found.append(convolution(dy, _as_inputs_first(taps, groups, last).astype(dtype), None))
        none = stock.zeros_like(found[0])
        lines = []
        index = 0
        for i in range(stride_h):
            places = []
            for j in range(stride_w):
                if parts[i * stride_w + j] is None:
                    places.append(none)
                else:
                    places.append(found[index])
                    index += 1
            lines.append(_interleaved(places, dim + 1))
        dx = _interleaved(lines, dim)
        return (dx[:, : x.shape[1], : x.shape[2]] if last else dx[:, :, : x.shape[2], : x.shape[3]]).astype(x.dtype)

    def bprop(x, weight, bias, out, dout):  # type: ignore[no-untyped-def]
        dz = through_activation(x, weight, bias, out, dout)
        dx = of_x(dz, x, weight) if needs_gradient(x) else stock.zeros_like(x)
        dweight = of_weight(dz, x, weight) if needs_gradient(weight) else stock.zeros_like(weight)
        dbias = bias
        if bias is not None:
            if bias.dtype == dz.dtype:
                # Slices are of float32: of bfloat16, MindSpore has some on a CPU only as views, which not all are.
                wide = dz.astype(ms.float32)
                ones = stock.ones_like(wide[..., :1] if last else wide[:, :1]).astype(dz.dtype)
                tap = stock.ones_like(weight.astype(ms.float32)[:, :1, :1, :1]).astype(dz.dtype)
                dbias = of_bias(dz, ones, tap).reshape(-1)
            else:  # which is rounded less
                dbias = dz.astype(ms.float32).sum((0, 1, 2) if last else (0, 2, 3)).astype(bias.dtype)
        return dx, dweight, dbias

    return bprop


def _as_inputs_first(weight: Tensor, groups: int, last: bool) -> Tensor:
    """With the shape that it had with input channels before output channels, group by group; its memory has not."""
    shape = weight.shape
    outs, ins = shape[0] // groups, shape[3 if last else 1] * groups
    return weight.reshape((ins, shape[1], shape[2], outs) if last else (ins, outs, shape[2], shape[3]))


def _interleaved(tensors: list[Tensor], axis: int) -> Tensor:
    wide = [tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor for tensor in tensors]
    if len(wide) == 1:
        return wide[0]
    return stock.flatten(stock.stack(wide, axis + 1), start_dim=axis, end_dim=axis + 1)


def _stock_gradient_of_x(attributes: dict[str, Any]) -> Callable[..., Any]:
    """What makes, of the output channels and the size of the kernel, MindSpore's operator."""
    a = attributes

    @lru_cache
    def make(outs: int, rows: int, cols: int) -> Any:
        return Conv2DBackpropInput(
            *(outs, (rows, cols), "pad", (a["pad_top"], a["pad_bottom"], a["pad_left"], a["pad_right"])),
            stride=(a["stride_h"], a["stride_w"]),
            dilation=(a["dilation_h"], a["dilation_w"]),
            group=a["groups"],
        )

    return make


@ms.constexpr  # type: ignore[untyped-decorator]
def _are_known(sizes: tuple[int | None, ...]) -> bool:
    """False in a graph for any sizes."""
    return all(size is not None and size >= 0 for size in sizes)


_select = Selector("conv2d", check=CHECKS["conv2d"], composed=_bprop)


_numbers = ms.constexpr(numbers)
_named_padding = ms.constexpr(named_padding)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | str = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    activation: str = "none",
    data_format: str = "NCHW",
) -> Tensor:
    r"""Convolution in two dims, with bias and activation.

    .. math::
        y_{n,o,p,q} = activation\Big(b_o + \sum_{i,k,l} w_{o,i,k,l} \;
        x_{n,\, i,\; p \, stride_h + k \, dilation_h - top,\; q \, stride_w + l \, dilation_w - left}\Big)

    where i goes through the input channels of the group of o, and x is 0 beyond its edges.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (n, c, h, w), or (n, h, w, c) with "NHWC".
        weight: Tensor[dtype of x], shape (o, c / groups, k, l), or (o, k, l, c / groups) with "NHWC", as nn.Conv2d
            keeps it.
        bias: Tensor[dtype of x | float32], shape (o,).
        stride: distance of two places of the kernel, an int or (rows, columns).
        padding: zeros around x, an int, (rows, columns) or (top, bottom, left, right); "same": so many that y has the
            rows and columns of x, divided by the stride and rounded up, of an odd number the larger part below and to
            the right; "valid": none.
        dilation: distance of two elements of the kernel, an int or (rows, columns).
        groups: groups of channels that have nothing to do with each other; a divisor of c and o.
        activation: "none", "relu", "gelu" (by error function), "gelu_tanh" or "silu".
        data_format: "NCHW": channels are axis 1; "NHWC": the last axis.

    Returns:
        Tensor[dtype of x], shape (n, o, p, q), or (n, p, q, o), with
        p = (h + top + bottom - dilation * (k - 1) - 1) // stride + 1, and q alike.

    Raises:
        TypeError: an input is no tensor, or has another dtype; a number is none.
        ValueError: shapes that do not fit each other; a kernel that is larger than x with its padding; a stride or
            dilation below 1, a padding below 0; an unknown activation, data format or name of a padding; "same" with a
            stride in a graph for unknown sizes of x.

    Differentiable in x, weight and bias. NaN of x reaches the places whose kernel covers it, NaN of the weight its
    output channel. No samples give an empty y.

    Products are accumulated in float32; bias and activation are calculated in float32, and the result is rounded once.
    The order of sums follows from the shapes: neither results nor gradients change from run to run, or with the number
    of cores.
    """
    stride_h, stride_w = _numbers("stride", stride, (2,), 1)
    dilation_h, dilation_w = _numbers("dilation", dilation, (2,), 1)
    if isinstance(padding, str):
        dims = x.shape if isinstance(x, Tensor) else ()
        taps = weight.shape if isinstance(weight, Tensor) else ()
        first = 1 if data_format == "NHWC" else 2
        strides, dilations = (stride_h, stride_w), (dilation_h, dilation_w)
        pads = _named_padding(padding, dims[first : first + 2], taps[first : first + 2], strides, dilations)
    else:
        pads = _numbers("padding", padding, (2, 4), 0)
    top, bottom, left, right = pads if len(pads) == 4 else (pads[0], pads[0], pads[1], pads[1])
    select = _select(
        x, weight, bias, stride_h, stride_w, top, bottom, left, right, dilation_h, dilation_w, groups, activation,
        data_format, False, False,
    )  # fmt: skip
    return select(x, weight, bias)  # type: ignore[no-any-return]
