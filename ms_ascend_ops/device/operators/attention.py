"""Computes attention and rotary embeddings, by what CANN's documentation says of layouts and sparse modes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array, Tensor

_LANES = 8  # the sums and maxima of a softmax stand in so many equal columns
_CACHED_SCORES = 1 << 19  # of a head
_ADD_FIRST = 1  # pseType: what is added to the scores is scaled, too


@dataclass(frozen=True)
class _Rule:
    """Says which keys a query sees, and what else happens to scores."""

    scale: float
    mode: int = 0
    before: int = 2**31 - 1
    after: int = 2**31 - 1
    mask: Array | None = None  # what is not 0 is hidden
    prefix: Sequence[int] | None = None  # none of them is the same as None, as everywhere
    shift: Array | None = None  # added to the scores
    shift_type: int = _ADD_FIRST
    keep: float = 1.0
    drop: Array | None = None  # 1: what is left

    def visible(self, batch: int, rows: int, columns: int, length: int | None = None) -> Array | None:
        """Return which keys of a batch count, (heads or 1, rows, columns); None: all. Only `length` keys are there."""
        if self.mask is None and not self.prefix and length is None and self.mode not in {2, 3, 4, 5, 6}:
            return None
        seen = np.ones((1, rows, columns), bool)
        end = columns if length is None else length
        place = np.arange(rows)[:, None] + (end - rows if self.mode in {3, 4, 5, 6} else 0)
        ahead = np.arange(columns) - place
        if self.mode in {2, 3, 5, 6}:
            seen = seen & (ahead <= 0)
        elif self.mode == 4 or (self.mode == 0 and self.mask is not None):
            seen = seen & (ahead <= self.after) & (ahead >= -self.before)
        if self.prefix:
            seen = seen | (np.arange(columns) < self.prefix[batch])
        if self.mask is not None and self.mode in {0, 1}:
            seen = seen & (_of_batch(self.mask, batch)[..., :rows, :columns] == 0)
        return seen & (np.arange(columns) < end)


def _of_batch(array: Array, batch: int) -> Array:
    """Return a mask of two to four dimensions as (batch, heads or 1, rows, columns)."""
    if array.ndim == 2:
        return array[None]
    one = array[batch if array.shape[0] > 1 else 0]
    return one if one.ndim == 3 else one[None]


def _of_heads(array: Array | None, heads: slice) -> Any:
    return array if array is None or array.shape[0] == 1 else array[heads]


def _heads(x: Array, layout: str, heads: int, size: int | None = None) -> Array:
    """Return a tensor in a layout as (batch, heads, tokens, size).

    `size`: of one head, where `heads` are those of others.
    """
    if layout == "BNSD":
        return x
    if layout == "BSND":
        return x.swapaxes(1, 2)
    if layout == "SBH":
        x = x.swapaxes(0, 1)
    elif layout not in {"BSH", "BNSD_BSND"}:
        raise NotImplementedError(f"the layout {layout} is not emulated")
    width = size or x.shape[2] // heads
    return x.reshape(*x.shape[:2], -1, width).swapaxes(1, 2)


def _as_layout(x: Array, layout: str) -> Array:
    if layout == "BNSD":
        return x
    x = x.swapaxes(1, 2)
    if layout == "BSND":
        return x
    x = x.reshape(*x.shape[:2], -1)
    return x.swapaxes(0, 1) if layout == "SBH" else x


def _groups(q: Array, k: Array) -> Iterator[tuple[int, int, slice]]:
    """Yield each batch and key head, and the heads of queries that share it."""
    share = q.shape[1] // k.shape[1]
    for batch in range(q.shape[0]):
        for head in range(k.shape[1]):
            yield batch, head, slice(head * share, (head + 1) * share)


def _blocks(rows: int, columns: int) -> Iterator[slice]:
    """Yield rows whose scores stay in a cache: those of a long sequence would wait for memory four times as long."""
    size = max(1, _CACHED_SCORES // max(1, columns))
    for first in range(0, rows, size):
        yield slice(first, min(first + size, rows))


def _weights(
    q: Array, k: Array, rule: _Rule, batch: int, heads: slice, rows: slice, seen: Array | None
) -> tuple[Array, Array, Array]:
    """Return probabilities of these rows of one group of heads, and the maxima and sums of the rows."""
    scores = np.matmul(q[batch, heads, rows], k.T)
    if rule.shift is not None:
        shift = _of_heads(_of_batch(rule.shift, batch), heads)[..., : scores.shape[-1]]
        shift = shift if shift.shape[-2] == 1 else shift[..., rows, :]
        scores = scores + shift if rule.shift_type == _ADD_FIRST else scores + shift / rule.scale
    scores = scores * np.float32(rule.scale)
    if seen is not None:
        scores = np.where(_of_heads(seen, heads)[:, rows], scores, -np.inf)
    most = scores.max(-1, keepdims=True, initial=-np.inf)
    powers = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0, total, 1), most, total


def _attend(
    q: Array, k: Array, v: Array, rule: _Rule, lengths: Sequence[int] | None = None
) -> tuple[Array, Array, Array]:
    """Attend over tensors (batch, heads, tokens, size); return maxima and sums as (batch, heads, tokens, 1), too."""
    out = np.zeros((*q.shape[:3], v.shape[3]), np.float32)
    most, total = np.zeros((2, *q.shape[:3], 1), np.float32)
    for batch, head, heads in _groups(q, k):
        seen = rule.visible(batch, q.shape[2], k.shape[2], None if lengths is None else lengths[batch])
        for rows in _blocks(q.shape[2], k.shape[2]):
            at = batch, heads, rows
            weights, most[at], total[at] = _weights(q, k[batch, head], rule, batch, heads, rows, seen)
            if rule.drop is not None:
                weights = weights * rule.drop[at] / rule.keep
            out[at] = np.matmul(weights, v[batch, head])
    return out, most, total


def _attend_gradient(q: Array, k: Array, v: Array, dy: Array, rule: _Rule) -> tuple[Array, Array, Array, Array | None]:
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (q, k, v))
    dshift = None if rule.shift is None else np.zeros((*q.shape[:3], k.shape[2]), np.float32)
    for batch, head, heads in _groups(q, k):
        seen = rule.visible(batch, q.shape[2], k.shape[2])
        for rows in _blocks(q.shape[2], k.shape[2]):
            at = batch, heads, rows
            weights, _, _ = _weights(q, k[batch, head], rule, batch, heads, rows, seen)
            dweights = np.matmul(dy[at], v[batch, head].T)
            kept = weights
            if rule.drop is not None:
                factor = rule.drop[at] / rule.keep
                dweights, kept = dweights * factor, weights * factor
            dv[batch, head] += np.matmul(kept.swapaxes(1, 2), dy[at]).sum(0)
            dscores = weights * (dweights - (weights * dweights).sum(-1, keepdims=True))
            if dshift is not None:
                dshift[at] = dscores * (rule.scale if rule.shift_type == _ADD_FIRST else 1)
            dscores = dscores * np.float32(rule.scale)
            dq[at] = np.matmul(dscores, k[batch, head])
            dk[batch, head] += np.matmul(dscores.swapaxes(1, 2), q[at]).sum(0)
    if dshift is not None and rule.shift is not None and rule.shift.shape[0] == 1:
        dshift = dshift.sum(0, keepdims=True)
    return dq, dk, dv, dshift


def _dropping(drop: Array | None, shape: tuple[int, ...]) -> Array | None:
    if drop is None:
        return None
    size = int(np.prod(shape))
    return np.unpackbits(drop.reshape(-1).view(np.uint8), count=size, bitorder="little").reshape(shape)


def _split(
    query: Array, key: Array, value: Array, heads: int, layout: str, rule: _Rule, drop: Array | None = None
) -> tuple[Array, Array, Array, _Rule]:
    """Split tensors by their heads; return them and the rule with what is dropped."""
    q = _heads(query, layout, heads)
    k, v = (_heads(x, layout, heads, q.shape[3]) for x in (key, value))
    return q, k, v, replace(rule, drop=_dropping(drop, (*q.shape[:3], k.shape[2])))


def _lanes(values: Array) -> Array:
    return np.repeat(values, _LANES, -1)


def flash_attention_score(
    query: Array,
    key: Array,
    value: Array,
    shift: Array | None,
    drop: Array | None,
    _padding: Any,
    mask: Array | None,
    prefix: Sequence[int] | None,
    scale: float,
    keep: float,
    before: int,
    after: int,
    heads: int,
    layout: str,
    _precise: int,
    mode: int,
    shift_type: int = _ADD_FIRST,
) -> tuple[Array, Array, None, Array]:
    rule = _Rule(scale, mode, before, after, mask, prefix, shift, shift_type, keep)
    q, k, v, rule = _split(query, key, value, heads, layout, rule, drop)
    out, most, total = _attend(q, k, v, rule)
    return _lanes(most), _lanes(total), None, _as_layout(out, layout)


def flash_attention_score_v2(*arguments: Any) -> tuple[Array, Array, None, Array]:
    """Compute version 2, which ends with the positions where query and key begin, and what shift means."""
    return flash_attention_score(*arguments[:8], *arguments[10:])


def flash_attention_score_grad(
    query: Array,
    key: Array,
    value: Array,
    dy: Array,
    shift: Array | None,
    drop: Array | None,
    _padding: Any,
    mask: Array | None,
    _most: Any,
    _total: Any,
    _softmax: Any,
    _attention: Any,
    prefix: Sequence[int] | None,
    scale: float,
    keep: float,
    before: int,
    after: int,
    heads: int,
    layout: str,
    _precise: int,
    mode: int,
    shift_type: int = _ADD_FIRST,
) -> tuple[Array | None, ...]:
    rule = _Rule(scale, mode, before, after, mask, prefix, shift, shift_type, keep)
    q, k, v, rule = _split(query, key, value, heads, layout, rule, drop)
    dq, dk, dv, dshift = _attend_gradient(q, k, v, _heads(dy, layout, heads), rule)
    return *(_as_layout(x, layout) for x in (dq, dk, dv)), dshift


def flash_attention_score_grad_v2(*arguments: Any) -> tuple[Array | None, ...]:
    return flash_attention_score_grad(*arguments[:13], *arguments[15:])


def _sequences(ends: Sequence[int], key_ends: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    for (row, row_end), (column, column_end) in zip(pairwise((0, *ends)), pairwise((0, *key_ends)), strict=True):
        yield slice(row, row_end), slice(column, column_end)


def _of_sequence(x: Array, rows: slice) -> Array:
    return x[rows].swapaxes(0, 1)[None]


def flash_attention_varlen(
    query: Array,
    key: Array,
    value: Array,
    shift: Array | None,
    drop: Array | None,
    _padding: Any,
    mask: Array | None,
    _prefix: Any,
    ends: Sequence[int],
    key_ends: Sequence[int],
    scale: float,
    _keep: float,
    before: int,
    after: int,
    _heads: int,
    _layout: str,
    _precise: int,
    mode: int,
    _shift_type: int = _ADD_FIRST,
) -> tuple[Array, Array, None, Array]:
    """Compute attention of concatenated sequences: the layout TND."""
    _no_more(shift, drop)
    out = np.zeros((*query.shape[:2], value.shape[2]), np.float32)
    most, total = np.zeros((2, *query.shape[:2], 1), np.float32)
    rule = _Rule(scale, mode, before, after, mask)
    for rows, columns in _sequences(ends, key_ends):
        parts = _attend(_of_sequence(query, rows), _of_sequence(key, columns), _of_sequence(value, columns), rule)
        for whole, part in zip((out, most, total), parts, strict=True):
            whole[rows] = part[0].swapaxes(0, 1)
    return _lanes(most), _lanes(total), None, out


def flash_attention_varlen_v2(*arguments: Any) -> tuple[Array, Array, None, Array]:
    return flash_attention_varlen(*arguments[:10], *arguments[12:])


def flash_attention_varlen_grad(
    query: Array,
    key: Array,
    value: Array,
    dy: Array,
    shift: Array | None,
    drop: Array | None,
    _padding: Any,
    mask: Array | None,
    _most: Any,
    _total: Any,
    _softmax: Any,
    _attention: Any,
    _prefix: Any,
    ends: Sequence[int],
    key_ends: Sequence[int],
    scale: float,
    _keep: float,
    before: int,
    after: int,
    _heads: int,
    _layout: str,
    _precise: int,
    mode: int,
    _shift_type: int = _ADD_FIRST,
) -> tuple[Array, Array, Array, None]:
    _no_more(shift, drop)
    dq, dk, dv = (np.zeros(x.shape, np.float32) for x in (query, key, value))
    rule = _Rule(scale, mode, before, after, mask)
    for rows, columns in _sequences(ends, key_ends):
        q, dy_part = _of_sequence(query, rows), _of_sequence(dy, rows)
        parts = _attend_gradient(q, _of_sequence(key, columns), _of_sequence(value, columns), dy_part, rule)
        for whole, at, part in zip((dq, dk, dv), (rows, columns, columns), parts[:3], strict=True):
            whole[at] = part[0].swapaxes(0, 1)
    return dq, dk, dv, None


def flash_attention_varlen_grad_v2(*arguments: Any) -> tuple[Array, Array, Array, None]:
    return flash_attention_varlen_grad(*arguments[:15], *arguments[17:])


def _no_more(*arguments: Any) -> None:
    if any(argument is not None for argument in arguments):
        raise NotImplementedError("the layout TND with a shift or dropout is not emulated")


def prompt_flash_attention(
    query: Array,
    key: Array,
    value: Array,
    shift: Array | None,
    mask: Array | None,
    lengths: Sequence[int] | None,
    key_lengths: Sequence[int] | None,
    *arguments: Any,
) -> Array:
    """Compute attention of prompts. Queries behind their actual length give zeros."""
    *scales, heads, scale, before, after, layout, key_heads, mode, _precise = arguments
    _no_scales(scales)
    q = _heads(query, layout, heads)
    k, v = (_heads(x, layout, key_heads or heads, q.shape[3]) for x in (key, value))
    rule = _Rule(scale, mode, before, after, mask, None, shift, 0)
    if not lengths and not key_lengths:
        return _as_layout(_attend(q, k, v, rule)[0], layout)
    rows, columns = (_each(given, len(q), size) for given, size in ((lengths, q.shape[2]), (key_lengths, k.shape[2])))
    out = np.zeros((*q.shape[:3], v.shape[3]), np.float32)
    for batch, (row, column) in enumerate(zip(rows, columns, strict=True)):
        one = slice(batch, batch + 1)
        alone = replace(rule, mask=_one_batch(mask, batch), shift=_one_batch(shift, batch))
        out[one, :, :row] = _attend(q[one, :, :row], k[one, :, :column], v[one, :, :column], alone)[0]
    return _as_layout(out, layout)


def _one_batch(array: Array | None, batch: int) -> Array | None:
    return array if array is None or array.ndim == 2 else array[batch if len(array) > 1 else 0][None]


def _each(given: Sequence[int] | None, count: int, size: int) -> Sequence[int]:
    if not given:
        return [size] * count
    return list(given) * (count if len(given) == 1 else 1)


def _no_scales(scales: Sequence[Any]) -> None:
    if any(scale is not None for scale in scales):
        raise NotImplementedError("quantized attention is not emulated")


def incre_flash_attention(
    query: Array,
    keys: list[Array],
    values: list[Array],
    shift: Array | None,
    mask: Array | None,
    lengths: Sequence[int] | None,
    *arguments: Any,
) -> Array:
    """Compute attention of one new token of each sequence; with a table, keys and values stand in blocks."""
    *scales, table, _padding, heads, scale, layout, key_heads, _block, _precise = arguments
    _no_scales(scales)
    q = _heads(query, layout, heads)
    k, v = (_cached(x, table, layout, key_heads or heads, q.shape[3]) for x in (keys, values))
    hidden = None if mask is None else mask.reshape(len(mask), 1, 1, -1)
    rule = _Rule(scale, 0, mask=hidden, shift=shift, shift_type=0)
    return _as_layout(_attend(q, k, v, rule, _each(lengths, len(q), 0) if lengths else None)[0], layout)


def _cached(caches: list[Array], table: Array | None, layout: str, heads: int, size: int) -> Array:
    whole = caches[0] if len(caches) == 1 else np.concatenate(caches)
    if table is None:
        return _heads(whole, layout, heads, size)
    # (blocks, rows, heads * size), or (blocks, heads, rows, size).
    blocks = whole[np.maximum(table, 0)]
    if whole.ndim == 4:
        blocks = blocks.swapaxes(2, 3)
    return blocks.reshape(len(table), -1, heads, size).swapaxes(1, 2)


def fused_infer_attention_score(
    query: Array, keys: list[Array], values: list[Array], *arguments: Any
) -> tuple[Array, None]:
    """Compute attention of one or more tokens of each sequence."""
    shift, mask, lengths, key_lengths, *more = arguments
    *scales, heads, scale, before, after, layout, key_heads, mode, _precise, _block, _anti, lse, _key, _value = more
    table = scales[7]
    _no_scales([*scales[:7], *scales[8:]])
    if lse:
        raise NotImplementedError("softmaxLse is not emulated")
    q = _heads(query, layout, heads)
    k, v = (_cached(x, table, layout, key_heads or heads, q.shape[3]) for x in (keys, values))
    out = prompt_flash_attention(
        q, k, v, shift, mask, lengths, key_lengths, heads, scale, before, after, "BNSD", key_heads, mode, 0
    )
    return _as_layout(out, layout), None


def rotary_position_embedding(x: Array, cos: Array, sin: Array, mode: int) -> Array:
    """Rotate halves (mode 0) or neighbours (mode 1)."""
    return x * cos + _rotated(x, mode) * sin


def rotary_position_embedding_grad(
    dy: Array, cos: Array, sin: Array, x: Array | None, mode: int, *, outputs: list[Tensor]
) -> tuple[Array, Array | None, Array | None]:
    dx: Array = dy * cos - _rotated(dy * sin, mode)
    if x is None:
        return dx, None, None
    axes = tuple(axis for axis in range(dy.ndim) if cos.shape[axis] == 1 and dy.shape[axis] != 1)
    return dx, (dy * x).sum(axes, keepdims=True), (dy * _rotated(x, mode)).sum(axes, keepdims=True)


def apply_rotary_pos_emb(query: Array, key: Array, cos: Array, sin: Array, _layout: int) -> tuple[Array, Array]:
    return rotary_position_embedding(query, cos, sin, 0), rotary_position_embedding(key, cos, sin, 0)


def _rotated(x: Array, mode: int) -> Array:
    """Return what the sine of each element is multiplied with."""
    if mode == 0:
        one, other = np.split(x, 2, -1)
        return np.concatenate([-other, one], -1)
    if mode == 1:
        return np.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
    raise NotImplementedError(f"mode {mode} is not emulated: 0 are halves, 1 are neighbours")
