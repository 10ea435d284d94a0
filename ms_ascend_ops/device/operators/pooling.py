"""Computes pooling of two and three dimensions, and of adaptive sizes: for each output what it sees of the input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array, Tensor


@dataclass(frozen=True)
class _Place:
    """Describes one position of the window."""

    output: Any  # its index
    seen: Any  # the index of what it sees of the input, without padding
    size: int  # of the window, with padding


class _Pooling:
    """Describes how the window of a pooling moves: over the last two or three dimensions."""

    def __init__(
        self,
        kernel: Sequence[int],
        stride: Sequence[int] | None,
        padding: Sequence[int] | None,
        dilation: Sequence[int] = (1,),
    ):
        self.rank = max(len(kernel), 2)
        self.kernel, self.stride = self._each(kernel), self._each(stride or kernel)
        self.padding, self.dilation = self._each(padding or (0,)), self._each(dilation or (1,))

    def _each(self, values: Sequence[int]) -> Sequence[int]:
        return [*values] * (self.rank if len(values) == 1 else 1)

    def places(self, area: Sequence[int], size: Sequence[int]) -> Iterator[_Place]:
        for at in np.ndindex(*area):
            begins = [place * step - pad for place, step, pad in zip(at, self.stride, self.padding, strict=True)]
            moves = zip(begins, self.kernel, self.dilation, size, self.padding, strict=True)
            ends = [min(begin + (k - 1) * d + 1, s + pad) for begin, k, d, s, pad in moves]
            within = zip(begins, ends, size, self.dilation, strict=True)
            # Start at the first element that is not padding.
            seen = [slice(b if b >= 0 else b % d, min(e, s), d) for b, e, s, d in within]
            counted = int(np.prod([end - begin for begin, end in zip(begins, ends, strict=True)]))
            yield _Place((..., *at), (..., *seen), counted)


def avg_pool(
    self: Array,
    kernel: Sequence[int],
    stride: Sequence[int] | None,
    padding: Sequence[int] | None,
    _ceil: bool,
    with_padding: bool,
    divisor: int,
    *,
    outputs: list[Tensor],
) -> Array:
    window = _Pooling(kernel, stride, padding)
    result, axes = np.empty(outputs[0].shape, np.float32), tuple(range(-window.rank, 0))
    for place in window.places(result.shape[-window.rank :], self.shape[-window.rank :]):
        part = self[place.seen]
        count = divisor or (place.size if with_padding else int(np.prod(part.shape[-window.rank :])))
        result[place.output] = part.sum(axes) / count
    return result


def avg_pool_backward(
    dy: Array,
    self: Array,
    kernel: Sequence[int],
    stride: Sequence[int] | None,
    padding: Sequence[int] | None,
    _ceil: bool,
    with_padding: bool,
    divisor: int,
) -> Array:
    window = _Pooling(kernel, stride, padding)
    result = np.zeros(self.shape, np.float32)
    for place in window.places(dy.shape[-window.rank :], self.shape[-window.rank :]):
        part = result[place.seen]
        count = divisor or (place.size if with_padding else int(np.prod(part.shape[-window.rank :])))
        part += _spread(dy[place.output], window.rank) / count
    return result


def max_pool_with_indices(
    self: Array,
    kernel: Sequence[int],
    stride: Sequence[int] | None,
    padding: Sequence[int] | None,
    dilation: Sequence[int],
    _ceil: bool,
    *,
    outputs: list[Tensor],
) -> tuple[Array, Array]:
    window = _Pooling(kernel, stride, padding, dilation)
    places = window.places(outputs[0].shape[-window.rank :], self.shape[-window.rank :])
    return _largest(self, outputs[0].shape, window.rank, places)


def max_pool_backward(dy: Array, self: Array, places: Array, *_window: Any) -> Array:
    rank = dy.ndim - 2 if dy.ndim >= 4 else dy.ndim - 1
    flat = np.zeros((*self.shape[:-rank], int(np.prod(self.shape[-rank:]))), np.float32)
    index = places.reshape(*places.shape[:-rank], -1)
    leading = np.ogrid[tuple(slice(size) for size in index.shape)][:-1]
    np.add.at(flat, (*leading, index), dy.reshape(index.shape))
    return flat.reshape(self.shape)


def max_pool_with_mask(self: Array, *window: Any, outputs: list[Tensor]) -> tuple[Array, None]:
    """Return maxima and a mask. The mask is CANN's own code for its gradient, which finds the positions again here."""
    return max_pool_with_indices(self, *window, outputs=outputs)[0], None


def max_pool_with_mask_backward(dy: Array, self: Array, _mask: Array, *window: Any) -> Array:
    values = [Tensor(0, 0, 0, dy.shape, (), 0)]
    return max_pool_backward(dy, self, max_pool_with_indices(self, *window, outputs=values)[1])


def max_unpool(self: Array, places: Array, *_sizes: Any, outputs: list[Tensor]) -> Array:
    result = np.zeros((*self.shape[:-2], int(np.prod(outputs[0].shape[-2:]))), self.dtype)
    flat = (*self.shape[:-2], -1)
    np.put_along_axis(result, places.reshape(flat), self.reshape(flat), -1)
    return result


def adaptive_avg_pool(self: Array, size: Sequence[int]) -> Array:
    rank = len(size)
    result = np.empty((*self.shape[:-rank], *size), np.float32)
    for place in _adaptive(size, self.shape[-rank:]):
        result[place.output] = self[place.seen].mean(tuple(range(-rank, 0)))
    return result


def adaptive_avg_pool_backward(dy: Array, self: Array) -> Array:
    rank = dy.ndim - (1 if dy.ndim == 3 else 2)
    result = np.zeros(self.shape, np.float32)
    for place in _adaptive(dy.shape[-rank:], self.shape[-rank:]):
        part = result[place.seen]
        part += _spread(dy[place.output], rank) / place.size
    return result


def adaptive_max_pool(self: Array, size: Sequence[int]) -> tuple[Array, Array]:
    rank = len(size)
    return _largest(self, (*self.shape[:-rank], *size), rank, _adaptive(size, self.shape[-rank:]))


def _adaptive(area: Sequence[int], size: Sequence[int]) -> Iterator[_Place]:
    for at in np.ndindex(*area):
        parts = zip(at, area, size, strict=True)
        seen = [slice(place * s // a, -(-(place + 1) * s // a)) for place, a, s in parts]
        yield _Place((..., *at), (..., *seen), int(np.prod([part.stop - part.start for part in seen])))


def _largest(self: Array, shape: Sequence[int], rank: int, places: Iterator[_Place]) -> tuple[Array, Array]:
    """Return the largest values, and where they are in the last dimensions."""
    values, found = np.empty(shape, self.dtype), np.empty(shape, np.int64)
    numbers = np.arange(np.prod(self.shape[-rank:])).reshape(self.shape[-rank:])
    for place in places:
        part = self[place.seen].reshape(*self.shape[:-rank], -1)
        best = part.argmax(-1)
        values[place.output] = np.take_along_axis(part, best[..., None], -1)[..., 0]
        found[place.output] = numbers[place.seen].reshape(-1)[best]
    return values, found


def _spread(values: Array, rank: int) -> Array:
    return values.reshape(*values.shape, *[1] * rank)
