"""Computes mixtures of experts, and gated activations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.elementwise import sigmoid, silu, silu_backward
from ms_ascend_ops.device.operators.memory import Array, Tensor
from ms_ascend_ops.device.operators.quantization import dequantized, integer_product, scale_values
from ms_ascend_ops.device.operators.reductions import softmax


def swi_glu(x: Array, dim: int) -> Array:
    gate, up = np.split(x, 2, dim)
    return silu(gate) * up


def swi_glu_grad(dy: Array, x: Array, dim: int) -> Array:
    gate, up = np.split(x, 2, dim)
    return np.concatenate([silu_backward(dy * up, gate), dy * silu(gate)], dim)


def glu(x: Array, dim: int) -> Array:
    value, gate = np.split(x, 2, dim)
    return value * sigmoid(gate)


def glu_backward(dy: Array, x: Array, dim: int) -> Array:
    value, gate = np.split(x, 2, dim)
    opened = sigmoid(gate)
    return np.concatenate([dy * opened, dy * value * opened * (1 - opened)], dim)


def _by_expert(experts: Array) -> tuple[Array, Array]:
    """Sort the choices by expert, stably; return them, and where each choice comes to lie."""
    order = np.argsort(experts.reshape(-1), kind="stable")
    places = np.empty_like(order)
    places[order] = np.arange(order.size)
    return order, places


def moe_token_permute(tokens: Array, experts: Array, count: int, _padded: bool) -> tuple[Array, Array]:
    order, places = _by_expert(experts)
    chosen = 1 if experts.ndim == 1 else experts.shape[1]
    rows = tokens[order // chosen]
    return rows[: count or len(rows)], places


def moe_token_permute_grad(dy: Array, places: Array, chosen: int, _padded: bool) -> Array:
    return _taken(dy, places).reshape(-1, chosen, dy.shape[-1]).sum(1)


def moe_token_unpermute(rows: Array, places: Array, probs: Array | None, _padded: bool, _shape: Any) -> Array:
    chosen = 1 if probs is None else probs.shape[1]
    found = _taken(rows, places).reshape(-1, chosen, rows.shape[-1])
    return (found if probs is None else found * probs[..., None]).sum(1)


def moe_token_unpermute_grad(
    rows: Array, dy: Array, places: Array, probs: Array | None, _padded: bool, _shape: Any
) -> tuple[Array, Array | None]:
    chosen = 1 if probs is None else probs.shape[1]
    spread = np.repeat(dy[:, None], chosen, 1)
    weighted = (spread if probs is None else spread * probs[..., None]).reshape(-1, dy.shape[-1])
    drows = np.zeros(rows.shape, np.float32)
    there = places < len(rows)
    drows[places[there]] = weighted[there]
    if probs is None:
        return drows, None
    return drows, (_taken(rows, places).reshape(-1, chosen, rows.shape[-1]) * spread).sum(-1)


def _taken(rows: Array, places: Array) -> Array:
    """Take rows at these positions; zeros for those that were dropped."""
    there = places < len(rows)
    return np.where(there[:, None], rows[np.where(there, places, 0)], 0)


def moe_init_routing(x: Array, rows: Array, experts: Array, active: int) -> tuple[Array, Array, Array]:
    order, _ = _by_expert(experts)
    numbers = rows.reshape(-1)[order]
    places = np.empty_like(numbers)
    places[numbers] = np.arange(numbers.size)
    # `active` tokens of each choice are there.
    count = min(active, len(x)) * experts.shape[1]
    return x[numbers[:count] % len(x)], places, experts.reshape(-1)[order]


def moe_init_routing_v2(
    x: Array, experts: Array, active: int, _capacity: int, count: int, pad: int, flag: int, _before: bool
) -> tuple[Array, Array, Array | None, None]:
    if pad:
        raise NotImplementedError("dropPadMode 1 is not emulated")
    order, places = _by_expert(experts)
    rows = x[order[: active or order.size] // experts.shape[1]]
    counts = np.bincount(experts.reshape(-1), minlength=count)
    return rows, places, {0: None, 1: np.cumsum(counts), 2: counts}[flag], None


def moe_finalize_routing(
    rows: Array,
    x1: Array,
    x2: Array | None,
    bias: Array | None,
    scales: Array | None,
    places: Array,
    experts: Array | None,
) -> Array:
    out = x1 if x2 is None else x1 + x2
    found = rows[places].reshape(-1, len(out), rows.shape[-1])
    for choice, values in enumerate(found):
        shifted = values if bias is None or experts is None else values + bias[experts[:, choice]]
        out = out + (shifted if scales is None else shifted * scales[:, choice, None])
    return out


def moe_gating_top_k_softmax(x: Array, finished: Array | None, k: int) -> tuple[Array, Array, Array]:
    weights = softmax(x, -1)
    order = np.argsort(-weights, -1, kind="stable")[..., :k]
    experts = order if finished is None else np.where(finished.reshape(*x.shape[:-1], 1), x.shape[-1], order)
    rows = x.size // x.shape[-1]
    numbers = np.arange(rows)[:, None] + np.arange(k) * rows
    return np.take_along_axis(weights, order, -1), experts, numbers.reshape(order.shape)


def moe_compute_expert_tokens(ordered: Array, count: int) -> Array:
    return np.searchsorted(ordered, np.arange(count), "right")


def grouped_matmul(
    xs: list[Array],
    weights: list[Array],
    biases: list[Array] | None,
    scales: list[Array] | None,
    _offsets: Any,
    anti_scales: list[Array] | None,
    anti_offsets: list[Array] | None,
    groups: Any,
    _split: int,
    kind: int,
    *,
    outputs: list[list[Tensor]],
) -> list[Array]:
    """Compute as the function before its fourth version does; groups are ends."""
    return _grouped(xs, weights, biases, scales, anti_scales, anti_offsets, None, groups, kind, 0, outputs[0])


def grouped_matmul_v4(
    xs: list[Array],
    weights: list[Array],
    biases: list[Array] | None,
    scales: list[Array] | None,
    _offsets: Any,
    anti_scales: list[Array] | None,
    anti_offsets: list[Array] | None,
    row_scales: list[Array] | None,
    groups: Array | None,
    _input: Any,
    _input_scale: Any,
    _input_offset: Any,
    _split: int,
    kind: int,
    list_kind: int,
    activation: int,
    *,
    outputs: list[list[Tensor]],
) -> tuple[list[Array], None, None]:
    if activation:
        raise NotImplementedError(f"actType {activation} is not emulated")
    product = _grouped(
        xs, weights, biases, scales, anti_scales, anti_offsets, row_scales, groups, kind, list_kind, outputs[0]
    )
    return product, None, None


def _grouped(
    xs: list[Array],
    weights: list[Array],
    biases: Any,
    scales: Any,
    anti_scales: Any,
    anti_offsets: Any,
    row_scales: Any,
    groups: Any,
    kind: int,
    list_kind: int,
    outputs: list[Tensor],
) -> list[Array]:
    """Multiply by groups. Kind -1: a product of each pair, 0: groups of rows of x, 2: groups of what is summed over."""
    if kind == 2:
        rows, columns = xs[0].swapaxes(0, 1) if xs[0].shape[0] != weights[0].shape[0] else xs[0], weights[0]
        return [np.stack([np.matmul(rows[at].T, columns[at]) for at in _ranges(groups, list_kind, len(rows))])]
    count = len(weights) if len(weights) > 1 else len(weights[0]) if weights[0].ndim == 3 else 1

    def of_group(tensors: list[Array] | None, group: int) -> Array | None:
        if not tensors:
            return None
        return tensors[group] if len(tensors) > 1 else tensors[0][group] if count > 1 else tensors[0]

    many = len(xs) > 1
    ranges = [slice(None)] * count if many else list(_ranges(groups, list_kind, len(xs[0]), count))
    parts = []
    for group, at in enumerate(ranges):
        x, weight = xs[group] if many else xs[0][at], of_group(weights, group)
        assert weight is not None
        if weight.ndim == 3:
            weight = weight[0]
        scale, anti = of_group(scales, group), of_group(anti_scales, group)
        if anti is not None:
            weight = dequantized(weight, anti, of_group(anti_offsets, group))
        y = integer_product(x, weight) if x.dtype == np.int8 else np.matmul(x, weight)
        bias = of_group(biases, group)
        y = y if bias is None else y + bias
        if scale is not None:
            y = y * scale_values(scale)
        if row_scales:
            y = y * (row_scales[group] if many else row_scales[0][at])[:, None]
        parts.append(y)
    if len(outputs) > 1:
        return parts
    # Rows behind the last group are zeros.
    whole = np.concatenate(parts)
    return [np.pad(whole, ((0, outputs[0].shape[0] - len(whole)), (0, 0)))]


def _ranges(groups: Sequence[int] | Array | None, kind: int, size: int, count: int = 1) -> Iterator[slice]:
    """Yield the ranges of groups. Kind 0: groups are ends, 1: they are counts."""
    if groups is None:
        yield from [slice(0, size)] * count
        return
    ends = np.cumsum(groups) if kind == 1 else np.asarray(groups)
    for begin, end in pairwise((0, *(int(end) for end in ends))):
        yield slice(begin, end)
