"""Rows as integers of 8 bits."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector

__all__ = ["dynamic_quant"]

_select = Selector("dynamic_quant")


def dynamic_quant(x: Tensor, smooth_scales: Tensor | None = None) -> tuple[Tensor, Tensor]:
    r"""Each row as integers of 8 bits, with one scale; for inference.

    .. math::
        scale_i = \max_j |x_{ij}| / 127, \quad y_{ij} = \mathrm{round}(x_{ij} / scale_i)

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k).
        smooth_scales: Tensor[dtype of x], shape (k,): columns are multiplied by them before.

    Returns:
        y, Tensor[int8], shape (..., k), and scale, Tensor[float32], shape (...): x is about y * scale.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; rows without elements.

    Calculated in float32, rounded to nearest; a number within 1e-4 of the middle of two may go to either. A row of
    zeros has the scale 0. A row that holds NaN has the scale NaN, one that holds an infinity an infinite scale; their
    numbers mean nothing. An empty x gives empty results. It is what CANN's DynamicQuant computes.
    """
    return _select(x, smooth_scales)(x, smooth_scales)  # type: ignore[no-any-return]


def composition(x: Tensor, smooth_scales: Tensor | None) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values = x.astype(ms.float32)
    if smooth_scales is not None:
        values = values * smooth_scales.astype(ms.float32)
    scale = values.abs().max(-1, keepdims=True) / 127.0
    quotient = stock.round(values / scale)
    # A row of zeros, or one whose scale is not finite, is zeros.
    y = stock.select(stock.isfinite(quotient), quotient, stock.zeros_like(quotient)).astype(ms.int8)
    return y, scale.squeeze(-1)
