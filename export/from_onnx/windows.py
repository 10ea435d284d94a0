"""Writes ONNX's operators that go over images in windows: convolutions, pooling, resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ms_ascend_ops.export.from_onnx.graph import Array
from ms_ascend_ops.export.from_onnx.node import Node, text_of

__all__ = ["average_pool", "conv", "conv_transpose", "max_pool", "padded", "resize"]


def padded(x: str, before: Sequence[int], after: Sequence[int], value: float) -> str:
    """Write x with a border of `value`; widths by axis."""
    pairs = [size for pair in zip(reversed(before), reversed(after), strict=True) for size in pair]
    while pairs and pairs[-2:] == [0, 0]:
        pairs = pairs[:-2]
    return f"ops.pad({x}, {tuple(map(int, pairs))}, value={text_of(value)})" if pairs else x


@dataclass(frozen=True)
class _Windows:
    """Holds windows by axis of the image. One axis becomes two, of which the first has one row."""

    size: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @property
    def pads(self) -> tuple[list[int], list[int]]:
        return [0, 0, *self.before], [0, 0, *self.after]


def _windows(n: Node, size: Sequence[int], image: Sequence[int]) -> _Windows:
    rank = len(image)
    if rank not in (1, 2):
        raise n.refuse(f"images must have one or two axes, got {rank}")
    size = list(size)
    strides = list(n.attribute("strides") or [1] * rank)
    dilations = list(n.attribute("dilations") or [1] * rank)
    pads = list(n.attribute("pads") or [0] * (2 * rank))
    auto = n.attribute("auto_pad", "NOTSET")
    before, after = pads[:rank], pads[rank:]
    if auto == "VALID":
        before, after = [0] * rank, [0] * rank
    elif auto != "NOTSET":
        wanted = [-(-length // stride) for length, stride in zip(image, strides, strict=True)]
        total = [
            max(0, (count - 1) * stride + (k - 1) * dilation + 1 - length)
            for count, stride, k, dilation, length in zip(wanted, strides, size, dilations, image, strict=True)
        ]
        small, large = [t // 2 for t in total], [t - t // 2 for t in total]
        before, after = (small, large) if auto == "SAME_UPPER" else (large, small)
    if rank == 1:
        return _Windows([1, *size], [1, *strides], [1, *dilations], [0, *before], [0, *after])
    return _Windows(size, strides, dilations, before, after)


def _image(n: Node) -> tuple[str, tuple[int, ...]]:
    """Return the input as (batch, channels, height, width)."""
    shape = n.shape(0)
    if len(shape) == 3:
        batch, channels, width = shape
        return f"ops.reshape({n[0]}, {(batch, channels, 1, width)})", (batch, channels, 1, width)
    return n[0], shape


def _result(n: Node, expression: str) -> str:
    return f"ops.reshape({expression}, {n.out_shape()})" if len(n.shape(0)) == 3 else expression


def conv(n: Node) -> str:
    """Write Conv of one or two axes, with groups."""
    weight, x = n.shape(1), n.shape(0)
    windows = _windows(n, weight[2:], x[2:])
    image, _ = _image(n)
    kernel = n[1] if len(weight) == 4 else f"ops.reshape({n[1]}, {(*weight[:2], 1, weight[2])})"
    padding = tuple(windows.before)
    if windows.before != windows.after:
        image, padding = padded(image, *windows.pads, 0.0), (0, 0)
    bias = n[2] if n.has(2) else "None"
    return _result(
        n,
        f'ops.conv2d({image}, {kernel}, {bias}, {tuple(windows.strides)}, "pad", {padding},'
        f" {tuple(windows.dilations)}, {n.attribute('group', 1)})",
    )


def conv_transpose(n: Node) -> str:
    """Write ConvTranspose of one or two axes: a convolution of x with zeros between its pixels."""
    n.wants(auto_pad=("NOTSET", "VALID"), output_shape=(None,))
    weight, rank = n.shape(1), len(n.shape(1)) - 2
    windows = _windows(n, weight[2:], n.shape(0)[2:])
    extra = list(n.attribute("output_padding") or [0] * rank)
    extra = [0, *extra] if rank == 1 else extra
    image, (batch, channels, height, width) = _image(n)
    groups, (stride_h, stride_w) = n.attribute("group", 1), windows.strides
    if (stride_h, stride_w) != (1, 1):
        image = f"ops.reshape({image}, {(batch, channels, height, 1, width, 1)})"
        image = padded(image, [0] * 6, [0, 0, 0, stride_h - 1, 0, stride_w - 1], 0.0)
        image = f"ops.reshape({image}, {(batch, channels, height * stride_h, width * stride_w)})"
    # Zeros behind the last pixel are there already, stride - 1 of them.
    reach = [(k - 1) * d for k, d in zip(windows.size, windows.dilations, strict=True)]
    before = [r - b for r, b in zip(reach, windows.before, strict=True)]
    after = [r - a + e - (s - 1) for r, a, e, s in zip(reach, windows.after, extra, windows.strides, strict=True)]
    sizes = (height * stride_h, width * stride_w)
    cut = [f"{max(0, -b)}:{size - max(0, -a)}" for b, a, size in zip(before, after, sizes, strict=True)]
    if min(*before, *after) < 0:
        image = f"{image}[:, :, {cut[0]}, {cut[1]}]"
    image = padded(image, [0, 0, *(max(0, b) for b in before)], [0, 0, *(max(0, a) for a in after)], 0.0)
    each_in, each_out = channels // groups, weight[1]
    kernel = f"ops.flip({n[1]}, {tuple(range(2, 2 + rank))})"
    kernel = f"ops.transpose(ops.reshape({kernel}, {(groups, each_in, each_out, *windows.size)}), (0, 2, 1, 3, 4))"
    kernel = f"ops.reshape({kernel}, {(groups * each_out, each_in, *windows.size)})"
    bias = n[2] if n.has(2) else "None"
    return _result(
        n,
        f'ops.conv2d({image}, {kernel}, {bias}, (1, 1), "pad", (0, 0), {tuple(windows.dilations)}, {groups})',
    )


def _pool(n: Node) -> tuple[_Windows, str, tuple[int, ...]]:
    image, shape = _image(n)
    windows = _windows(n, n.attribute("kernel_shape"), n.shape(0)[2:])
    if set(windows.dilations) != {1}:
        raise n.refuse("dilations must be 1")
    return windows, image, shape


def _ends(n: Node, windows: _Windows, shape: Sequence[int]) -> list[int]:
    """Return what the last windows need behind the image; with ceil_mode more than the pads."""
    out = n.out_shape()[2:]
    out = (1, *out) if len(out) == 1 else out
    return [
        max(after, (count - 1) * stride + k - length - before)
        for count, stride, k, length, before, after in zip(
            out, windows.strides, windows.size, shape[2:], windows.before, windows.after, strict=True
        )
    ]


def max_pool(n: Node) -> str:
    """Write MaxPool of one or two axes; not its indices."""
    n.only_output()
    windows, image, shape = _pool(n)
    if "float" not in n.dtype(0):
        raise n.refuse(f"its input must be of floats, got {n.dtype(0)}")
    image = padded(image, [0, 0, *windows.before], [0, 0, *_ends(n, windows, shape)], -math.inf)
    return _result(n, f'ops.MaxPool({tuple(windows.size)}, {tuple(windows.strides)}, "valid")({image})')


def average_pool(n: Node) -> str:
    """Write AveragePool of one or two axes: zeros around the image count as the attributes say."""
    windows, image, shape = _pool(n)
    ends = _ends(n, windows, shape)
    image = padded(image, [0, 0, *windows.before], [0, 0, *ends], 0.0)
    result = f'ops.AvgPool({tuple(windows.size)}, {tuple(windows.strides)}, "valid")({image})'
    counts = []
    for axis in range(2):
        length, before, size = shape[2 + axis], windows.before[axis], windows.size[axis]
        ones = np.zeros(before + length + ends[axis])
        inside = slice(0, before + length + windows.after[axis]) if n.attribute("count_include_pad", 0) else None
        ones[inside or slice(before, before + length)] = 1
        starts = range(0, len(ones) - size + 1, windows.strides[axis])
        counts.append(np.array([ones[start : start + size].sum() for start in starts]))
    factor = math.prod(windows.size) / np.outer(*counts)
    if (factor != 1).any():
        result = f"ops.mul({result}, {n.keep(factor.astype(np.float32))}.astype(ms.{n.dtype(0)}))"
    return _result(n, result)


# ---- resizing


def resize(n: Node) -> str:
    """Write Resize by nearest neighbours or linear interpolation, one axis after the other."""
    mode = n.attribute("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise n.refuse(f"mode must be nearest or linear, got {mode}")
    n.wants(antialias=(0,), keep_aspect_ratio_policy=("stretch",), exclude_outside=(0,))
    if mode == "linear" and "float" not in n.dtype(0):
        raise n.refuse(f"its input must be of floats for mode linear, got {n.dtype(0)}")
    shape, out = n.shape(0), n.out_shape()
    scales = _scales(n, shape, out)
    result = n[0]
    for axis, (length, count) in enumerate(zip(shape, out, strict=True)):
        if length == count and scales[axis] == 1:
            continue
        place = _places(n, length, count, scales[axis])
        if mode == "nearest":
            picked = np.clip(_nearest(n, place), 0, length - 1).astype(np.int64)
            result = f"ops.gather({result}, {n.keep(picked)}, {axis})"
            continue
        low = np.floor(place)
        weight = (place - low).astype(np.float32).reshape(-1, *[1] * (len(shape) - axis - 1))
        ends = [np.clip(low + i, 0, length - 1).astype(np.int64) for i in (0, 1)]
        first, second = (f"ops.gather({result}, {n.keep(end)}, {axis})" for end in ends)
        kept = f"{n.keep(weight)}.astype(ms.{n.dtype(0)})"
        result = f"ops.add({first} * (1.0 - {kept}), {second} * {kept})"
    return result


def _scales(n: Node, shape: Sequence[int], out: Sequence[int]) -> list[float]:
    by_size = [count / length for count, length in zip(out, shape, strict=True)]
    given = 1 if n.opset < 11 else 2
    if not n.has(given) or n.constant(given).size == 0:
        return by_size
    scales = [float(scale) for scale in n.constant(given)]
    axes = n.attribute("axes")
    if axes:
        full = [1.0] * len(shape)
        for axis, scale in zip(axes, scales, strict=True):
            full[axis] = scale
        return full
    return scales


def _places(n: Node, length: int, count: int, scale: float) -> Array:
    """Return where the pixels of the output lie in the input, in float32: ONNX Runtime has the same ties."""
    index, step = np.arange(count, dtype=np.float32), np.float32(scale)
    mode = n.attribute("coordinate_transformation_mode", "half_pixel" if n.opset >= 11 else "asymmetric")
    if mode == "asymmetric":
        return index / step
    if mode == "align_corners":
        if abs(scale * length - count) > 1e-3:
            raise n.refuse(
                f"align_corners must have sizes or scales that fit: ONNX and ONNX Runtime differ for {scale}"
            )
        return index * np.float32(length - 1) / np.float32(max(1, count - 1))
    if mode == "half_pixel":
        return (index + np.float32(0.5)) / step - np.float32(0.5)
    if mode == "pytorch_half_pixel":
        return (index + np.float32(0.5)) / step - np.float32(0.5) if count > 1 else np.zeros(1)
    raise n.refuse(f"coordinate_transformation_mode {mode} is not supported")


def _nearest(n: Node, place: Array) -> Any:
    mode = n.attribute("nearest_mode", "round_prefer_floor" if n.opset >= 11 else "floor")
    if mode == "round_prefer_floor":
        return np.ceil(place - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(place + 0.5)
    return np.floor(place) if mode == "floor" else np.ceil(place)
