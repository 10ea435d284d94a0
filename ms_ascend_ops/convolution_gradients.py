"""Computes the gradients of a convolution in two dims, of kernels, for the bprops of MindSpore."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.convolution import answered_gradient_of_x, gradient_of_x, inputs_first
from ms_ascend_ops.custom import kernel
from ms_ascend_ops.gradients import as_dtype, needs_gradient
from ms_ascend_ops.mindspore_versions import device_target, dtype_name, zeros_like

__all__ = ["convolution_gradients"]


def convolution_gradients(attributes: dict[str, Any]) -> Callable[..., Any]:
    """Compute (dz, x, weight, bias) -> dx, dweight, dbias of a convolution with these attributes of conv2d,
    where dz is the gradient of what an activation is applied to.
    """
    last, groups = attributes["data_format"] == "NHWC", attributes["groups"]
    stride_h, stride_w = attributes["stride_h"], attributes["stride_w"]
    dim = 1 if last else 2  # of rows
    of_weight_and_bias = kernel("conv2d_grad", **attributes)
    strided = stride_h != 1 or stride_w != 1
    # The parts of dx put together by operators that move elements take a CPU longer than a library the whole.
    whole_of_x = ms.constexpr(_whole_gradient_of_x(attributes)) if strided and device_target() == "CPU" else None
    parts_of_x = ms.constexpr(gradient_of_x(attributes, lambda **a: kernel("conv2d", **a, has_bias=False)))

    def of_x(dy: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        dtype = weight.dtype
        # Stock operators of shapes have no bfloat16 in graphs on a CPU.
        wide = weight.astype(ms.float32) if dtype == ms.bfloat16 else weight
        if whole_of_x is not None and _are_known(x.shape):
            whole = whole_of_x(dtype, x.shape, weight.shape, dy.shape)
            if whole is not None:
                return whole(dy, as_dtype(_as_inputs_first(wide, groups, last), dtype), None)
        parts = parts_of_x(weight.shape[dim], weight.shape[dim + 1])
        if not strided:
            return parts[0][4](dy, as_dtype(_as_inputs_first(wide, groups, last), dtype), None)
        found = []
        for part in parts:
            if part is not None:
                row, row_step, col, col_step, convolution = part
                elements = wide[:, row::row_step, col::col_step] if last else wide[:, :, row::row_step, col::col_step]
                found.append(convolution(dy, as_dtype(_as_inputs_first(elements, groups, last), dtype), None))
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
    swapped = inputs_first(shape, groups, "NHWC" if last else "NCHW")
    return weight if _are_known(shape) and shape == swapped else weight.reshape(swapped)


def _interleaved(tensors: list[Tensor], axis: int) -> Tensor:
    wide = [tensor.astype(ms.float32) if tensor.dtype == ms.bfloat16 else tensor for tensor in tensors]
    if len(wide) == 1:
        return wide[0]
    return stock.flatten(stock.stack(wide, axis + 1), start_dim=axis, end_dim=axis + 1)


def _whole_gradient_of_x(attributes: dict[str, Any]) -> Callable[..., Any]:
    """Return what makes the convolution of dy that is dx, of a dtype and the shapes of x, weight and dy, or None."""

    @lru_cache
    def make(dtype: Any, x: tuple[int, ...], weight: tuple[int, ...], dy: tuple[int, ...]) -> Any:
        found = answered_gradient_of_x(attributes, dtype_name(dtype), x, weight, dy)
        return None if found is None else kernel("conv2d", **found, has_bias=False)

    return make


@ms.constexpr  # type: ignore[untyped-decorator]
def _are_known(sizes: tuple[int | None, ...]) -> bool:
    """Return whether all sizes are known: not in a graph for any sizes."""
    return all(size is not None and size >= 0 for size in sizes)
