"""Softmax of attention scores: scaled, with an additive mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import FusedPrimitive, Selector, kernel
from ms_ascend_ops.gradients import needs_gradient, sum_to_shape_of
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["scaled_masked_softmax"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    of_logits = kernel("softmax_grad")

    def bprop(x, mask, out, dout):  # type: ignore[no-untyped-def]
        dmask = zeros_like(mask)
        if needs_gradient(mask):
            dmask = sum_to_shape_of(of_logits(dout.astype(ms.float32), out.astype(ms.float32)), mask)
        return grad(dout, out), dmask

    return bprop


_select = Selector("scaled_masked_softmax", _bprop)


def scaled_masked_softmax(x: Tensor, mask: Tensor, scale: float = 1.0) -> Tensor:
    r"""Softmax over the last axis of scaled attention scores with an additive mask.

    .. math::
        y = \mathrm{softmax}(\mathrm{scale} \cdot x + \mathrm{mask})

    Differentiable in `x` and `mask`: a bias of the scores may be learned. The gradient of the mask costs another pass
    over y and a sum over the dims that it broadcasts in. A graph has it only if it is used, and PyNative if the mask
    depends on a Parameter or on an input of the differentiated function; `ops.stop_gradient(mask)` keeps it away.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., n); scores such as (batch, heads, query, key).
        mask: Tensor[dtype of x | float32], whose last dim is n and whose other dims broadcast to those of x, such as
            (query, key), (batch, 1, 1, key) or (batch, heads, query, key); -inf leaves an element out.
        scale: what x is multiplied by, such as 1 / sqrt(head size).

    Returns:
        Tensor[dtype of x], shape of x. A row that is -inf everywhere, because all of it is masked, is zeros, and so is
        its gradient.

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for; scale is no
            number.
        ValueError: the mask does not broadcast to x; scale is not finite.

    A row whose logits hold NaN or +inf becomes NaN as a whole; other rows are not touched by it. An empty x gives an
    empty y.

    Computed in float32 and rounded once.
    """
    return _select(x, mask, scale)(x, mask)  # type: ignore[no-any-return]


def composition(x: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    scores = x.astype(ms.float32) * scale + mask.astype(ms.float32)
    # A row that is -inf everywhere is zeros.
    empty = scores.max(-1, keepdims=True) == float("-inf")
    probabilities = stock.softmax(stock.select(empty, stock.zeros_like(scores), scores), -1)
    return stock.select(empty, stock.zeros_like(scores), probabilities).astype(x.dtype)
