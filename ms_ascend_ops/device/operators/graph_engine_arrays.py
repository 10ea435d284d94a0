"""Computes rearrangements and updates of arrays by the names of the graph engine: see graph_engine.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators import pooling
from ms_ascend_ops.device.operators.memory import Array, Tensor


def is_nan(x: Array) -> Array:
    return np.isnan(x)


def pad_of(x: Array, paddings: Array) -> Array:
    return np.pad(x, paddings.reshape(x.ndim, 2))


def diag_of(x: Array) -> Array:
    return np.diag(x.reshape(-1)).reshape(x.shape * 2)


def diag_part(x: Array) -> Array:
    half = x.shape[: x.ndim // 2]
    return np.diag(x.reshape(int(np.prod(half)), -1)).reshape(half)


def fill_diagonal(x: Array, fill_value: float = 0.0, wrap: int = 0) -> Array:
    result = x.copy()
    np.fill_diagonal(result, fill_value, bool(wrap))
    return result


def split_at(split_dim: Array, x: Array, num_split: int) -> list[Array]:
    return np.split(x, num_split, int(split_dim.reshape(())))


def split_v(x: Array, sizes: Array, split_dim: Array) -> list[Array]:
    return np.split(x, np.cumsum(sizes.reshape(-1))[:-1], int(split_dim.reshape(())))


def depth_to_space(x: Array, block_size: int = 1, mode: str = "DCR", data_format: str = "NCHW") -> Array:
    if data_format != "NCHW":
        raise NotImplementedError(f"data_format {data_format} is not emulated")
    n, c, h, w = x.shape
    deep = c // block_size**2
    if mode == "DCR":
        blocks = x.reshape(n, block_size, block_size, deep, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        blocks = x.reshape(n, deep, block_size, block_size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, deep, h * block_size, w * block_size)


def space_to_depth(x: Array, _filter: Array | None = None, block_size: int = 1, data_format: str = "NCHW") -> Array:
    if data_format != "NCHW":
        raise NotImplementedError(f"data_format {data_format} is not emulated")
    n, c, h, w = x.shape
    blocks = x.reshape(n, c, h // block_size, block_size, w // block_size, block_size).transpose(0, 3, 5, 1, 2, 4)
    return blocks.reshape(n, c * block_size**2, h // block_size, w // block_size)


def adaptive_avg_pool_of(x: Array, *, outputs: list[Tensor]) -> Array:
    return pooling.adaptive_avg_pool(x, outputs[0].shape[-2:])


def matrix_inverse(x: Array, adjoint: int = 0) -> Array:
    return np.linalg.inv(np.conj(np.swapaxes(x, -1, -2)) if adjoint else x)


def _updated(change: Callable[..., None]) -> Callable[..., Any]:
    def update(var: Array, indices: Array, updates: Array) -> Array:
        result = var.copy()
        change(result, indices, updates)
        return result

    return update


def _assign(var: Array, indices: Array, updates: Array) -> None:
    var[indices] = updates


def tensor_scatter_sub(x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    np.subtract.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return result


def _segments(combine: Any, start: Callable[[np.dtype[Any]], Any]) -> Callable[..., Any]:
    def reduce(x: Array, segments: Array, _count: Array, *, outputs: list[Tensor]) -> Array:
        result = np.full(outputs[0].shape, start(x.dtype), x.dtype)
        seen = segments >= 0
        combine.at(result, segments[seen], x[seen])
        return result

    return reduce


def _limits(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype) if dtype.kind == "i" else np.finfo(dtype)


OPERATORS: dict[str, Callable[..., Any]] = {
    "scatter_update_of": _updated(_assign),
    "scatter_add_of": _updated(np.add.at),
    "scatter_sub_of": _updated(np.subtract.at),
    "unsorted_segment_max": _segments(np.maximum, lambda dtype: _limits(dtype).min),
    "unsorted_segment_min": _segments(np.minimum, lambda dtype: _limits(dtype).max),
    "unsorted_segment_prod": _segments(np.multiply, lambda _: 1),
}
