"""Computes operators by their names of the graph engine (aclopCompileAndExecute): tensors by position,
attributes by name.

MindSpore calls those for primitives that have no aclnn function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators import indexing, products, reductions, shapes
from ms_ascend_ops.device.operators.memory import Array, Tensor


def cumprod_of(x: Array, axis: Array, exclusive: int = 0, reverse: int = 0) -> Array:
    dim = int(axis.reshape(()))
    flipped = np.flip(x, dim) if reverse else x
    product = np.cumprod(flipped, dim)
    if exclusive:
        product = np.roll(product, 1, dim)
        np.moveaxis(product, dim, 0)[0] = 1
    return np.flip(product, dim) if reverse else product


def fill_v2(_dims: Array, value: float = 0.0) -> Any:
    return np.asarray(value)


def gather_v2(x: Array, indices: Array, axis: Array, batch_dims: int = 0) -> Array:
    dim = int(axis.reshape(())) % x.ndim
    if batch_dims == 0:
        return np.take(x, indices, dim)
    places = np.broadcast_to(np.arange(len(x)).reshape(-1, *[1] * (indices.ndim - 1)), indices.shape)
    if batch_dims != 1:
        raise NotImplementedError("batch_dims larger than 1 are not emulated")
    return np.moveaxis(x, dim, 1)[places, indices]


def pad_v3(
    x: Array, paddings: Array, value: Array | None = None, mode: str = "constant", paddings_contiguous: int = 1
) -> Array:
    widths = paddings.reshape(x.ndim, 2) if paddings_contiguous else paddings.reshape(2, x.ndim).T
    if mode != "constant":
        kind: Any = {"reflect": "reflect", "edge": "edge", "symmetric": "symmetric"}[mode]
        return np.pad(x, widths, kind)
    return np.pad(x, widths, constant_values=0 if value is None else value.reshape(-1)[0])


def pad_v3_grad(dy: Array, paddings: Array, mode: str = "reflect", *, outputs: list[Tensor]) -> Array:
    x = np.arange(outputs[0].size).reshape(outputs[0].shape)
    places = pad_v3(x + 1, paddings, None, mode)
    return np.bincount(places.reshape(-1), dy.reshape(-1), x.size + 1)[1:].reshape(x.shape)


def range_of(start: Array, _limit: Array, delta: Array, *, outputs: list[Tensor]) -> Array:
    return start.reshape(()) + delta.reshape(()) * np.arange(outputs[0].size)


def _reduced(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Array, axes: Array | None = None, keep_dims: int = 0) -> Any:
        return function(x, [] if axes is None else axes.reshape(-1).tolist(), bool(keep_dims))

    return reduce


def resize_nearest(x: Array, size: Array, align_corners: int = 0, half_pixel_centers: int = 0) -> Array:
    rows, columns = (
        _nearest(int(new), old, bool(align_corners), bool(half_pixel_centers))
        for new, old in zip(size.reshape(-1), x.shape[2:], strict=True)
    )
    return x[:, :, rows][..., columns]


def resize_nearest_grad(dy: Array, size: Array, align_corners: int = 0, half_pixel_centers: int = 0) -> Array:
    result = np.zeros((*dy.shape[:2], *(int(one) for one in size.reshape(-1))), np.float32)
    rows, columns = (
        _nearest(new, old, bool(align_corners), bool(half_pixel_centers))
        for new, old in zip(dy.shape[2:], result.shape[2:], strict=True)
    )
    np.add.at(result, np.ix_(np.arange(len(dy)), np.arange(dy.shape[1]), rows, columns), dy)
    return result


def _nearest(new: int, old: int, corners: bool, half: bool) -> Array:
    scale = (old - 1) / (new - 1) if corners and new > 1 else old / new
    places = (np.arange(new) + (0.5 if half else 0)) * scale
    return np.minimum(np.rint(places) if corners else np.floor(places), old - 1).astype(int)


def _sliced(shape: Sequence[int], begin: Array, end: Array, strides: Array, masks: dict[str, int]) -> tuple[Any, ...]:
    """Return the index that a StridedSlice means, by its masks of bits."""
    index: list[Any] = []
    for place, (first, last, step) in enumerate(zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)):
        bit = 1 << place
        if masks["ellipsis_mask"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis_mask"] & bit:
            index.append(None)
        elif masks["shrink_axis_mask"] & bit:
            index.append(first)
        else:
            start, stop = (
                None if masks[name] & bit else value for name, value in (("begin_mask", first), ("end_mask", last))
            )
            index.append(slice(start, stop, step))
    return tuple(index)


def slice_of(x: Array, offsets: Array, size: Array) -> Array:
    """Slice a tensor. A size of -1 reaches to the end."""
    ends = [length if n < 0 else at + n for at, n, length in zip(offsets, size, x.shape, strict=True)]
    return x[tuple(slice(int(at), int(end)) for at, end in zip(offsets, ends, strict=True))]


def strided_slice(x: Array, begin: Array, end: Array, strides: Array, **masks: int) -> Array:
    return x[_sliced(x.shape, begin, end, strides, _MASKS | masks)]


def strided_slice_grad(
    _shape: Array, begin: Array, end: Array, strides: Array, dy: Array, *, outputs: list[Tensor], **masks: int
) -> Array:
    result = np.zeros(outputs[0].shape, dy.dtype)
    result[_sliced(result.shape, begin, end, strides, _MASKS | masks)] = dy
    return result


_MASKS = dict.fromkeys(("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0)


def top_k_of(x: Array, k: Array, dim: int = -1, largest: int = 1) -> tuple[Array, Array]:
    return reductions.topk(x, int(k.reshape(())), dim, bool(largest), True)


def cdist_of(x1: Array, x2: Array, p: float = 2.0) -> Array:
    return reductions.norm(x1 - x2, p, [-1], False)  # MindSpore repeats each for the rows of the other


def scatter_nd(indices: Array, updates: Array, _shape: Array, *, outputs: list[Tensor]) -> Array:
    result = np.zeros(outputs[0].shape, updates.dtype)
    np.add.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return result


def scatter_nd_add(self: Array, indices: Array, updates: Array) -> Array:
    result = self.copy()
    np.add.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return result


def unsorted_segment_sum(x: Array, segments: Array, _count: Array, *, outputs: list[Tensor]) -> Array:
    result = np.zeros(outputs[0].shape, x.dtype)
    seen = segments >= 0
    np.add.at(result, segments[seen], x[seen])
    return result


def one_hot_of(x: Array, depth: Array, on: Array, off: Array, axis: int = -1) -> Array:
    return shapes.one_hot(x, int(depth.reshape(())), on, off, axis)


def tile(x: Array, multiples: Array) -> Array:
    return np.tile(x, multiples.tolist())


def transpose(x: Array, perm: Array) -> Array:
    return np.transpose(x, perm.tolist())


def concat(xs: list[Array], concat_dim: int = 0) -> Array:
    return shapes.cat(xs, concat_dim)


def pack(xs: list[Array], axis: int = 0) -> Array:
    return np.stack(xs, axis)


def product_of(x1: Array, x2: Array, bias: Array | None = None, transpose_x1: int = 0, transpose_x2: int = 0) -> Array:
    left = x1.swapaxes(-1, -2) if transpose_x1 else x1
    return products.dense(left, x2 if transpose_x2 else x2.swapaxes(-1, -2), bias)


def batch_product_of(x1: Array, x2: Array, adj_x1: int = 0, adj_x2: int = 0) -> Array:
    return product_of(x1, x2, None, adj_x1, adj_x2)


OPERATORS: dict[str, Callable[..., Any]] = {
    "assign": lambda _self, value: value,
    "assign_add": lambda self, value: self + value,
    "assign_sub": lambda self, value: self - value,
    "fill_of": lambda _dims, value: value.reshape(()),
    "gather_nd_of": indexing.gather_nd,
    "l2_loss": lambda x: np.square(x).sum() / 2,
    "ones_like": lambda _x: np.ones((), np.int8),
    "reciprocal_grad": lambda y, dy: -dy * y * y,
    "reduce_all_of": _reduced(reductions.all_true),
    "reduce_any_of": _reduced(reductions.any_true),
    "reduce_max_of": _reduced(reductions.amax),
    "reduce_mean_of": _reduced(reductions.mean),
    "reduce_min_of": _reduced(reductions.amin),
    "reduce_prod_of": _reduced(lambda x, axes, keep: np.prod(x, tuple(axes) or None, keepdims=keep)),
    "reduce_sum_of": _reduced(reductions.reduce_sum),
    "relu_grad": lambda dy, x: np.where(x > 0, dy, 0),
    "rsqrt_grad": lambda y, dy: -0.5 * dy * y * y * y,
    "square_sum_all": lambda x1, x2: (np.square(x1).sum(), np.square(x2).sum()),
    "sqrt_grad": lambda y, dy: 0.5 * dy / y,
    "zeros_like": lambda _x: np.zeros((), np.int8),
}
