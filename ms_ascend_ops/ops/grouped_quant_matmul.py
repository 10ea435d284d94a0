"""Products of groups of rows of 8-bit integers, such as the tokens of quantized experts."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector

__all__ = ["grouped_quant_matmul"]


_select = Selector("grouped_quant_matmul")


def grouped_quant_matmul(
    x: Tensor, weight: Tensor, scale: Tensor, group_list: Tensor, pertoken_scale: Tensor | None = None
) -> Tensor:
    r"""Products of groups of rows of 8-bit integers with a matrix each, scaled by column and by row; for inference.

    .. math::
        y_{ij} = \Bigl(\sum_p x_{ip} \, weight_{gjp}\Bigr) \cdot scale_{gj} \cdot pertoken\_scale_i
        \quad \text{for the rows i of group g}

    Args:
        x: Tensor[int8], shape (..., k), k at most 131071: the m rows of all groups, one group after the other;
            `dynamic_quant` makes them.
        weight: Tensor[int8], shape (groups, n, k), as nn.Dense keeps a matrix.
        scale: Tensor[float16 | bfloat16 | float32], shape (groups, n). Its dtype is that of the result.
        group_list: Tensor[int32], shape (groups,): where each group ends, as numbers of rows added up, so that the last
            one is m. `moe_token_permute` gives it.
        pertoken_scale: Tensor[float32], shape (...): of the rows of x. Without it 1.

    Returns:
        Tensor[dtype of scale], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; no group; rows without elements, or with too many.
        RuntimeError: ends of groups that fall, that are below 0, or whose last is not m: the kernel stops before it
            reads anything by them.

    Sums of products are exact, in 32 bits; scales are applied in float32, and the result is rounded once. A group may
    be empty, and one may have all rows. NaN or an infinity in a scale stays in its row, or in its group and column. It
    is what CANN's GroupedMatmul computes of int8 (GroupedMatmulV4 with `scale` and `per_token_scale`).
    """
    select = _select(x, weight, scale, group_list, pertoken_scale)
    return select(x, weight, scale, group_list, pertoken_scale)  # type: ignore[no-any-return]
