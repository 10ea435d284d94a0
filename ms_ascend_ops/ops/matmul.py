"""Product of matrices, with bias and activation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import activated
from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.gradients import as_dtype, as_rows, gradient_of_activation
from ms_ascend_ops.mindspore_versions import ones_like

__all__ = ["matmul"]


def _bprop(attributes: dict[str, Any]) -> Callable[..., Any]:
    activation, transpose_x = attributes["activation"], attributes["transpose_x"]
    transpose_weight = attributes["transpose_weight"]
    before = kernel(
        "matmul", transpose_x=transpose_x, transpose_weight=transpose_weight, has_bias=attributes["has_bias"]
    )
    of_x = kernel("matmul", transpose_weight=not transpose_weight, has_bias=False)
    of_weight = kernel("matmul", transpose_x=True, has_bias=False)
    through_activation = gradient_of_activation(activation, before)

    def bprop(x, weight, bias, out, dout):  # type: ignore[no-untyped-def]
        dz = through_activation(x, weight, bias, out, dout)
        dx = of_x(dz, weight, None)
        rows = x.swapaxes(-1, -2) if transpose_x else x
        if transpose_x:
            dx = dx.swapaxes(-1, -2)
        left, right = (dz, rows) if transpose_weight else (rows, dz)
        if weight.ndim == 2:
            left, right = as_rows(left), as_rows(right)
        dweight = of_weight(left, right, None)
        dbias = bias
        if bias is not None:
            rows = as_rows(as_dtype(dz, ms.float32))
            # A product with ones: an operator of MindSpore's that sums up takes a CPU several times as long.
            dbias = as_dtype(of_weight(ones_like(rows[:, :1]), rows, None).reshape(-1), bias.dtype)
        return dx, dweight, dbias

    return bprop


_select = Selector("matmul", composed=_bprop)


def matmul(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    transpose_x: bool = False,
    transpose_weight: bool = False,
    activation: str = "none",
) -> Tensor:
    r"""Product of matrices, with bias and activation.

    .. math::
        y = activation(x \, weight + bias)

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., m, k), or (..., k, m) with `transpose_x`.
        weight: Tensor[dtype of x], shape (k, n), or (n, k) with `transpose_weight`, as nn.Dense keeps it; or one matrix
            for each of x: (..., k, n).
        bias: Tensor[dtype of x | float32], shape (n,).
        transpose_x: the last two dims of x are swapped.
        transpose_weight: the last two dims of weight are swapped.
        activation: "none", "relu", "gelu" (by error function), "gelu_tanh" or "silu".

    Returns:
        Tensor[dtype of x], shape (..., m, n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; an unknown activation.

    A row of x, or a column of the weight, that holds NaN gives NaN. An empty x gives an empty y, and sums of no
    products are 0.

    Products are accumulated in float32; bias and activation are calculated in float32, and the result is rounded once.
    """
    select = _select(x, weight, bias, transpose_x, transpose_weight, activation)
    return select(x, weight, bias)  # type: ignore[no-any-return]


def composition(
    x: Tensor, weight: Tensor, bias: Tensor | None, transpose_x: bool, transpose_weight: bool, activation: str
) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    left, right = x.astype(ms.float32), weight.astype(ms.float32)
    y = stock.matmul(
        left.swapaxes(-1, -2) if transpose_x else left, right.swapaxes(-1, -2) if transpose_weight else right
    )
    if bias is not None:
        y = y + bias.astype(ms.float32)
    return activated(y, activation).astype(x.dtype)
