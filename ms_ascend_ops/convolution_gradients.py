"""The gradients of a convolution in two dims, of kernels, for the bprops of MindSpore."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock
from mindspore.ops.operations import Conv2DBackpropInput

from ms_ascend_ops.convolution import gradient_of_x
from ms_ascend_ops.custom import kernel
from ms_ascend_ops.gradients import as_dtype, needs_gradient
from ms_ascend_ops.mindspore_versions import device_target, zeros_like

__all__ = ["convolution_gradients"]


def convolution_gradients(attributes: dict[str, Any]) -> Callable[..., Any]:
    """(dz, x, weight, bias) -> dx, dweight, dbias of a convolution with these attributes of conv2d, where dz is the
    gradient of what an activation is applied to.
    """
    last, groups = attributes["data_format"] == "NHWC", attributes["groups"]
    stride_h, stride_w = attributes["stride_h"], attributes["stride_w"]
    dim = 1 if last else 2  # of rows
    of_weight_and_bias = kernel("conv2d_grad", **attributes)
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
            return parts[0][4](dy, as_dtype(_as_inputs_first(wide, groups, last), dtype), None)
        found = []
        for part in parts:
            if part is not None:
                row, row_step, col, col_step, convolution = part
                taps = wide[:, row::row_step, col::col_step] if last else wide[:, :, row::row_step, col::col_step]
                found.append(convolution(dy, as_dtype(_as_inputs_first(taps, groups, last), dtype), None))
        none = zeros_like(found[0])
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

    def gradients(dz: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Any, Any, Any]:
        dx = of_x(dz, x, weight) if needs_gradient(x) else zeros_like(x)
        if not needs_gradient(weight) and (bias is None or not needs_gradient(bias)):
            return dx, zeros_like(weight), bias
        dweight, dbias = of_weight_and_bias(dz, x, weight)
        return dx, dweight, None if bias is None else as_dtype(dbias, bias.dtype)

    return gradients


def _as_inputs_first(weight: Tensor, groups: int, last: bool) -> Tensor:
    """Reshape to input channels before output channels, group by group; the order in memory stays."""
    shape = weight.shape
    outs, ins = shape[0] // groups, shape[3 if last else 1] * groups
    if _are_known(shape) and shape[0] == ins:
        return weight
    return weight.reshape((ins, shape[1], shape[2], outs) if last else (ins, outs, shape[2], shape[3]))


def _interleaved(tensors: list[Tensor], axis: int) -> Tensor:
    wide = [tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor for tensor in tensors]
    if len(wide) == 1:
        return wide[0]
    return stock.flatten(stock.stack(wide, axis + 1), start_dim=axis, end_dim=axis + 1)


def _stock_gradient_of_x(attributes: dict[str, Any]) -> Callable[..., Any]:
    """Return what makes, of the output channels and the size of the kernel, MindSpore's operator."""
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
