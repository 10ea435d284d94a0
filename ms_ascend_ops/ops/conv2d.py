"""Convolution in two dims, with bias and activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore.ops import PrimitiveWithInfer

from ms_ascend_ops import convolution
from ms_ascend_ops.convolution_gradients import convolution_gradients
from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.gradients import gradient_of_activation

__all__ = ["conv2d", "placement"]


def _bprop(attributes: dict[str, Any]) -> Callable[..., Any]:
    before = kernel("conv2d", **{**attributes, "activation": "none"})
    through_activation = gradient_of_activation(attributes["activation"], before)
    gradients = convolution_gradients({name: value for name, value in attributes.items() if name != "has_bias"})

    def bprop(x, weight, bias, out, dout):  # type: ignore[no-untyped-def]
        return gradients(through_activation(x, weight, bias, out, dout), x, weight, bias)

    return bprop


_select = Selector("conv2d", composed=_bprop)


def _call(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride_h: int, stride_w: int, pad_top: int, pad_bottom: int,
    pad_left: int, pad_right: int, dilation_h: int, dilation_w: int, groups: int, activation: str, data_format: str,
) -> Tensor:  # fmt: skip
    select = _select(
        x, weight, bias, stride_h, stride_w, pad_top, pad_bottom, pad_left, pad_right, dilation_h, dilation_w, groups,
        activation, data_format, False, False, 0, 0,
    )  # fmt: skip
    return select(x, weight, bias)  # type: ignore[no-any-return]


class _Placement(PrimitiveWithInfer):  # type: ignore[misc]
    """`convolution.placement` of two tensors and arguments, as a constant of a graph.

    In a function that is compiled it would need branches, which MindSpore compiles wrongly at times
    ("ValueProblem(DeadNode)").
    """

    def __init__(self) -> None:
        super().__init__("placement")
        self.set_const_prim(True)
        self.add_prim_attr("constexpr_prim", True)

    def __call__(self, x: Tensor, weight: Tensor, *arguments: Any) -> tuple[int, ...]:
        sizes, kernel = (tensor.shape if isinstance(tensor, Tensor) else () for tensor in (x, weight))
        return convolution.placement(sizes, kernel, *arguments)

    def __infer__(self, *arguments: dict[str, Any]) -> dict[str, Any]:
        sizes, kernel = (
            tuple(tensor["shape"]) if isinstance(tensor["dtype"], ms.dtype.TensorType) else ()
            for tensor in arguments[:2]
        )
        value = convolution.placement(sizes, kernel, *(argument["value"] for argument in arguments[2:]))
        return {"dtype": None, "shape": None, "value": value}


placement = _Placement()


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
        stride: step between two positions of the kernel, an int or (rows, columns).
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
    output channel; on a CPU it need not reach places where it meets the padding. "relu" makes 0 of it, as MindSpore's
    does there. No samples give an empty y.

    Products are accumulated in float32; bias and activation are calculated in float32, and the result is rounded once.
    The order of sums follows from the shapes: neither results nor gradients change from run to run, or with the number
    of cores.
    """
    p = placement(x, weight, "conv2d", stride, padding, dilation, data_format)
    return _call(
        x, weight, bias, p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], groups, activation, data_format
    )  # fmt: skip
