"""Softmax over one axis."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import Selector

__all__ = ["softmax"]

_select = Selector("softmax")


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    r"""Softmax over one axis.

    .. math::
        y_i = \frac{e^{x_i - \max_j x_j}}{\sum_j e^{x_j - \max_j x_j}}

    Differentiable in `x`; only the output is kept for the gradient.

    Args:
        x: Tensor[float16 | bfloat16 | float32], at least one dim.
        axis: the axis that sums to 1; negative counts from the end.

    Returns:
        Tensor[dtype of x], shape of x.

    Raises:
        TypeError: x is no tensor or has a dtype there is no kernel for; axis is no int.
        ValueError: x has no dim, or no such axis.

    A slice that holds NaN or +inf, or nothing but -inf, becomes NaN as a whole, as in PyTorch; others are not touched
    by it. -inf among numbers gives 0. An empty x gives an empty y.

    Computed in float32 and rounded once.
    """
    return _select(x, axis)(x)  # type: ignore[no-any-return]


def composition(x: Tensor, axis: int) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    return stock.softmax(x.astype(ms.float32), axis).astype(x.dtype)
