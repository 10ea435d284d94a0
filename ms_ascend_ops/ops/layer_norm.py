"""Layer normalization."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector
from ms_ascend_ops.mindspore_versions import ones_like, zeros_like

__all__ = ["layer_norm"]

_select = Selector("layer_norm")


def _call(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, activation: str) -> tuple[Tensor, Tensor, Tensor]:
    return _select(x, gamma, beta, epsilon, activation)(x, gamma, beta)  # type: ignore[no-any-return]


def scale_and_shift(x: Tensor, gamma: Tensor | None, beta: Tensor | None, axes: int = 1) -> tuple[Tensor, Tensor]:
    """gamma and beta, ones and zeros in place of None; without both, of the sizes of the last axes of x."""
    if gamma is None and beta is None and isinstance(x, Tensor) and len(x.shape) > 0:
        if isinstance(axes, bool) or not isinstance(axes, int) or not 0 < axes <= len(x.shape):
            raise ValueError(f"axes must be a number of axes that x has, from 1 to {len(x.shape)}, not {axes}")
        gamma = stock.ones(x.shape[-axes:], ms.float32)
    if gamma is None and beta is not None:
        gamma = ones_like(beta)
    if beta is None and gamma is not None:
        beta = zeros_like(gamma)
    return gamma, beta


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    epsilon: float = 1e-5,
    activation: str = "none",
    axes: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Normalize over trailing axes to a mean of 0 and a variance of 1, scale and shift, and activate.

    .. math::
        y = \mathrm{act}\left((x - \mathrm{mean}) \cdot \mathrm{rstd} \cdot \gamma + \beta\right), \qquad
        \mathrm{rstd} = \frac{1}{\sqrt{\mathrm{var} + \epsilon}}

    Mean and variance (with divisor n) are those of the trailing axes that gamma has. Differentiable in `x`, `gamma` and
    `beta`, through all three outputs.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (*b, *d).
        gamma: Tensor[dtype of x | float32], shape (*d,): the trailing axes to normalize over, at least one. None: ones.
        beta: Tensor[dtype of gamma], shape of gamma. None: zeros. With neither gamma nor beta, the last
            `axes` axes are normalized over.
        epsilon: added to the variance, inside the root; > 0.
        activation: "none", or "relu" for max(z, 0).
        axes: how many trailing axes are normalized over, where neither gamma nor beta tells.

    Returns:
        y: Tensor[dtype of x], shape of x.
        mean: Tensor[float32], shape (*b, 1, ..., 1).
        rstd: Tensor[float32], shape (*b, 1, ..., 1).

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: the shapes of gamma and beta are not the trailing axes of x, or have a 0; epsilon,
            activation or axes is not allowed.

    Everything is calculated in float32 and rounded once. The variance is that of the values less a value near their
    mean, so nothing cancels: values of mean 1e4 and deviation 1 are normalized to the accuracy of float32. (The
    gradient takes the mean as float32 holds it.) A NaN or an infinity makes y and rstd of its row NaN, its mean NaN or
    infinite, and touches no other row. Where the sum of the squared distances from the mean is beyond float32 (values
    from some 1e17 on), rstd is 0 and y act(beta), or both are NaN. A row of equal values gives act(beta). Without
    rows, y is empty and the gradients of gamma and beta are 0. The derivative of ReLU at 0 is 0.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016; CANN's LayerNorm.
    """
    gamma, beta = scale_and_shift(x, gamma, beta, axes)
    return _call(x, gamma, beta, epsilon, activation)


def composition(x: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, activation: str = "none") -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values, axes = x.astype(ms.float32), tuple(range(x.ndim - gamma.ndim, x.ndim))
    mean = values.mean(axes, keep_dims=True)
    centred = values - mean
    rstd = stock.rsqrt((centred * centred).mean(axes, keep_dims=True) + epsilon)
    y = centred * rstd * gamma.astype(ms.float32) + beta.astype(ms.float32)
    y = stock.relu(y) if activation == "relu" else y
    return y.astype(x.dtype), mean, rstd
