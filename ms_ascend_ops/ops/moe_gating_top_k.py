"""The best experts of tokens."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector

__all__ = ["moe_gating_top_k"]

_select = Selector("moe_gating_top_k")


def moe_gating_top_k(
    x: Tensor,
    bias: Tensor | None = None,
    k: int = 1,
    scoring: str = "softmax",
    renormalize: bool = True,
    group_count: int = 1,
    k_group: int = 1,
    group_score: str = "max",
    scale: float = 1.0,
    epsilon: float = 1e-20,
) -> tuple[Tensor, Tensor]:
    r"""The k experts with the highest scores of each token, and their weights.

    .. math::
        s = scoring(x), \quad experts = topk(s + bias), \quad
        weights_j = scale \cdot \frac{s_j}{\sum_{i \in experts} s_i + \epsilon}

    Mixtral and Qwen3-MoE have softmax; DeepSeek-V3 sigmoid, a bias, 8 groups of which 4 are looked at, and "top2".

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., experts): logits of at most 1024 experts.
        bias: Tensor[dtype of x | float32], shape (experts,): added to the scores by which experts are picked, not to
            the weights.
        k: experts of a token, at most 64.
        scoring: "softmax" or "sigmoid".
        renormalize: weights are divided by their sum; without it a weight is scale times the score.
        group_count: the experts are so many groups of equal size, one after the other; at most 32.
        k_group: experts are picked from so many groups, those with the highest scores.
        group_score: the score of a group: its best expert's ("max"), or the sum of those of its best two ("top2"); with
            the bias.
        scale: what weights are multiplied by.
        epsilon: added to the sum.

    Returns:
        weights: Tensor[float32], shape (..., k), the best expert first.
        experts: Tensor[int32], shape (..., k). Of experts with equal scores the first one is taken.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; no expert, or more than there may be; groups that are not equal;
            more experts of a token than its groups have.

    Differentiable in x, through the weights; which experts are picked is taken as given, and the bias gets zeros. NaN
    makes the weights of its token NaN, and so do, with softmax, +inf and nothing but -inf; the experts are such that
    there are. A bias of -inf closes an expert, one of +inf makes all weights NaN. An empty x gives empty outputs.

    Calculated in float32.

    Source: DeepSeek-AI, DeepSeek-V3 Technical Report, 2024; CANN's MoeGatingTopK and MoeGatingTopKSoftmax.
    """
    select = _select(x, bias, k, scoring, renormalize, group_count, k_group, group_score, scale, epsilon)
    return select(x, bias)  # type: ignore[no-any-return]
