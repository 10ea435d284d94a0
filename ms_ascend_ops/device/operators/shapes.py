"""Computes operators that move elements, or make tensors of a given form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array, Tensor


def permute(self: Array, dims: Sequence[int]) -> Array:
    return np.transpose(self, dims)


def cat(tensors: list[Array], dim: int) -> Array:
    # An empty tensor of one dimension fits every other one.
    return np.concatenate([one for one in tensors if one.shape != (0,)] or tensors, dim)


def stack(tensors: list[Array], dim: int) -> Array:
    return np.stack(tensors, dim)


def split(self: Array, _sizes: Any, dim: int, *, outputs: list[list[Tensor]]) -> list[Array]:
    """Split a tensor; the outputs tell the sizes."""
    ends = np.cumsum([output.shape[dim] for output in outputs[0]])
    return np.split(self, ends[:-1], dim)


def slice_dim(self: Array, dim: int, start: int, end: int, step: int) -> Array:
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)]


def expand(self: Array, _size: Sequence[int], *, outputs: list[Tensor]) -> Array:
    return np.broadcast_to(self, outputs[0].shape)


def repeat(self: Array, repeats: Sequence[int]) -> Array:
    return np.tile(self, repeats)


def repeat_interleave(self: Array, repeats: Any, _size: int) -> Array:
    return np.repeat(self.reshape(-1), repeats)


def repeat_interleave_dim(self: Array, repeats: Any, dim: int, _size: int) -> Array:
    return np.repeat(self, repeats, dim)


def flip(self: Array, dims: Sequence[int]) -> Array:
    return np.flip(self, tuple(dims))


def roll(self: Array, shifts: Sequence[int], dims: Sequence[int]) -> Array:
    return np.roll(self, tuple(shifts), tuple(dims)) if dims else np.roll(self, shifts[0])


def tril(self: Array, diagonal: int) -> Array:
    return np.tril(self, diagonal)


def triu(self: Array, diagonal: int) -> Array:
    return np.triu(self, diagonal)


def diag(self: Array, diagonal: int) -> Array:
    return np.diag(self, diagonal)


def diagonal_filled(self: Array, value: Any, wrap: bool) -> Array:
    result = self.copy()
    np.fill_diagonal(result, value, wrap)
    return result


def constant_pad_nd(self: Array, pad: Sequence[int], value: Any) -> Array:
    return np.pad(_cropped(self, pad), _widths(self, [max(size, 0) for size in pad]), constant_values=value)


def reflection_pad(self: Array, pad: Sequence[int]) -> Array:
    return np.pad(self, _widths(self, pad), "reflect")


def replication_pad(self: Array, pad: Sequence[int]) -> Array:
    return np.pad(self, _widths(self, pad), "edge")


def reflection_pad_backward(grad: Array, self: Array, pad: Sequence[int]) -> Array:
    return _pad_backward(grad, self, pad, "reflect")


def replication_pad_backward(grad: Array, self: Array, pad: Sequence[int]) -> Array:
    return _pad_backward(grad, self, pad, "edge")


def _pad_backward(grad: Array, self: Array, pad: Sequence[int], mode: Any) -> Array:
    """Compute the gradient of padding: each element gets what came to its copies."""
    places = np.pad(np.arange(self.size).reshape(self.shape), _widths(self, pad), mode)
    return np.bincount(places.reshape(-1), grad.reshape(-1), self.size).reshape(self.shape)


def _widths(self: Array, pad: Sequence[int]) -> list[tuple[int, int]]:
    """Return the widths by dimension. CANN counts pairs from the last dimension on."""
    pairs = list(zip(pad[0::2], pad[1::2], strict=True))[::-1]
    return [(0, 0)] * (self.ndim - len(pairs)) + pairs


def _cropped(self: Array, pad: Sequence[int]) -> Array:
    parts = [
        slice(max(-low, 0), size + min(high, 0))
        for (low, high), size in zip(_widths(self, pad), self.shape, strict=True)
    ]
    return self[tuple(parts)]


def cast(self: Array) -> Array:
    return self


def fill(_self: Array, value: Any) -> Any:
    return np.reshape(value, ())


def zero(_self: Array) -> Any:
    return np.zeros((), np.int8)


def one(_self: Array) -> Any:
    return np.ones((), np.int8)


def arange(start: Any, _end: Any, step: Any, *, outputs: list[Tensor]) -> Array:
    return start + step * np.arange(outputs[0].size)


def linspace(start: Any, end: Any, steps: int) -> Array:
    return np.linspace(start, end, steps)


def eye(n: int, m: int) -> Array:
    return np.eye(n, m)


def one_hot(self: Array, classes: int, on: Array, off: Array, axis: int) -> Array:
    where = np.expand_dims(self, axis) == np.arange(classes).reshape(
        [-1 if d == axis % (self.ndim + 1) else 1 for d in range(self.ndim + 1)]
    )
    return np.where(where, on.reshape(()), off.reshape(()))


def meshgrid(tensors: list[Array]) -> list[Array]:
    return list(np.meshgrid(*tensors, indexing="ij"))


def real_view(self: Array) -> Array:
    return self.real
