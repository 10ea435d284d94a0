"""Group normalization."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors, activated
from ms_ascend_ops.custom import Selector

__all__ = ["group_norm"]

_select = Selector("group_norm")


def group_norm(
    x: Tensor,
    gamma: Tensor,
    beta: Tensor,
    num_groups: int,
    epsilon: float = 1e-5,
    activation: str = "none",
    data_format: str = "NCHW",
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Normalize groups of channels to a mean of 0 and a variance of 1, scale and shift, and activate.

    .. math::
        y = \mathrm{act}\left(\frac{x - \mathrm{mean}}{\sqrt{\mathrm{var} + \epsilon}} \cdot \gamma + \beta\right)

    Mean and variance (with divisor n) are those of the C / num_groups channels of a group and of all positions of a
    sample. One group is layer normalization of the sample, C groups are instance normalization. Differentiable in `x`,
    `gamma` and `beta`, through all three outputs.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (N, C, ...), or (N, ..., C) with data_format "NHWC"; any number
            of spatial dimensions, also none.
        gamma: Tensor[dtype of x | float32], shape (C,).
        beta: Tensor[dtype of gamma], shape (C,).
        num_groups: number of groups, a divisor of C.
        epsilon: added to the variance, inside the root; > 0.
        activation: "none", "silu" for z * sigmoid(z), or "relu" for max(z, 0).
        data_format: "NCHW": channels are axis 1; "NHWC": the last axis. Neither is transposed.

    Returns:
        y: Tensor[dtype of x], shape of x.
        mean: Tensor[float32], shape (N, num_groups).
        rstd: Tensor[float32], shape (N, num_groups): 1 / sqrt(var + epsilon).

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: gamma or beta does not have the size of the channel axis; num_groups does not divide it; a channel
            or spatial dimension is 0; epsilon, activation or data_format is not allowed.

    Everything is calculated in float32 and rounded once. The variance is that of the values less a value near their
    mean, so nothing cancels: values of mean 1e4 and deviation 1 are normalized to the accuracy of float32. (The
    gradient takes the mean as float32 holds it.) A NaN or an infinity makes y and rstd of its group NaN, its mean NaN
    or infinite, and touches no other group. Where the sum of the squared distances from the mean is beyond float32
    (values from some 1e17 on), rstd is 0 and y act(beta), or both are NaN. A group of equal values gives act(beta).
    An infinite gamma or beta may make its channel NaN: the kernel multiplies by gamma * rstd and adds beta - mean *
    gamma * rstd. Without samples, y is empty and the gradients of gamma and beta 0.

    Source: Wu and He, Group Normalization, 2018; CANN's GroupNorm and GroupNormSilu.
    """
    select = _select(x, gamma, beta, num_groups, epsilon, activation, data_format)
    return select(x, gamma, beta)  # type: ignore[no-any-return]


def composition(
    x: Tensor, gamma: Tensor, beta: Tensor, num_groups: int, epsilon: float, activation: str, data_format: str
) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values = x.astype(ms.float32)
    last = data_format == "NHWC"
    if last:
        values = values.swapaxes(1, -1)
    rows = values.reshape(x.shape[0], num_groups, -1)
    mean = rows.mean(-1, keep_dims=True)
    centred = rows - mean
    rstd = stock.rsqrt((centred * centred).mean(-1, keep_dims=True) + epsilon)
    across = (1, -1) + (1,) * (x.ndim - 2)
    y = (centred * rstd).reshape(values.shape)
    y = y * gamma.astype(ms.float32).reshape(across) + beta.astype(ms.float32).reshape(across)
    y = activated(y, activation)
    if last:
        y = y.swapaxes(1, -1)
    return y.astype(x.dtype), mean.reshape(x.shape[0], num_groups), rstd.reshape(x.shape[0], num_groups)
