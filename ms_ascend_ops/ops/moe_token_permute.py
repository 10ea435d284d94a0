"""Tokens in the order of their experts."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["moe_token_permute"]


def _composed(attributes):  # type: ignore[no-untyped-def]
    add_up = kernel("moe_token_unpermute", has_probs=False)

    def bprop(tokens, indices, out, dout):  # type: ignore[no-untyped-def]
        return add_up(dout[0], out[1], None), zeros_like(indices)

    return bprop


_select = Selector("moe_token_permute", composed=_composed)


def moe_token_permute(tokens: Tensor, indices: Tensor, num_experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Bring tokens into the order of their experts: each once for every expert of its own.

    The tokens of an expert keep their order, and `moe_token_unpermute` brings rows back.

    Args:
        tokens: Tensor[float16 | bfloat16 | float32], shape (n, h).
        indices: Tensor[int32], shape (n, k): the experts of each token, at most 256; `moe_gating_top_k` gives them.
        num_experts: how many experts there are, at most 1024.

    Returns:
        permuted: Tensor[dtype of tokens], shape (n, k, h): n * k rows, expert by expert.
        sorted_indices: Tensor[int32], shape (n, k): the row of permuted where each token went for each of its experts.
        group_list: Tensor[int32], shape (num_experts,): where the rows of each expert end, what `grouped_matmul` takes.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; no expert; more than there may be.
        RuntimeError: an index below 0, or num_experts or more: the kernel stops before anything is written.

    Differentiable in tokens: the gradient of a token is the sum over its experts, in float32, in their order. Bits are
    copied: NaN and Inf stay what they are. Without tokens permuted is
    empty; with all at one expert the others have no rows.

    Source: Megatron-LM's permute; CANN's MoeTokenPermute, which takes the same and returns (n * k, h).
    """
    return _select(tokens, indices, num_experts)(tokens, indices)  # type: ignore[no-any-return]
