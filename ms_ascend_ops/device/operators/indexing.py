"""Computes operators that read or write at places that a tensor tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


def index_select(self: Array, dim: int, index: Array) -> Array:
    _check(index, self.shape[dim] if self.ndim else 1)
    return np.take(self, index, dim) if self.ndim else self


def gather(self: Array, dim: int, index: Array) -> Array:
    _check(index, self.shape[dim] if self.ndim else 1)
    if self.ndim == 0:
        return np.broadcast_to(self, index.shape)
    return self[_along(index, dim, index)]


def gather_nd(self: Array, indices: Array, _negative: bool = True) -> Array:
    return self[tuple(np.moveaxis(indices, -1, 0))]


def embedding(weight: Array, indices: Array) -> Array:
    _check(indices, len(weight))
    return weight[indices]


def embedding_backward(grad: Array, indices: Array, count: int, padding: int, by_frequency: bool) -> Array:
    rows = indices.reshape(-1)
    result = np.zeros((count, grad.shape[-1]), np.float32)
    np.add.at(result, rows, grad.reshape(len(rows), -1))
    if by_frequency:
        result /= np.maximum(np.bincount(rows, minlength=count), 1)[:, None]
    if 0 <= padding < count:
        result[padding] = 0
    return result


def embedding_renorm(self: Array, indices: Array, most: float, order: float) -> Array:
    result = self.copy()
    rows = np.unique(indices)
    norms = np.linalg.norm(self[rows].astype(np.float64), order, -1)
    result[rows] *= np.where(norms > most, most / (norms + 1e-7), 1)[:, None]
    return result


def index_add(self: Array, dim: int, index: Array, source: Array, alpha: Any) -> Array:
    result = self.copy()
    at: Any = (*[slice(None)] * (dim % self.ndim), index)
    np.add.at(result, at, source * alpha)
    return result


def index_copy(self: Array, dim: int, index: Array, source: Array) -> Array:
    result = self.copy()
    result[(slice(None),) * (dim % self.ndim) + (index,)] = source
    return result


def index_fill(self: Array, dim: int, index: Sequence[int], value: Any) -> Array:
    return index_copy(self, dim, np.asarray(index, np.int64), value)


def index(self: Array, indices: list[Array]) -> Array:
    return self[_advanced(indices)]


def index_put(self: Array, indices: list[Array], values: Array, accumulate: bool, _unsafe: bool) -> Array:
    result = self.copy()
    if accumulate:
        np.add.at(result, _advanced(indices), values)
    else:
        result[_advanced(indices)] = values
    return result


def _advanced(indices: list[Array]) -> tuple[Any, ...]:
    """Index a tensor. An empty tensor of one dimension stands for a whole dimension."""
    return tuple(slice(None) if one.shape in {(0,), (1, 0)} else one for one in indices)


def put(self: Array, places: Array, source: Array, accumulate: bool) -> Array:
    flat = self.reshape(-1).copy()
    if accumulate:
        np.add.at(flat, places.reshape(-1), source.reshape(-1))
    else:
        flat[places.reshape(-1)] = source.reshape(-1)
    return flat.reshape(self.shape)


def take(self: Array, places: Array) -> Array:
    return self.reshape(-1)[places]


def scatter(self: Array, dim: int, index: Array, source: Any, reduce: int) -> Array:
    """Reduce 0: replace, 1: add, 2: multiply."""
    result = self.copy()
    at = _along(index, dim, index)
    values = source[tuple(slice(size) for size in index.shape)] if np.ndim(source) else source
    if reduce == 0:
        result[at] = values
    else:
        (np.add if reduce == 1 else np.multiply).at(result, at, values)
    return result


def scatter_add(self: Array, dim: int, index: Array, source: Array) -> Array:
    return scatter(self, dim, index, source, 1)


def scatter_update(self: Array, indices: Array, updates: Array, axis: int) -> Array:
    """Write the rows of each sequence into a cache at the sequence's position."""
    if indices.ndim > 1:
        raise NotImplementedError("indices of more than one dimension are not emulated")
    result = self.copy()
    for batch, place in enumerate(indices):
        rows = np.moveaxis(result[batch], axis % self.ndim - 1, 0)
        rows[place : place + updates.shape[axis]] = np.moveaxis(updates[batch], axis % self.ndim - 1, 0)
    return result


def scatter_nd_update(self: Array, indices: Array, updates: Array) -> Array:
    result = self.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def masked_fill(self: Array, mask: Array, value: Any) -> Array:
    return np.where(mask.astype(bool), value, self)


def masked_scatter(self: Array, mask: Array, source: Array) -> Array:
    chosen = np.broadcast_to(mask.astype(bool), self.shape)
    result = self.copy()
    result[chosen] = source.reshape(-1)[: chosen.sum()]
    return result


def masked_select(self: Array, mask: Array) -> Array:
    values, chosen = np.broadcast_arrays(self, mask.astype(bool))
    return values[chosen]


def nonzero(self: Array) -> Array:
    return np.argwhere(self)


def nonzero_v2(self: Array) -> Array:
    return np.argwhere(self).T


def search_sorted(ordered: Array, self: Array, _int32: bool, right: bool, sorter: Array | None) -> Array:
    if sorter is not None:
        ordered = np.take_along_axis(ordered, sorter, -1)
    side: Any = "right" if right else "left"
    if ordered.ndim == 1:
        return np.searchsorted(ordered, self, side)
    rows = zip(ordered.reshape(-1, ordered.shape[-1]), self.reshape(-1, self.shape[-1]), strict=True)
    return np.stack([np.searchsorted(row, values, side) for row, values in rows]).reshape(self.shape)


def unique(self: Array, _sorted: bool, inverse: bool) -> tuple[Array, Array | None]:
    values, places = np.unique(self, return_inverse=True)
    return values, places.reshape(self.shape) if inverse else None


def unique_2(self: Array, _sorted: bool, inverse: bool, counted: bool) -> tuple[Array, Array, Array]:
    """Find the unique values. A result that no flag wants is empty: it has no memory."""
    values, places, counts = np.unique(self, return_inverse=True, return_counts=True)
    return values, places.reshape(self.shape) if inverse else places[:0], counts if counted else counts[:0]


def unique_dim(self: Array, _sorted: bool, _inverse: bool, dim: int) -> tuple[Array, Array, Array]:
    values, places, counts = np.unique(self, return_inverse=True, return_counts=True, axis=dim)
    return values, places, counts


def unique_consecutive(self: Array, _inverse: bool, _counts: bool, dim: int) -> tuple[Array, Array, Array]:
    """Remove consecutive duplicates. A dimension of 1000 means the flat tensor."""
    rows = self.reshape(-1, 1) if dim >= self.ndim else np.moveaxis(self, dim, 0).reshape(self.shape[dim], -1)
    begins = np.ones(len(rows), bool)
    begins[1:] = (rows[1:] != rows[:-1]).any(1)
    places = np.cumsum(begins) - 1
    counts = np.bincount(places, minlength=int(begins.sum()))
    if dim >= self.ndim:
        return rows[begins, 0], places.reshape(self.shape), counts
    return np.compress(begins, self, dim), places, counts


def _along(shaped: Array, dim: int, index: Array) -> tuple[Any, ...]:
    """Return the index of all elements of an index tensor: its own numbers along one dimension, their positions
    along others.
    """
    places: list[Any] = list(np.ogrid[tuple(slice(size) for size in shaped.shape)])
    places[dim] = index
    return tuple(places)


def _check(index: Array, size: int) -> None:
    if index.size and (index.min() < -size or index.max() >= size):
        raise IndexError(f"indices go from {index.min()} to {index.max()}, the dimension has {size} elements")
