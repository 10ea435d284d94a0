"""Poolings of two and three dimensions, and of adaptive sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array, Tensor


def _windows(
    area: Sequence[int],
    size: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], int]]:
    """Each output's place, what it sees of the input, and the window's elements with padding."""
    for at in np.ndindex(*area):
        begins = [place * step - pad for place, step, pad in zip(at, stride, padding, strict=True)]
        ends = [
            min(b + (k - 1) * d + 1, s + p)
            for b, k, d, s, p in zip(begins, kernel, dilation, size, padding, strict=True)
        ]
        counted = int(np.prod([e - b for b, e in zip(begins, ends, strict=True)]))
        seen = tuple(
            slice(b if b >= 0 else b % d, min(e, s), d) for b, e, s, d in zip(begins, ends, size, dilation, strict=True)
        )
        yield at, seen, counted


def avg_pool(
    self: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    _ceil: bool,
    with_padding: bool,
    divisor: int,
    *,
    outputs: list[Tensor],
) -> Array:
    rank = _rank(kernel)
    kernel, stride, padding = _each(kernel, rank), _each(stride or kernel, rank), _each(padding or [0], rank)
    result = np.empty(outputs[0].shape, np.float32)
    for at, seen, counted in _windows(result.shape[-rank:], self.shape[-rank:], kernel, stride, padding, [1] * rank):
        part = self[(..., *seen)]
        axes = tuple(range(-rank, 0))
        count = divisor or (counted if with_padding else int(np.prod(part.shape[-rank:])))
        result[(..., *at)] = part.sum(axes) / count
    return result


def avg_pool_backward(
    dy: Array,
    self: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    _ceil: bool,
    with_padding: bool,
    divisor: int,
) -> Array:
    rank = _rank(kernel)
    kernel, stride, padding = _each(kernel, rank), _each(stride or kernel, rank), _each(padding or [0], rank)
    result = np.zeros(self.shape, np.float32)
    for at, seen, counted in _windows(dy.shape[-rank:], self.shape[-rank:], kernel, stride, padding, [1] * rank):
        part = result[(..., *seen)]
        count = divisor or (counted if with_padding else int(np.prod(part.shape[-rank:])))
        part += dy[(..., *at)].reshape(*dy.shape[:-rank], *[1] * rank) / count
    return result


def max_pool_with_indices(
    self: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    _ceil: bool,
    *,
    outputs: list[Tensor],
) -> tuple[Array, Array]:
    rank = _rank(kernel)
    kernel, stride, padding, dilation = (
        _each(kernel, rank),
        _each(stride or kernel, rank),
        _each(padding, rank),
        _each(dilation, rank),
    )
    values, places = np.empty(outputs[0].shape, self.dtype), np.empty(outputs[0].shape, np.int64)
    numbers = np.arange(np.prod(self.shape[-rank:])).reshape(self.shape[-rank:])
    for at, seen, _ in _windows(values.shape[-rank:], self.shape[-rank:], kernel, stride, padding, dilation):
        part = self[(..., *seen)].reshape(*self.shape[:-rank], -1)
        best = part.argmax(-1)
        values[(..., *at)] = np.take_along_axis(part, best[..., None], -1)[..., 0]
        places[(..., *at)] = numbers[seen].reshape(-1)[best]
    return values, places


def max_pool_backward(dy: Array, self: Array, places: Array, *_window: Any) -> Array:
    rank = min(dy.ndim, 4) - (2 if dy.ndim >= 4 else 1)
    flat = np.zeros((*self.shape[:-rank], int(np.prod(self.shape[-rank:]))), np.float32)
    index = places.reshape(*places.shape[:-rank], -1)
    leading = np.ogrid[tuple(slice(size) for size in index.shape)][:-1]
    np.add.at(flat, (*leading, index), dy.reshape(index.shape))
    return flat.reshape(self.shape)


def max_pool_with_mask(self: Array, *window: Any, outputs: list[Tensor]) -> tuple[Array, None]:
    """The mask is CANN's own code for its gradient, which finds the places again."""
    return max_pool_with_indices(self, *window, outputs=outputs)[0], None


def max_pool_with_mask_backward(dy: Array, self: Array, _mask: Array, *window: Any) -> Array:
    values = [Tensor(0, 0, 0, dy.shape, (), 0)]
    return max_pool_backward(dy, self, max_pool_with_indices(self, *window, outputs=values)[1])


def max_unpool(self: Array, places: Array, *_sizes: Any, outputs: list[Tensor]) -> Array:
    result = np.zeros((*self.shape[:-2], int(np.prod(outputs[0].shape[-2:]))), self.dtype)
    np.put_along_axis(result, places.reshape(*places.shape[:-2], -1), self.reshape(*self.shape[:-2], -1), -1)
    return result


def adaptive_avg_pool(self: Array, size: Sequence[int]) -> Array:
    return _adaptive(self, size, lambda part, axes: part.mean(axes))


def adaptive_avg_pool_backward(dy: Array, self: Array) -> Array:
    rank = dy.ndim - (1 if dy.ndim == 3 else 2)
    result = np.zeros(self.shape, np.float32)
    for at, seen in _adaptive_windows(dy.shape[-rank:], self.shape[-rank:]):
        part = result[(..., *seen)]
        part += dy[(..., *at)].reshape(*dy.shape[:-rank], *[1] * rank) / np.prod(part.shape[-rank:])
    return result


def adaptive_max_pool(self: Array, size: Sequence[int]) -> tuple[Array, Array]:
    rank = len(size)
    values, places = (
        np.empty((*self.shape[:-rank], *size), self.dtype),
        np.empty((*self.shape[:-rank], *size), np.int64),
    )
    numbers = np.arange(np.prod(self.shape[-rank:])).reshape(self.shape[-rank:])
    for at, seen in _adaptive_windows(size, self.shape[-rank:]):
        part = self[(..., *seen)].reshape(*self.shape[:-rank], -1)
        best = part.argmax(-1)
        values[(..., *at)] = part.max(-1)
        places[(..., *at)] = numbers[seen].reshape(-1)[best]
    return values, places


def _adaptive(self: Array, size: Sequence[int], function: Callable[..., Array]) -> Array:
    rank = len(size)
    result = np.empty((*self.shape[:-rank], *size), np.float32)
    for at, seen in _adaptive_windows(size, self.shape[-rank:]):
        result[(..., *at)] = function(self[(..., *seen)], tuple(range(-rank, 0)))
    return result


def _adaptive_windows(area: Sequence[int], size: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    for at in np.ndindex(*area):
        yield (
            at,
            tuple(slice(place * s // a, -(-(place + 1) * s // a)) for place, a, s in zip(at, area, size, strict=True)),
        )


def _rank(kernel: Sequence[int]) -> int:
    return max(len(kernel), 2)


def _each(values: Sequence[int], rank: int) -> list[int]:
    return list(values) * (rank if len(values) == 1 else 1)
