"""Attention of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor

from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.gradients import size_of
from ms_ascend_ops.mindspore_versions import zeros_like
from ms_ascend_ops.ops.flash_attention import gradient_sums

__all__ = ["flash_attention_varlen"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    def bprop(query, key, value, query_lengths, key_lengths, out, dout):  # type: ignore[no-untyped-def]
        if size_of(query) == 0:  # the kernel would check the lengths, which that of the output did not read either
            nothing = zeros_like
            return nothing(query), nothing(key), nothing(value), nothing(query_lengths), nothing(key_lengths)
        lse, delta = gradient_sums(out, dout, True)
        gradients = grad(dout[0], query, key, value, lse, delta, query_lengths, key_lengths)
        return (*gradients, zeros_like(query_lengths), zeros_like(key_lengths))

    return bprop


_select = Selector("flash_attention_varlen", _bprop)


def _call(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_lengths: Tensor,
    key_lengths: Tensor,
    scale: float,
    causal: bool,
    window: int,
) -> tuple[Tensor, Tensor]:
    select = _select(query, key, value, query_lengths, key_lengths, scale, causal, window)
    return select(query, key, value, query_lengths, key_lengths)  # type: ignore[no-any-return]


def flash_attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_lengths: Tensor,
    key_lengths: Tensor,
    scale: float | None = None,
    causal: bool = False,
    window: int = 0,
) -> tuple[Tensor, Tensor]:
    r"""Attention within each of several sequences that lie one after the other, without padding: the layout TND.

    .. math::
        out = softmax(scale \cdot query \, key^T) \, value \quad \text{of each sequence}

    Args:
        query: Tensor[float16 | bfloat16 | float32], shape (queries of all sequences, heads, d).
        key: Tensor[dtype of query], shape (keys of all sequences, key heads, d). The number of heads of query is a
            multiple of that of key: consecutive heads share one.
        value: Tensor[dtype of query], shape of key, but for its last dim e.
        query_lengths: Tensor[int32], shape (sequences,): lengths added up, so that the last one is the number of all
            queries. Lengths of 3, 0 and 2 are [3, 3, 5].
        key_lengths: Tensor[int32], shape (sequences,): the same of the keys.
        scale: what scores are multiplied by; without it 1 / sqrt(d).
        causal: a query sees the keys up to its own position only. The last query of a sequence stands at its last key.
        window: a query sees as many keys at most, the last of them at its own position; 0: all.

    Returns:
        out: Tensor[dtype of query], shape of query, but for its last dim e.
        lse: Tensor[float32], shape (heads, queries of all sequences): the logarithm of the sum of the exponentials of
            the scores. A query that sees no key has zeros and -inf.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other, heads that do not divide or have more than 256 elements, a window
            below 0.
        RuntimeError: lengths that fall, that are below 0, or whose last is not the number of rows: the kernel stops
            before it reads anything by them.

    Differentiable in query, key and value. NaN stays in its sequence, where it does what it does in `flash_attention`.
    A sequence may be empty; without queries out and lse are empty.

    Scores, probabilities and sums are float32; probabilities are rounded to the dtype of query before they are
    multiplied by value, as FlashAttention does (Dao et al., arXiv:2205.14135).
    """
    if scale is None:
        scale = float(query.shape[-1] or 1) ** -0.5  # the definition refuses heads without elements
    return _call(query, key, value, query_lengths, key_lengths, scale, causal, window)
