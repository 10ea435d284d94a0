"""Operators as compositions of stock operators of MindSpore: what answers a call when a kernel cannot.

Each takes the inputs and the attributes of the definition, in its order, and returns all outputs. They calculate in
float32 and round once where the kernel does, compile in graphs, and are differentiated by MindSpore. Of the operators
that write in place, work on packed or paged sequences, or on tokens sorted by expert, there is none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor, ops

__all__ = ["COMPOSITIONS"]

Tensors = tuple[Tensor, ...]


def _add(x: Tensor, y: Tensor) -> Tensor:
    return (x.astype(ms.float32) + y.astype(ms.float32)).astype(x.dtype)


def _rms_norm(x: Tensor, gamma: Tensor, epsilon: float, scheme: str) -> Tensors:
    values, scale = x.astype(ms.float32), gamma.astype(ms.float32)
    rstd = ops.rsqrt((values * values).mean(-1, keep_dims=True) + epsilon)
    if scheme == "one_plus_gamma":
        return (values * rstd * (1.0 + scale)).astype(x.dtype), rstd
    normal = (values * rstd).astype(x.dtype).astype(ms.float32)
    return (normal * scale).astype(x.dtype), rstd


def _add_rms_norm(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float, scheme: str) -> Tensors:
    x = _add(x1, x2)
    y, rstd = _rms_norm(x, gamma, epsilon, scheme)
    return y, rstd, x


def _layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, activation: str = "none") -> Tensors:
    values, axes = x.astype(ms.float32), tuple(range(x.ndim - gamma.ndim, x.ndim))
    mean = values.mean(axes, keep_dims=True)
    centred = values - mean
    rstd = ops.rsqrt((centred * centred).mean(axes, keep_dims=True) + epsilon)
    y = centred * rstd * gamma.astype(ms.float32) + beta.astype(ms.float32)
    y = ops.relu(y) if activation == "relu" else y
    return y.astype(x.dtype), mean, rstd


def _add_layer_norm(x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensors:
    x = _add(x1, x2)
    y, mean, rstd = _layer_norm(x, gamma, beta, epsilon)
    return y, mean, rstd, x


def _group_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, epsilon: float, activation: str, data_format: str
) -> Tensors:
    values = x.astype(ms.float32)
    last = data_format == "NHWC"
    if last:
        values = values.swapaxes(1, -1)
    rows = values.reshape(x.shape[0], num_groups, -1)
    mean = rows.mean(-1, keep_dims=True)
    centred = rows - mean
    rstd = ops.rsqrt((centred * centred).mean(-1, keep_dims=True) + epsilon)
    across = (1, -1) + (1,) * (x.ndim - 2)
    y = (centred * rstd).reshape(values.shape)
    y = y * gamma.astype(ms.float32).reshape(across) + beta.astype(ms.float32).reshape(across)
    y = _activated(y, activation)
    if last:
        y = y.swapaxes(1, -1)
    return y.astype(x.dtype), mean.reshape(x.shape[0], num_groups), rstd.reshape(x.shape[0], num_groups)


def _gelu_of(x: Tensor, approximate: str) -> Tensor:
    """Compute in float32."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + ops.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    # erfc keeps its relative accuracy where erf is close to -1.
    return 0.5 * x * ops.erfc(-0.7071067811865476 * x)


def _gelu(x: Tensor, approximate: str) -> Tensor:
    return _gelu_of(x.astype(ms.float32), approximate).astype(x.dtype)


def _gelu_mul(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    return (_gelu_of(gate.astype(ms.float32), approximate) * up.astype(ms.float32)).astype(gate.dtype)


def _geglu(x: Tensor, axis: int, activate_left: bool, approximate: str) -> Tensor:
    left, right = ops.chunk(x.astype(ms.float32), 2, axis)
    gate, up = (left, right) if activate_left else (right, left)
    return (_gelu_of(gate, approximate) * up).astype(x.dtype)


def _silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    values = gate.astype(ms.float32)
    return (values * ops.sigmoid(values) * up.astype(ms.float32)).astype(gate.dtype)


def _swiglu(x: Tensor, axis: int, interleaved: bool) -> Tensor:
    values = x.astype(ms.float32)
    if interleaved:
        place = axis % x.ndim
        pairs = values.reshape(x.shape[:place] + (-1, 2) + x.shape[place + 1 :])  # noqa: RUF005 - a graph unpacks none
        gate, up = ops.unstack(pairs, place + 1)
    else:
        gate, up = ops.chunk(values, 2, axis)
    return (gate * ops.sigmoid(gate) * up).astype(x.dtype)


def _softmax(x: Tensor, axis: int) -> Tensor:
    return ops.softmax(x.astype(ms.float32), axis).astype(x.dtype)


def _scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    scores = x.astype(ms.float32) * scale + mask.astype(ms.float32)
    # A row that is -inf everywhere is zeros.
    empty = scores.max(-1, keepdims=True) == float("-inf")
    probabilities = ops.softmax(ops.select(empty, ops.zeros_like(scores), scores), -1)
    return ops.select(empty, ops.zeros_like(scores), probabilities).astype(x.dtype)


def _cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensors:
    values = logits.astype(ms.float32)
    largest = values.max(-1, keepdims=True)
    log_sum = ops.log(ops.exp(values - largest).sum(-1))
    kept = labels != ignore_index
    places = ops.select(kept, labels, ops.zeros_like(labels)).expand_dims(-1)
    chosen = ops.gather_elements(values, values.ndim - 1, places).squeeze(-1)
    largest = largest.squeeze(-1)
    loss = log_sum - (chosen - largest)
    return ops.select(kept, loss, ops.zeros_like(loss)), largest + log_sum


def _activated(y: Tensor, activation: str) -> Tensor:
    """Compute in float32."""
    if activation == "relu":
        return ops.relu(y)
    if activation == "silu":
        return y * ops.sigmoid(y)
    return y if activation == "none" else _gelu_of(y, "tanh" if activation == "gelu_tanh" else "none")


def _matmul(
    x: Tensor, weight: Tensor, bias: Tensor | None, transpose_x: bool, transpose_weight: bool, activation: str
) -> Tensor:
    left, right = x.astype(ms.float32), weight.astype(ms.float32)
    y = ops.matmul(
        left.swapaxes(-1, -2) if transpose_x else left, right.swapaxes(-1, -2) if transpose_weight else right
    )
    if bias is not None:
        y = y + bias.astype(ms.float32)
    return _activated(y, activation).astype(x.dtype)


def _products(x: Tensor, gate_weight: Tensor, up_weight: Tensor) -> Tensors:
    values = x.astype(ms.float32)
    return tuple(ops.matmul(values, weight.astype(ms.float32).swapaxes(0, 1)) for weight in (gate_weight, up_weight))


def _linear_silu_mul(x: Tensor, gate_weight: Tensor, up_weight: Tensor) -> Tensor:
    gate, up = _products(x, gate_weight, up_weight)
    return (gate * ops.sigmoid(gate) * up).astype(x.dtype)


def _linear_gelu_mul(x: Tensor, gate_weight: Tensor, up_weight: Tensor, approximate: str) -> Tensor:
    gate, up = _products(x, gate_weight, up_weight)
    return (_gelu_of(gate, approximate) * up).astype(x.dtype)


def _halves_of_pairs(values: Tensor, mode: str) -> Tensors:
    """First and second elements of the pairs."""
    half = values.shape[-1] // 2
    return (values[..., :half], values[..., half:]) if mode == "half" else (values[..., 0::2], values[..., 1::2])


def _rotary_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, seq_axis: int, mode: str, rotary_dim: int, separate_halves: bool
) -> Tensor:
    rotated = rotary_dim or x.shape[-1]
    tables = []
    for given in (cos, sin):
        table = given.astype(ms.float32)
        between = (1,) * (x.ndim - seq_axis - 2)
        table = table.reshape(table.shape[:-1] + between + (table.shape[-1],))
        if table.shape[-1] == rotated:  # a value for either element of a pair
            of_first, of_second = _halves_of_pairs(table, mode)
            tables.append((of_first, of_second if separate_halves else of_first))
        else:
            tables.append((table, table))
    (cos1, cos2), (sin1, sin2) = tables
    values = x.astype(ms.float32)
    head = values[..., :rotated]
    first, second = _halves_of_pairs(head, mode)
    both = (first * cos1 - second * sin1, second * cos2 + first * sin2)
    y = ops.cat(both, -1) if mode == "half" else ops.stack(both, -1).reshape(head.shape)
    if rotated < x.shape[-1]:
        y = ops.cat((y, values[..., rotated:]), -1)
    return y.astype(x.dtype)


def _qkv_rotary_embedding(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    q_heads: int,
    k_heads: int,
    v_heads: int,
    mode: str,
    layout: str,
    rotary_dim: int,
    separate_halves: bool,
) -> Tensors:
    q = _rotary_embedding(qkv[:, :, :q_heads], cos, sin, 1, mode, rotary_dim, separate_halves)
    k = _rotary_embedding(qkv[:, :, q_heads : q_heads + k_heads], cos, sin, 1, mode, rotary_dim, separate_halves)
    v = qkv[:, :, q_heads + k_heads :]
    if layout == "BSND":
        return q, k, v
    # Stock MindSpore does not transpose bfloat16 on a CPU.
    q, k, v = (x.astype(ms.float32).swapaxes(1, 2).astype(qkv.dtype) for x in (q, k, v))
    return q, k, v


def _flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    window: int,
    layout: str,
) -> Tensors:
    q, k, v = query.astype(ms.float32), key.astype(ms.float32), value.astype(ms.float32)
    if layout == "BSND":
        q, k, v = q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2)
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = ops.repeat_interleave(k, shared, 1), ops.repeat_interleave(v, shared, 1)
    scores = ops.matmul(q, k.swapaxes(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask.astype(ms.float32)
    queries, keys = scores.shape[-2], scores.shape[-1]
    # A key lies so far behind the query, whose last one sees the last key.
    behind = ops.arange(queries).expand_dims(1) + (keys - queries) - ops.arange(keys).expand_dims(0)
    hidden = ops.zeros((queries, keys), ms.float32)
    if causal:
        hidden = ops.select(behind < 0, ops.full_like(hidden, float("-inf")), hidden)
    if window > 0:
        hidden = ops.select(behind >= window, ops.full_like(hidden, float("-inf")), hidden)
    if causal or window > 0:
        scores = scores + hidden
    largest = scores.max(-1, keepdims=True)
    # A query that sees no key gets zeros.
    blind = largest == float("-inf")
    weights = ops.exp(scores - ops.select(blind, ops.zeros_like(largest), largest))
    total = weights.sum(-1, keepdims=True)
    out = ops.matmul(weights / ops.select(blind, ops.ones_like(total), total), v)
    lse = (largest + ops.log(total)).squeeze(-1)
    if layout == "BSND":
        out = out.swapaxes(1, 2)
    return out.astype(query.dtype), lse


def _dynamic_quant(x: Tensor, smooth_scales: Tensor | None) -> Tensors:
    values = x.astype(ms.float32)
    if smooth_scales is not None:
        values = values * smooth_scales.astype(ms.float32)
    scale = values.abs().max(-1, keepdims=True) / 127.0
    quotient = ops.round(values / scale)
    # A row of zeros, or one whose scale is not finite, is zeros.
    return ops.select(ops.isfinite(quotient), quotient, ops.zeros_like(quotient)).astype(ms.int8), scale.squeeze(-1)


def _quant_matmul(
    x: Tensor, weight: Tensor, scale: Tensor, pertoken_scale: Tensor | None, bias: Tensor | None
) -> Tensor:
    y = ops.matmul(x.astype(ms.float32), weight.astype(ms.float32).swapaxes(0, 1)) * scale.astype(ms.float32)
    if pertoken_scale is not None:
        y = y * pertoken_scale.expand_dims(-1)
    if bias is not None:
        y = y + bias
    return y.astype(scale.dtype)


def _unpacked_product(x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None) -> Tensor:
    """Compute in float32."""
    numbers, columns = weight.astype(ms.float32), x.shape[-1]
    if weight.shape[-1] != columns:  # two numbers of 4 bits in a byte, the lower half first
        high = ops.floor(numbers / 16)
        low = numbers - 16 * high
        numbers = ops.stack((low - 16 * ops.floor(low / 8), high), -1).reshape(weight.shape[0], columns)
    groups = numbers.reshape(weight.shape[0], scale.shape[1], -1)
    if offset is not None:
        groups = groups + offset.astype(ms.float32).expand_dims(-1)
    unpacked = (groups * scale.astype(ms.float32).expand_dims(-1)).reshape(weight.shape[0], columns)
    y = ops.matmul(x.astype(ms.float32), unpacked.swapaxes(0, 1))
    return y if bias is None else y + bias


def _rounded(x: Tensor, groups: int, quantize_x: str) -> Tensor:
    """x as integers of 8 bits by groups, in float32; x itself where the kernel does not round.

    Which sizes of groups it rounds by, kernels/primitives/weight_quant_tiling.h says.
    """
    size = x.shape[-1] // groups
    piece = next((piece for piece in (64, 32, 16) if size % piece == 0), size)
    if quantize_x == "none" or size % 16 or size // piece > 4:
        return x
    grouped = x.astype(ms.float32).reshape(*x.shape[:-1], groups, size)
    largest = ops.maximum(grouped.abs().amax(-1, True), ms.Tensor(1e-30, ms.float32))
    return (ops.round(grouped * (127.0 / largest)) * (largest * (1 / 127))).reshape(x.shape)


def _weight_quant_matmul(
    x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None, activation: str,
    quantize_x: str,
) -> Tensor:  # fmt: skip
    product = _unpacked_product(_rounded(x, scale.shape[1], quantize_x), weight, scale, offset, bias)
    return _activated(product, activation).astype(x.dtype)


def _weight_quant_swiglu(
    x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None, quantize_x: str
) -> Tensor:
    product = _unpacked_product(_rounded(x, scale.shape[1], quantize_x), weight, scale, offset, bias)
    gate, up = ops.chunk(product, 2, -1)
    return (gate * ops.sigmoid(gate) * up).astype(x.dtype)


# By the name of the operator.
COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "add": _add,
    "add_layer_norm": _add_layer_norm,
    "add_rms_norm": _add_rms_norm,
    "cross_entropy": _cross_entropy,
    "dynamic_quant": _dynamic_quant,
    "flash_attention": _flash_attention,
    "geglu": _geglu,
    "gelu": _gelu,
    "gelu_mul": _gelu_mul,
    "group_norm": _group_norm,
    "layer_norm": _layer_norm,
    "linear_gelu_mul": _linear_gelu_mul,
    "linear_silu_mul": _linear_silu_mul,
    "matmul": _matmul,
    "qkv_rotary_embedding": _qkv_rotary_embedding,
    "quant_matmul": _quant_matmul,
    "rms_norm": _rms_norm,
    "rotary_embedding": _rotary_embedding,
    "scaled_masked_softmax": _scaled_masked_softmax,
    "silu_mul": _silu_mul,
    "softmax": _softmax,
    "swiglu": _swiglu,
    "weight_quant_matmul": _weight_quant_matmul,
    "weight_quant_swiglu": _weight_quant_swiglu,
}
