"""Queries, keys and values out of one product, with rotary position embedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.gradients import needs_gradient, size_of
from ms_ascend_ops.mindspore_versions import zeros_like
from ms_ascend_ops.ops.rotary_embedding import composition as rotary_embedding_composition
from ms_ascend_ops.ops.rotary_embedding import renamed_halves, table_gradients

__all__ = ["qkv_rotary_embedding"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    attributes = grad.attributes
    rotated = attributes["q_heads"] + attributes["k_heads"]
    heads_first = attributes["layout"] == "BNSD"
    of_tables = table_gradients(1, attributes["mode"], attributes["rotary_dim"], attributes["separate_halves"])

    def positions_first(x: Tensor) -> Tensor:
        x = x.astype(ms.float32)
        return x.swapaxes(1, 2) if heads_first else x

    def bprop(qkv, cos, sin, out, dout):  # type: ignore[no-untyped-def]
        dcos, dsin = zeros_like(cos), zeros_like(sin)
        if size_of(qkv) != 0 and (needs_gradient(cos) or needs_gradient(sin)):
            dy = stock.concat((positions_first(dout[0]), positions_first(dout[1])), 2)
            dcos, dsin = of_tables(qkv.astype(ms.float32)[:, :, :rotated], dy, cos, sin)
        return grad(dout[0], dout[1], dout[2], cos, sin), dcos, dsin

    return bprop


_select = Selector("qkv_rotary_embedding", _bprop)


def _call(
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
) -> tuple[Tensor, Tensor, Tensor]:
    select = _select(qkv, cos, sin, q_heads, k_heads, v_heads, mode, layout, rotary_dim, separate_halves)
    return select(qkv, cos, sin)  # type: ignore[no-any-return]


def qkv_rotary_embedding(
    qkv: Tensor,
    cos: Tensor,
    sin: Tensor,
    q_heads: int,
    k_heads: int | None = None,
    v_heads: int | None = None,
    mode: str = "half",
    layout: str = "BNSD",
    rotary_dim: int = 0,
    separate_halves: bool = False,
    own_angles: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Take the heads of queries, keys and values apart, and rotate those of queries and keys.

    .. math::
        q_h = R(\mathrm{qkv}_h), \qquad k_h = R(\mathrm{qkv}_{h + n_q}), \qquad v_h = \mathrm{qkv}_{h + n_q + n_k}

    with the rotation R of `rotary_embedding`, for head h of each of the three. It is what follows a product that gives
    all three, `qkv = dense(x).reshape(batch, seq, -1, d)`: a transpose, three slices and two rotary embeddings, in one
    pass.

    Differentiable in `qkv`, and in the tables as `rotary_embedding` is: their gradients are composed of stock
    operators.

    Args:
        qkv: Tensor[float16 | bfloat16 | float32], shape (batch, seq, q_heads + k_heads + v_heads, d): first the heads
            of the queries, then those of the keys, then those of the values.
        cos: Tensor[dtype of qkv | float32], shape (seq, w) or, with tables for every sequence, (batch, seq, w). w is
            as in `rotary_embedding`.
        sin: as cos.
        q_heads: number of heads of the queries, > 0.
        k_heads: of the keys, > 0; None: as many as q_heads.
        v_heads: of the values, > 0; None: as many as k_heads.
        mode: "half" or "interleave"; see `rotary_embedding`.
        layout: of the results, "BNSD" or "BSND".
        rotary_dim: how many elements of a head are rotated, even; 0: the whole head.
        separate_halves: whether the second element of a pair has another cos and sin; see `rotary_embedding`.
        own_angles: the old name of `separate_halves`.

    Returns:
        q: Tensor[dtype of qkv], shape (batch, q_heads, seq, d) or, with layout "BSND", (batch, seq, q_heads, d).
        k: Tensor[dtype of qkv], with k_heads instead.
        v: Tensor[dtype of qkv], with v_heads instead.

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: a shape, a number of heads, the mode, the layout or rotary_dim is not allowed.

    NaN and Inf reach the two elements of their pair and nothing else; bits of values are copied. An empty qkv gives
    empty results.

    Computed in float32 and rounded once.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
    """
    if own_angles is not None:
        separate_halves = renamed_halves("qkv_rotary_embedding", own_angles)
    k_heads = q_heads if k_heads is None else k_heads
    v_heads = k_heads if v_heads is None else v_heads
    return _call(qkv, cos, sin, q_heads, k_heads, v_heads, mode, layout, rotary_dim, separate_halves)


def composition(
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
    """Compute all outputs by stock operators, as `compositions.py` says."""
    rotated = q_heads + k_heads
    q = rotary_embedding_composition(qkv[:, :, :q_heads], cos, sin, 1, mode, rotary_dim, separate_halves)
    k = rotary_embedding_composition(qkv[:, :, q_heads:rotated], cos, sin, 1, mode, rotary_dim, separate_halves)
    v = qkv[:, :, rotated:]
    if layout == "BSND":
        return q, k, v
    # Stock MindSpore does not transpose bfloat16 on a CPU.
    q, k, v = (x.astype(ms.float32).swapaxes(1, 2).astype(qkv.dtype) for x in (q, k, v))
    return q, k, v
