"""Gaussian error linear unit."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.compositions import gelu_in_float32
from ms_ascend_ops.custom import Selector

__all__ = ["gelu"]

_select = Selector("gelu")


def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    r"""Gaussian error linear unit.

    .. math::
        \mathrm{none}: \; y = x \, \Phi(x) = \frac{x}{2} \left(1 + \mathrm{erf}\frac{x}{\sqrt 2}\right), \qquad
        \mathrm{tanh}: \; y = \frac{x}{2} \left(1 + \tanh\left(\sqrt{2/\pi} \, (x + 0.044715 x^3)\right)\right)

    Differentiable in `x`: the gradient is that of the form chosen.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (...).
        approximate: "none": by the error function. "tanh": its approximation.

    Returns:
        Tensor[dtype of x], shape (...).

    Raises:
        TypeError: x is no tensor, or has a dtype there is no kernel for; approximate is no str.
        ValueError: approximate is neither "none" nor "tanh".

    Computed in float32 and rounded once, without cancellation for negative x. gelu(inf) = inf; gelu(-inf) is
    the limit 0, by "tanh" NaN (MindSpore and PyTorch have NaN for both). The derivative is 1 and 0 there. A NaN stays
    in its element, zeros keep their signs, subnormal numbers count. An empty x gives an empty y.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016; CANN's Gelu.
    """
    return _select(x, approximate)(x)


def composition(x: Tensor, approximate: str) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    return gelu_in_float32(x.astype(ms.float32), approximate).astype(x.dtype)
