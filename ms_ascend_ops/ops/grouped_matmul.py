"""Products of groups of rows, such as the tokens of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor

from ms_ascend_ops.custom import FusedPrimitive, Selector, kernel
from ms_ascend_ops.gradients import needs_gradient
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["grouped_matmul"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    of_x = kernel("grouped_matmul", transpose_weight=not grad.attributes["transpose_weight"])

    def bprop(x, weight, group_list, out, dout):  # type: ignore[no-untyped-def]
        dx = of_x(dout, weight, group_list) if needs_gradient(x) else zeros_like(x)
        dweight = grad(dout, x, group_list) if needs_gradient(weight) else zeros_like(weight)
        return dx, dweight, zeros_like(group_list)

    return bprop


_select = Selector("grouped_matmul", _bprop)


def grouped_matmul(x: Tensor, weight: Tensor, group_list: Tensor, transpose_weight: bool = False) -> Tensor:
    r"""Products of groups of rows with a matrix each: rows are tokens sorted by expert, groups are experts.

    .. math::
        y_i = x_i \, weight_g \quad \text{for the rows i of group g}

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k): the m rows of all groups, one group after the
            other; they may have several dims.
        weight: Tensor[dtype of x], shape (groups, k, n), or (groups, n, k) with `transpose_weight`, as nn.Dense keeps
            a matrix.
        group_list: Tensor[int32], shape (groups,): where each group ends, as numbers of rows added up, so that the last
            one is m. Groups of 3, 0 and 2 rows are [3, 3, 5]. `moe_token_permute` gives it.
        transpose_weight: the last two dims of weight are swapped.

    Returns:
        Tensor[dtype of x], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; no group.
        RuntimeError: ends of groups that fall, that are below 0, or whose last is not m: the kernel stops before it
            reads anything by them.

    Differentiable in x and weight; the gradient of the matrix of a group without rows is 0. A group may be empty, and
    one may have all rows. NaN stays in its row, or in the columns and the group of its weight. Sums of no products are
    0.

    Products are accumulated in float32, and the result is rounded once. The order of sums follows from the shapes and
    from the sizes of groups: results do not change from run to run, nor with the number of cores.
    """
    return _select(x, weight, group_list, transpose_weight)(x, weight, group_list)  # type: ignore[no-any-return]
