"""Residual addition and layer normalization in one pass."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector
from ms_ascend_ops.ops.add import composition as add_composition
from ms_ascend_ops.ops.layer_norm import composition as layer_norm_composition
from ms_ascend_ops.ops.layer_norm import scale_and_shift

__all__ = ["add_layer_norm"]

_select = Selector("add_layer_norm")


def _call(x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _select(x1, x2, gamma, beta, epsilon)(x1, x2, gamma, beta)  # type: ignore[no-any-return]


def add_layer_norm(
    x1: Tensor, x2: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None, epsilon: float = 1e-5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    r"""Add, then normalize the sum over trailing axes to a mean of 0 and a variance of 1, scale and shift.

    .. math::
        x = x_1 + x_2, \qquad y = \frac{x - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \gamma + \beta

    The same as `layer_norm(x1 + x2, gamma, beta, epsilon)`, in one pass: the sum is rounded to the dtype of x1 before
    it is normalized. Differentiable in `x1`, `x2`, `gamma` and `beta`, through all four outputs.

    Args:
        x1: Tensor[float16 | bfloat16 | float32], shape (*b, *d).
        x2: Tensor[dtype of x1], shape of x1.
        gamma: Tensor[dtype of x1 | float32], shape (*d,): the trailing axes to normalize over, at least one.
            None: ones.
        beta: Tensor[dtype of gamma], shape of gamma. None: zeros. With neither gamma nor beta, the last axis is
            normalized over.
        epsilon: added to the variance, inside the root; > 0.

    Returns:
        y: Tensor[dtype of x1], shape of x1.
        mean: Tensor[float32], shape (*b, 1, ..., 1).
        rstd: Tensor[float32], shape (*b, 1, ..., 1).
        x: Tensor[dtype of x1], shape of x1: the sum, which the next residual connection takes.

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: x2 does not have the shape of x1; the shapes of gamma and beta are not the trailing axes of x1, or
            have a 0; epsilon is not allowed.

    Numbers, NaN, infinities and empty tensors: as in `layer_norm`.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016; CANN's AddLayerNorm.
    """
    gamma, beta = scale_and_shift(x1, gamma, beta)
    return _call(x1, x2, gamma, beta, epsilon)


def composition(x1: Tensor, x2: Tensor, gamma: Tensor, beta: Tensor, epsilon: float) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    x = add_composition(x1, x2)
    y, mean, rstd = layer_norm_composition(x, gamma, beta, epsilon)
    return y, mean, rstd, x
