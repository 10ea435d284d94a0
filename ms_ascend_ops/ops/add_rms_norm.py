"""Residual addition and root mean square normalization in one pass."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector
from ms_ascend_ops.ops.add import composition as add_composition
from ms_ascend_ops.ops.rms_norm import composition as rms_norm_composition

__all__ = ["add_rms_norm"]

_select = Selector("add_rms_norm")


def add_rms_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6, scheme: str = "round_then_scale"
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Add, normalize the sum by its root mean square over the last axis, and scale.

    .. math::
        x = x_1 + x_2, \qquad
        \mathrm{rstd} = \frac{1}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}, \qquad
        y_i = x_i \cdot \mathrm{rstd} \cdot \gamma_i

    The same as `rms_norm(x1 + x2, gamma, epsilon, scheme)`, in one pass: the sum is rounded to the dtype of x1 before
    it is normalized. Differentiable in `x1`, `x2` and `gamma`, through all three outputs.

    Args:
        x1: Tensor[float16 | bfloat16 | float32], shape (..., d).
        x2: Tensor[dtype of x1], shape of x1.
        gamma: Tensor[dtype of x1 | float32], shape (d,).
        epsilon: added to the mean square, inside the root; > 0.
        scheme: where half precision rounds: "round_then_scale" or "one_plus_gamma"; see `rms_norm`.

    Returns:
        y: Tensor[dtype of x1], shape of x1.
        rstd: Tensor[float32], shape (..., 1).
        x: Tensor[dtype of x1], shape of x1: the sum, which the next residual connection takes.

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: x2 does not have the shape of x1; gamma does not have the size of the last axis; epsilon or scheme
            is not allowed.

    Sums are accumulated in float32. A NaN or an infinite sum makes its row of y NaN (or 0, where an infinite square
    meets a finite x) and no other; x holds what the addition gives. Large values and empty x: as in `rms_norm`.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; CANN's AddRmsNorm.
    """
    return _select(x1, x2, gamma, epsilon, scheme)(x1, x2, gamma)  # type: ignore[no-any-return]


def composition(x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float, scheme: str) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    x = add_composition(x1, x2)
    y, rstd = rms_norm_composition(x, gamma, epsilon, scheme)
    return y, rstd, x
