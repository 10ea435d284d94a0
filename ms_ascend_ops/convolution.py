"""Holds what functions of convolutions share, for MindSpore and PyTorch: their arguments, and how the gradient of x is
made of convolutions of dy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import gcd
from typing import Any

from ms_ascend_ops.library import native

__all__ = [
    "PADDINGS",
    "answered_gradient_of_x",
    "gradient_of_x",
    "inputs_first",
    "named_padding",
    "phases",
    "placement",
    "whole_gradient_of_x",
]

# MindSpore's C++ has these numbers for the names of paddings, in its primitive Conv2DPadding.
PADDINGS = {1: "same", 2: "valid"}

# A phase has the kernel offsets that reach every stride-th pixel of x: the first, and how far apart they are; and the
# padding before and behind of their convolution of dy.
Phase = tuple[int, int, int, int]


def phases(size: int, stride: int, dilation: int, before: int, after: int) -> list[Phase | None]:
    """Return the phases of the gradient of x along one dim, for a kernel of this size: one for each pixel i modulo
    stride, None where no kernel offset reaches it. Each convolution has the same number of pixels, with `stride` times
    that at least as many as x has.

    Pixel i of x is reached from pixel o of y by kernel offset k where o * stride + k * dilation = i + before.
    """
    more = -((after + before - dilation * (size - 1)) // stride)  # pixels than dy has
    step, spread = stride // gcd(stride, dilation), dilation // gcd(stride, dilation)
    found: list[Phase | None] = []
    for i in range(stride):
        remainder = (i + before) % stride
        first = next((k for k in range(min(step, size)) if k * dilation % stride == remainder), None)
        if first is None:
            found.append(None)
            continue
        span = (len(range(first, size, step)) - 1) * spread
        low = (first * dilation - remainder) // stride + span - (i + before - remainder) // stride
        found.append((first, step, low, more - low + span))
    return found


def gradient_of_x(attributes: dict[str, Any], convolution: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes the gradient of x by parts, of rows and columns of a kernel: of each phase the first row and
    column of the kernel, the distances of those that follow, and `convolution(**attributes)`.
    """
    a = attributes
    fixed = {"groups": a["groups"], "data_format": a["data_format"], "flip_weight": True, "transposed_weight": True}
    for name in ("h", "w"):
        fixed[f"dilation_{name}"] = a[f"dilation_{name}"] // gcd(a[f"stride_{name}"], a[f"dilation_{name}"])

    @lru_cache  # a gradient in PyNative asks each time
    def parts(rows: int, cols: int) -> tuple[Any, ...]:
        if not rows or not cols or min(rows, cols) < 1:
            raise ValueError("conv2d: the gradient needs a weight whose shape is known when the graph is compiled")
        h = phases(rows, a["stride_h"], a["dilation_h"], a["pad_top"], a["pad_bottom"])
        w = phases(cols, a["stride_w"], a["dilation_w"], a["pad_left"], a["pad_right"])
        found: list[Any] = []
        for row in h:
            for col in w:
                if row is None or col is None:
                    found.append(None)
                    continue
                pads = {"pad_top": row[2], "pad_bottom": row[3], "pad_left": col[2], "pad_right": col[3]}
                found.append((*row[:2], *col[:2], convolution(**fixed, **pads)))
        return tuple(found)

    return parts


def answered_gradient_of_x(
    attributes: dict[str, Any], dtype: str, x: Sequence[int], weight: Sequence[int], dy: Sequence[int]
) -> dict[str, Any] | None:
    """Return the attributes of the one convolution of dy that is the gradient of x, if a library of this host answers
    it for these shapes. The kernel would multiply with all the zeros between: its parts are faster.
    """
    found = whole_gradient_of_x(attributes, x, weight, dy)
    inputs = inputs_first(weight, attributes["groups"], attributes["data_format"])
    return found if native().answering_library("conv2d", [dy, inputs, None], [dtype, dtype, None], found) else None


def whole_gradient_of_x(
    attributes: dict[str, Any], x: Sequence[int], weight: Sequence[int], dy: Sequence[int]
) -> dict[str, Any]:
    """Return the attributes of the one convolution of dy, with gaps, that is the gradient of x, for these shapes."""
    dim = 1 if attributes["data_format"] == "NHWC" else 2  # of rows
    found = {**{name: attributes[name] for name in ("groups", "data_format")}, "flip_weight": True}
    found["transposed_weight"] = True
    for i, (name, before, behind) in enumerate((("h", "pad_top", "pad_bottom"), ("w", "pad_left", "pad_right"))):
        span = (weight[dim + i] - 1) * attributes[f"dilation_{name}"]
        found[f"gap_{name}"] = attributes[f"stride_{name}"] - 1
        found[f"dilation_{name}"] = attributes[f"dilation_{name}"]
        found[before] = span - attributes[before]
        found[behind] = x[dim + i] - dy[dim + i] - found[before] + span
    return found


def inputs_first(weight: Sequence[int], groups: int, data_format: str) -> tuple[int, ...]:
    """Return the shape of a weight with input channels before output channels, group by group, for the same memory."""
    last = data_format == "NHWC"
    outs, ins = weight[0] // groups, weight[3 if last else 1] * groups
    return (ins, weight[1], weight[2], outs) if last else (ins, outs, weight[2], weight[3])


def numbers(name: str, value: Any, counts: tuple[int, ...], least: int, op: str = "conv2d") -> tuple[int, ...]:
    """Return two integers, or as many as one of `counts`."""
    found = (value, value) if isinstance(value, int) else tuple(value) if isinstance(value, Sequence) else (None,)
    if any(isinstance(number, bool) or not isinstance(number, int) for number in found) or isinstance(value, bool):
        raise TypeError(f"{op}: {name} must be an int or a tuple of ints, got {value!r}")
    if len(found) not in counts:
        raise ValueError(f"{op}: {name} must be an int or {' or '.join(map(str, counts))} of them, got {value!r}")
    if min(found) < least:
        raise ValueError(f"{op}: {name} must be at least {least}, got {value!r}")
    return found


def named_padding(
    name: str,
    dims: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    op: str = "conv2d",
) -> tuple[int, ...]:
    """Return the zeros above, below, to the left and to the right of x.

    `dims`: its rows and columns, -1 or None where unknown.
    """
    if name not in ("same", "valid"):
        raise ValueError(f"{op}: padding must be 'same', 'valid' or numbers, got {name!r}")
    pads: list[int] = []
    for size, extent, step, apart in zip(dims, kernel, stride, dilation, strict=False):
        if name == "valid" or extent is None or extent < 0:
            pads += [0, 0]
            continue
        total = apart * (extent - 1)
        if step > 1:
            if size is None or size < 0:
                raise ValueError(f"{op}: padding 'same' with a stride needs an x whose sizes are known, or numbers")
            total = max(0, (-(-size // step) - 1) * step + total + 1 - size)
        pads += [total // 2, total - total // 2]
    return (*pads, 0, 0, 0, 0)[:4]  # of tensors that are none of images the operator says what they must be


def placement(
    x: Sequence[int], weight: Sequence[int], op: str, stride: Any, padding: Any, dilation: Any, data_format: str
) -> tuple[int, ...]:
    """Return the first attributes of convolutions, of what their functions are given: strides, padding above,
    below, to the left and to the right, dilations. `x`, `weight`: shapes, with -1 or None for what is unknown,
    -2 for a rank that is.
    """
    strides, dilations = numbers("stride", stride, (2,), 1, op), numbers("dilation", dilation, (2,), 1, op)
    if isinstance(padding, str):
        dims = slice(1, 3) if data_format == "NHWC" else slice(2, 4)
        pads = named_padding(padding, x[dims], weight[dims], strides, dilations, op)
        if padding == "same" and (-2 in (*x, *weight) or any(extent is None or extent < 0 for extent in weight[dims])):
            raise ValueError(f"{op}: padding 'same' needs a weight whose sizes are known, and the rank of x")
    else:
        pads = numbers("padding", padding, (2, 4), 0, op)
        pads = pads if len(pads) == 4 else (pads[0], pads[0], pads[1], pads[1])
    return (*strides, *pads, *dilations)
