"""Rows as integers of 8 bits."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector
from ms_ascend_ops.gradients import refuse_gradient

__all__ = ["dynamic_quant"]


def _bprop(x, smooth_scales, out, dout):  # type: ignore[no-untyped-def]
    refuse_gradient("dynamic_quant")
    return x, smooth_scales


_select = Selector("dynamic_quant", _bprop)


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
