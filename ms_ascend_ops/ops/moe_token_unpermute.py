"""Rows of experts back at their tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor

from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["moe_token_unpermute"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    def bprop(permuted, sorted_indices, probs, out, dout):  # type: ignore[no-untyped-def]
        dpermuted, dprobs = grad(dout, permuted, sorted_indices, probs)
        if probs is not None:
            dprobs = dprobs.astype(probs.dtype)
        return dpermuted, zeros_like(sorted_indices), dprobs

    return bprop


_select = Selector("moe_token_unpermute", _bprop)


def moe_token_unpermute(permuted: Tensor, sorted_indices: Tensor, probs: Tensor | None = None) -> Tensor:
    r"""Bring the rows of experts back to their tokens, and add them up by weight.

    .. math::
        y_t = \sum_j probs_{tj} \cdot permuted_{sorted\_indices_{tj}}

    Args:
        permuted: Tensor[float16 | bfloat16 | float32], shape (n, k, h): n * k rows, expert by expert.
        sorted_indices: Tensor[int32], shape (n, k): the row of permuted that belongs to each token and expert, each
            once; `moe_token_permute` gives them.
        probs: Tensor[dtype of permuted | float32], shape (n, k): the weights of experts. Without it 1.

    Returns:
        Tensor[dtype of permuted], shape (n, h).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; no expert, or more than 256 of a token.
        RuntimeError: an index below 0, or n * k or more: the kernel stops before it reads anything by it.

    Differentiable in permuted and probs. NaN in a row gives NaN for its token, and a weight of 0 does not hide it.
    Without tokens the result is empty.

    Sums are accumulated in float32, in the order of a token's experts, and rounded once.

    Source: Megatron-LM's unpermute; CANN's MoeTokenUnpermute, which takes permuted as (n * k, h).
    """
    return _select(permuted, sorted_indices, probs)(permuted, sorted_indices, probs)  # type: ignore[no-any-return]
