"""Computes convolutions of one to three dimensions: for each position of the window a product, summed in float32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.definitions.shapes import window_count
from ms_ascend_ops.device.operators.memory import Array, Tensor


@dataclass(frozen=True)
class _Window:
    """Describes how the window of a convolution moves."""

    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: int

    def places(self, kernel: Sequence[int], area: Sequence[int]) -> Iterator[tuple[Any, Any]]:
        """Yield each position of the window: its index in a weight, and what it sees of a padded input for all
        outputs.
        """
        for at in np.ndindex(*kernel):
            seen = tuple(
                slice(place * step, place * step + stride * (size - 1) + 1, stride)
                for place, step, stride, size in zip(at, self.dilation, self.stride, area, strict=True)
            )
            yield (slice(None), slice(None), slice(None), *at), (slice(None), slice(None), *seen)


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
    *,
    outputs: list[Tensor],
) -> Array:
    window = _Window(stride, _all_sides(padding, x.ndim - 2), dilation, groups)
    shape = outputs[0].shape
    y = _input_gradient(x, weight, shape, window) if transposed else _forward(x, weight, shape, window)
    return y if bias is None else y + bias.reshape(-1, *[1] * (x.ndim - 2))


def convolution_backward(
    dy: Array,
    x: Array,
    weight: Array,
    _bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
    mask: Sequence[int],
) -> tuple[Array | None, Array | None, Array | None]:
    window = _Window(stride, _all_sides(padding, x.ndim - 2), dilation, groups)
    dx = dweight = dbias = None
    if mask[0]:
        dx = _forward(dy, weight, x.shape, window) if transposed else _input_gradient(dy, weight, x.shape, window)
    if mask[1]:
        # A transposed convolution goes from the smaller to the larger area: swap the two.
        small, large = (x, dy) if transposed else (dy, x)
        dweight = _weight_gradient(small, large, weight.shape, window)
    if mask[2]:
        dbias = dy.sum((0, *range(2, dy.ndim)))
    return dx, dweight, dbias


def conv_tbc(x: Array, weight: Array, bias: Array, pad: int) -> Array:
    """Compute a convolution of x (time, batch, channels) with weight (window, channels, filters)."""
    length = x.shape[0] + 2 * pad - weight.shape[0] + 1
    wide = np.pad(x, ((pad, pad), (0, 0), (0, 0)))
    return sum(np.matmul(wide[at : at + length], weight[at]) for at in range(weight.shape[0])) + bias


def im2col(
    x: Array,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    *,
    outputs: list[Tensor],
) -> Array:
    window, area = _unfolding(x.shape[-2:], kernel, dilation, padding, stride)
    wide = _padded(x.reshape(-1, *x.shape[-3:]), window)
    columns = [wide[seen] for _, seen in window.places(kernel, area)]
    return np.stack(columns, 2).reshape(outputs[0].shape)


def im2col_backward(
    dy: Array,
    size: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
    *,
    outputs: list[Tensor],
) -> Array:
    window, area = _unfolding(size, kernel, dilation, padding, stride)
    count = int(np.prod(kernel))
    columns = dy.reshape(-1, outputs[0].shape[-3], count, *area)
    wide = np.zeros((*columns.shape[:2], *[s + 2 * p for s, p in zip(size, padding, strict=True)]), np.float32)
    for column, (_, seen) in enumerate(window.places(kernel, area)):
        wide[seen] += columns[:, :, column]
    return _cut(wide, size, window)


def _unfolding(
    size: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> tuple[_Window, list[int]]:
    area = [
        window_count(s, k, d, p, p, t) for s, k, d, p, t in zip(size, kernel, dilation, padding, stride, strict=True)
    ]
    return _Window(stride, [side for p in padding for side in (p, p)], dilation, 1), area


def _forward(x: Array, weight: Array, shape: Sequence[int], window: _Window) -> Array:
    wide, grouped, area = _padded(x, window), _grouped(weight, window.groups), shape[2:]
    y = np.zeros((len(x), window.groups, grouped.shape[1], int(np.prod(area))), np.float32)
    for at, seen in window.places(weight.shape[2:], area):
        y += np.matmul(_packed(grouped[at]), wide[seen].reshape(len(x), window.groups, grouped.shape[2], -1))
    return y.reshape(shape)


def _input_gradient(dy: Array, weight: Array, shape: Sequence[int], window: _Window) -> Array:
    grouped, area = _grouped(weight, window.groups), dy.shape[2:]
    wide = np.zeros((*shape[:2], *_wide(shape[2:], weight.shape[2:], area, window)), np.float32)
    by_group = dy.reshape(len(dy), window.groups, grouped.shape[1], -1)
    for at, seen in window.places(weight.shape[2:], area):
        wide[seen] += np.matmul(np.swapaxes(_packed(grouped[at]), 1, 2), by_group).reshape(*shape[:2], *area)
    return _cut(wide, shape[2:], window)


def _weight_gradient(dy: Array, x: Array, shape: Sequence[int], window: _Window) -> Array:
    wide, groups, area = _padded(x, window), window.groups, dy.shape[2:]
    result = np.zeros((groups, shape[0] // groups, *shape[1:]), np.float32)
    by_group = dy.reshape(len(dy), groups, shape[0] // groups, -1)
    for at, seen in window.places(shape[2:], area):
        columns = wide[seen].reshape(len(x), groups, shape[1], -1)
        result[at] = np.matmul(by_group, np.swapaxes(columns, 2, 3)).sum(0)
    return result.reshape(shape)


def _grouped(weight: Array, groups: int) -> Array:
    return weight.reshape(groups, weight.shape[0] // groups, *weight.shape[1:])


def _packed(matrices: Array) -> Array:
    """Copy one place of a weight: NumPy gives BLAS no such strides, and its loops take a hundred times as long."""
    return np.ascontiguousarray(matrices)


def _all_sides(padding: Sequence[int], rank: int) -> Sequence[int]:
    """Return the padding before and after each dimension; CANN takes one number for both, too."""
    return padding if len(padding) == 2 * rank else [side for size in padding for side in (size, size)]


def _padded(x: Array, window: _Window) -> Array:
    pairs = zip(window.padding[0::2], window.padding[1::2], strict=True)
    return np.pad(x, [(0, 0), (0, 0), *pairs]) if any(window.padding) else x


def _wide(size: Sequence[int], kernel: Sequence[int], area: Sequence[int], window: _Window) -> list[int]:
    """Return the padded input, and no less than what the windows reach."""
    return [
        max(
            s + window.padding[2 * axis] + window.padding[2 * axis + 1],
            window.stride[axis] * (area[axis] - 1) + window.dilation[axis] * (kernel[axis] - 1) + 1,
        )
        for axis, s in enumerate(size)
    ]


def _cut(wide: Array, size: Sequence[int], window: _Window) -> Array:
    inside: Any = (..., *[slice(before, before + s) for before, s in zip(window.padding[0::2], size, strict=True)])
    return wide[inside]
