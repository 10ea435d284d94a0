"""Writing new keys and values into a cache."""

from __future__ import annotations

import math

import mindspore as ms
import numpy as np
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import Selector, by_python

__all__ = ["kv_cache_append", "kv_cache_update"]


# Runs in Python while a graph is compiled, if the dims are known then. (A `raise` in a graph does not survive export.)
@ms.constexpr(check=False)  # type: ignore[untyped-decorator]
def _check_rows(rows: int, batch: int, shape: tuple[int, ...]) -> None:
    if rows != batch:
        raise ValueError(f"kv_cache_append: key_cache.shape[0] must equal key.shape[0] ({batch}), got {shape}")


_select = Selector("kv_cache_update")


def kv_cache_update(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> tuple[Tensor, Tensor]:
    """Write the keys and values of new tokens to their slots in a paged cache, in place.

    Nothing but the new tokens is written. Slot i is row i % block_size of block i // block_size; negative slots are
    skipped; slots of different tokens must differ.

    The caches must be contiguous. A graph needs them whole: MindSpore copies a view that is passed to a graph, or that
    a graph makes of a Parameter (`self.caches[layer]`, a reshape), and what is written to the copy would be lost.
    Both are refused, but for a view that a branch or a loop of a graph (or MindIR) makes where a value decides whether
    it runs: make views of caches outside, or give every layer a cache of its own.

    Args:
        key: Tensor[float16 | bfloat16 | float32], shape (tokens, heads, d), or any number of dims instead of tokens.
        value: Tensor[dtype of key], shape (tokens, heads, e).
        key_cache: Tensor[dtype of key], shape (blocks, block_size, heads, d); in a graph a Parameter.
        value_cache: Tensor[dtype of key], shape (blocks, block_size, heads, e); in a graph a Parameter.
        slot_mapping: Tensor[int32], shape (tokens,).

    Returns:
        key_cache and value_cache, changed. In a graph, use these: they are what keeps the update in it, before whatever
        reads them.

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: the shapes do not fit; a cache is not contiguous, or in a graph a view.
        RuntimeError: a slot lies beyond the cache; MindSpore reports it when a result is read. Nothing is written.

    Bits are copied: NaN, Inf, denormals and -0 stay what they are. An empty key writes nothing.

    Source: the paged cache of Kwon et al., Efficient Memory Management for Large Language Model Serving with
    PagedAttention, 2023; CANN's reshape_and_cache.
    """
    status = _select(key, value, key_cache, value_cache, slot_mapping)(key, value, key_cache, value_cache, slot_mapping)
    return stock.depend(key_cache, status), stock.depend(value_cache, status)


def kv_cache_append(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Write the keys and values of new tokens into a contiguous cache from a position on, in place.

    Args:
        key: Tensor[float16 | bfloat16 | float32], shape (batch, seq, heads, d).
        value: Tensor[dtype of key], shape (batch, seq, heads, e).
        key_cache: Tensor[dtype of key], shape (batch, max_seq, heads, d); in a graph a Parameter.
        value_cache: Tensor[dtype of key], shape (batch, max_seq, heads, e); in a graph a Parameter.
        position: Tensor[int32], shape (1,) or (batch,): where the first new token of each sequence goes.

    Returns:
        key_cache and value_cache, changed; see `kv_cache_update`.

    Raises:
        TypeError: as `kv_cache_update`.
        ValueError: as `kv_cache_update`.
        RuntimeError: a token lies before or beyond its sequence. Nothing is written then.
    """
    seq = key.shape[1]
    rows, length = key_cache.shape[:2]
    _check_rows(rows, key.shape[0], key_cache.shape)
    calculate = _slots if by_python() else _slots_in_graph
    slots = calculate(position, seq, rows, length)
    return kv_cache_update(key, value, key_cache, value_cache, slots)


def _slots_in_graph(position, seq, rows, length):  # type: ignore[no-untyped-def]
    positions = position.reshape((-1, 1)) + stock.arange(0, seq).astype(ms.int32)  # (1 or batch, seq)
    # There are as many rows of slots as the cache has: those of another batch than that of key are refused.
    slots = positions + (stock.arange(0, rows) * length).astype(ms.int32).reshape((-1, 1))
    inside = stock.logical_and(positions >= 0, positions < length)
    slots = stock.where(inside, slots, stock.full_like(slots, rows * length))
    return slots.astype(ms.int32)


def _slots(position: Tensor, seq: int, rows: int, length: int) -> Tensor:
    """Calculate the same slots. In PyNative each of those operators takes longer than all of this."""
    if not isinstance(position, Tensor):
        raise TypeError(f"kv_cache_append: position must be a Tensor, got {type(position).__name__}")
    if math.prod(position.shape) not in (1, rows):  # MindNLP makes a method of `size`
        raise ValueError(
            f"kv_cache_append: position must have 1 element or key.shape[0] ({rows}) of them, got {position.shape}"
        )
    first = np.ravel(position.tolist()).tolist()  # asnumpy() takes ten times as long
    if all(0 <= token <= length - seq for token in first):
        starts = [row * length + token for row, token in enumerate(first * rows if len(first) == 1 else first)]
        slots = np.array(starts).reshape(-1, 1) + np.arange(seq)
    else:  # the kernel refuses all if one lies beyond the cache
        slots = np.full((rows, seq), rows * length)
    return Tensor.from_numpy(slots.astype(np.int32))
