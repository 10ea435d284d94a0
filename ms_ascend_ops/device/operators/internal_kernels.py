"""Computes MindSpore's own fused kernels for inference, by the parameters of their headers: see ../internal_kernels.py.

Each computes what MindSpore's graph passes replace by it, or what MindSpore documents of the primitives
`PagedAttention`, `ReshapeAndCache` and `FlashAttentionScore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.attention import flash_attention_score, rotary_position_embedding
from ms_ascend_ops.device.operators.elementwise import gelu_tanh, sigmoid, silu
from ms_ascend_ops.device.operators.experts import swi_glu
from ms_ascend_ops.device.operators.memory import Array, Tensor, watchers
from ms_ascend_ops.device.operators.normalization import add_layer_norm, add_rms_norm
from ms_ascend_ops.device.operators.reductions import softmax

__all__ = ["KERNELS", "LAYOUTS", "divided", "run_internal"]

LAYOUTS = ("BSH", "BNSD", "SBH", "BSND", "TND", "TH", "NSD", "SH")  # InputLayoutMode
_LOOK_AHEAD = 2  # MaskType: some new tokens of a sequence do not see those behind them


def run_internal(name: str, values: list[Any]) -> None:
    """Compute a launch; kernels/device/internal_kernels has the order of its values."""
    inputs, outputs, named = divided(values)
    parameters = dict(zip(named[0::2], named[1::2], strict=True))
    if name == "ReshapeAndCache":
        key, value, key_cache, value_cache, slots = inputs
        for new, cache in ((key, key_cache), (value, value_cache)):
            if new is not None and cache is not None and slots is not None:
                _write_cache(new, cache, slots)
        return
    results = KERNELS[name](*[None if tensor is None else tensor.read() for tensor in inputs], **parameters)
    for tensor, result in zip(outputs, results if isinstance(results, tuple) else (results,), strict=True):
        if tensor is not None:
            tensor.write(result)


def divided(values: Sequence[Any]) -> tuple[list[Tensor | None], list[Tensor | None], list[Any]]:
    """Divide the values of a call into inputs, outputs, and names with parameters."""
    middle = 1 + values[0]
    end = middle + 1 + values[middle]
    return [*values[1:middle]], [*values[middle + 1 : end]], [*values[end:]]


def _write_cache(new: Tensor, cache: Tensor, slots: Tensor) -> None:
    """Write the key or value of each token into the row of the cache that its slot names; a slot below 0 is none."""
    places = slots.read().reshape(-1)
    kept = np.flatnonzero(places >= 0)
    rows = cache.memory().reshape(cache.shape[0] * cache.shape[1], -1)
    values = new.memory().reshape(len(places), -1)
    watchers.reads(values)
    for token in kept:
        row = rows[places[token]]
        row[...] = values[token]
        watchers.writes(row)


def matmul(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    transpose_a: int,
    transpose_b: int,
    with_relu: int = 0,
    with_gelu: int = 0,
    with_fast_gelu: int = 0,
    with_bias: int = 0,
    with_sigmoid_add: int = 0,
) -> Array:
    if with_sigmoid_add:
        raise NotImplementedError("a product with sigmoid and sum is not emulated")
    y = _product(x, weight, transpose_a, transpose_b)
    if with_bias and bias is not None:
        y = y + bias
    if with_relu:
        return np.maximum(y, 0)
    if with_gelu:  # MindSpore's primitive GeLU is the one with tanh
        return gelu_tanh(y)
    return fast_gelu(y) if with_fast_gelu else y


def multi_weight_matmul(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    sizes: Sequence[int],
    transpose_a: int,
    transpose_b: int,
    silu_position: int,
    with_bias: int,
    fused: int,
    split_two: int,
) -> tuple[Array, ...]:
    """Divide the columns of one product by the weights that were joined for it, with SiLU on one of them."""
    if fused and not split_two:
        raise NotImplementedError("a product with SiLU and fast GELU is not emulated")
    y = _product(x, weight, transpose_a, transpose_b)
    if with_bias and bias is not None:
        y = y + bias
    parts = np.split(y, list(accumulate(size for size in sizes if size))[:-1], -1)
    if fused:
        return (swi_glu(y, -1),)
    return tuple(silu(part) if place == silu_position else part for place, part in enumerate(parts))


def transposed_matmul(
    x: Array, weight: Array, *, perm_in: Sequence[int], perm_out: Sequence[int], transpose_a: int, transpose_b: int
) -> Array:
    return _product(x.transpose(perm_in), weight, transpose_a, transpose_b).transpose(perm_out)


def _product(x: Array, weight: Array, transpose_a: int, transpose_b: int) -> Array:
    return np.matmul(x.swapaxes(-1, -2) if transpose_a else x, weight.swapaxes(-1, -2) if transpose_b else weight)


def fast_gelu(x: Array) -> Array:
    return x * sigmoid(np.float32(1.702) * x)


def rotary(
    query: Array, key: Array, cos: Array, sin: Array, lengths: Array | None, *, cos_format: int
) -> tuple[Array, Array]:
    """Rotate halves (formats 0 and 2) or neighbours (1 and 3).

    Of all tokens of the sequences, whose lengths are given, each has the row of cos and sin of its position; of the
    newest ones only, a row of its own.
    """
    size, tokens = cos.shape[-1], query.reshape(-1, query.shape[-1]).shape[0]
    counts = [] if lengths is None else lengths.reshape(-1).tolist()
    rows = np.concatenate([np.arange(n) for n in counts]) if sum(counts) == tokens else np.arange(tokens)
    cos, sin = (x.reshape(-1, size)[rows][:, None] for x in (cos, sin))

    def rotated(x: Array) -> Array:
        return rotary_position_embedding(x.reshape(tokens, -1, size), cos, sin, cos_format % 2).reshape(x.shape)

    return rotated(query), rotated(key)


def flash_attention(
    query: Array,
    key: Array,
    value: Array,
    shift: Array | None,
    mask: Array | None,
    *,
    heads: int,
    scale: float,
    layout: int,
    before: int,
    after: int,
    mode: int,
    query_lengths: Sequence[int],
    key_lengths: Sequence[int],
) -> Array:
    """Compute attention in the layouts of a batch as CANN's operator, and in TH, which has concatenated sequences."""
    name = LAYOUTS[layout]
    if name != "TH":
        arguments = (query, key, value, shift, None, None, mask, None, scale, 1.0, before, after, heads, name, 0, mode)
        return flash_attention_score(*arguments)[3]
    if shift is not None:
        raise NotImplementedError("FlashAttentionScore with positions that are added (ALiBi) is not emulated in TH")
    if not query_lengths:
        raise ValueError("FlashAttentionScore in the layout TH: MindSpore gives no lengths of sequences")
    size = query.shape[-1] // heads
    q, k, v = (x.reshape(-1, x.shape[-1] // size, size) for x in (query, key, value))
    out = np.zeros(q.shape, np.float32)
    for place, (rows, columns) in enumerate(_sequences(query_lengths, key_lengths or query_lengths)):
        seen = None if mask is None else _seen(mask, place, rows, columns)
        out[rows] = _attend(q[rows], k[columns], v[columns], scale, seen)
    return out.reshape(query.shape)


def paged_attention(
    query: Array,
    keys: Array,
    values: Array | None,
    tables: Array,
    lengths: Array,
    scales: Array | None = None,
    offsets: Array | None = None,
    mask: Array | None = None,
    alibi: Array | None = None,
    *,
    heads: int,
    key_heads: int,
    scale: float,
    query_lengths: Sequence[int],
    value_size: int,
    quantized: int,
    mask_type: int,
) -> Array:
    """Attend with queries (tokens, heads x size), some of each sequence, over the pages of its keys."""
    if quantized or scales is not None or offsets is not None or alibi is not None:
        raise NotImplementedError("PagedAttention with a quantized cache, or with ALiBi, is not emulated")
    if values is None or value_size:  # latent heads: values are the first elements of their keys
        values = keys[..., : value_size or None]
    q = query.reshape(-1, heads, keys.shape[-1])
    given = lengths.reshape(-1)
    new = [int(n) for n in query_lengths] or [1] * len(given)
    out = []
    for sequence, (rows, _) in enumerate(_sequences(new, new)):
        count = int(given[sequence])
        pages = np.maximum(tables[sequence], 0)
        k, v = (x[pages].reshape(-1, key_heads or heads, x.shape[-1])[:count] for x in (keys, values))
        behind = np.arange(count) - (count - (rows.stop - rows.start)) > np.arange(rows.stop - rows.start)[:, None]
        out.append(_attend(q[rows], k, v, scale, ~behind if mask_type == _LOOK_AHEAD else None))
    return np.concatenate(out).reshape(*query.shape[:-1], -1)


def _sequences(lengths: Sequence[int], key_lengths: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    row = column = 0
    for rows, columns in zip(lengths, key_lengths, strict=True):
        yield slice(row, row + rows), slice(column, column + columns)
        row, column = row + rows, column + columns


def _seen(mask: Array, sequence: int, rows: slice, columns: slice) -> Array:
    """Read a mask: what is not 0 hides; one that is smaller than the sequence is a triangle, for all lengths."""
    count, length = rows.stop - rows.start, columns.stop - columns.start
    if mask.shape[-2] < count or mask.shape[-1] < length:
        return np.arange(length) - (length - count) <= np.arange(count)[:, None]
    whole = mask.reshape(-1, *mask.shape[-2:])
    return whole[sequence if len(whole) > 1 else 0, :count, :length] == 0


def _attend(q: Array, k: Array, v: Array, scale: float, seen: Array | None) -> Array:
    """Attend within one sequence: queries (tokens, heads, size), keys and values (tokens, their heads, size)."""
    share = q.shape[1] // k.shape[1]
    groups = q.reshape(len(q), k.shape[1], share, -1).transpose(1, 2, 0, 3)
    scores = np.matmul(groups, k.transpose(1, 2, 0)[:, None]) * np.float32(scale)
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    y = np.matmul(softmax(scores, -1), v.transpose(1, 0, 2)[:, None])
    return y.transpose(2, 0, 1, 3).reshape(len(q), q.shape[1], -1)


def best_experts(
    x: Array,
    bias: Array,
    *_mapping: Any,
    groups: int,
    group_k: int,
    best: int,
    k: int,
    activation: int,
    normalize: int,
    scale: float,
    mapped: int,
) -> tuple[Array, Array]:
    """Return the k best experts of a token, of the groups whose `best` experts are the best together."""
    if activation or mapped:
        raise NotImplementedError("FusedAddTopKDiv with another activation, or with a mapping, is not emulated")
    scores = sigmoid(x)
    chosen_by = scores + bias
    parts = chosen_by.reshape(len(x), groups, -1)
    totals = np.sort(parts, -1)[..., -best:].sum(-1)
    opened = np.argsort(-totals, -1, kind="stable")[:, :group_k]
    closed = np.ones(totals.shape, bool)
    np.put_along_axis(closed, opened, False, -1)
    allowed = np.where(closed[..., None], -np.inf, parts).reshape(x.shape)
    experts = np.argsort(-allowed, -1, kind="stable")[:, :k]
    weights = np.take_along_axis(scores, experts, -1)
    if normalize:
        weights = weights / (weights.sum(-1, keepdims=True) + np.float32(1e-20))
    return weights * np.float32(scale), experts


# By the names that MindSpore asks for; ReshapeAndCache, which has no outputs, stands above.
KERNELS: Mapping[str, Callable[..., Any]] = {
    "MatMul": matmul,
    "MultiWeightMatmul": multi_weight_matmul,
    "TransposeBatchMatmulTranspose": transposed_matmul,
    "PagedAttention": paged_attention,
    "FlashAttentionScore": flash_attention,
    "AddRmsNorm": lambda x1, x2, gamma, *, eps: add_rms_norm(x1, x2, gamma, eps),
    "AddLayerNorm": lambda x1, x2, gamma, beta, *, eps: add_layer_norm(x1, x2, gamma, beta, None, eps, True),
    "ApplyRotaryPosEmb": rotary,
    "SwiGLU": lambda x, *, axis: swi_glu(x, axis),
    "Swish": silu,
    "FastGeLU": fast_gelu,
    "Softmax": lambda x, *, axes: softmax(x, axes[0]),
    "FusedAddTopkDiv": best_experts,
}
