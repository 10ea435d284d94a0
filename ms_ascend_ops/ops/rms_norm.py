"""Root mean square normalization."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector

__all__ = ["rms_norm"]

_select = Selector("rms_norm")


def rms_norm(
    x: Tensor, gamma: Tensor, epsilon: float = 1e-6, scheme: str = "round_then_scale"
) -> tuple[Tensor, Tensor]:
    r"""Normalize by the root mean square over the last axis, and scale.

    .. math::
        \mathrm{rstd} = \frac{1}{\sqrt{\frac{1}{d} \sum_i x_i^2 + \epsilon}}, \qquad
        y_i = x_i \cdot \mathrm{rstd} \cdot \gamma_i

    Differentiable in `x` and `gamma`, through both outputs.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., d).
        gamma: Tensor[dtype of x | float32], shape (d,).
        epsilon: added to the mean square, inside the root; > 0.
        scheme: where half precision rounds. "round_then_scale" (LLaMA): x * rstd is rounded to the dtype of x, then
            multiplied by gamma. "one_plus_gamma" (Gemma): x * rstd * (1 + gamma) in float32, rounded once. The old
            names, "llama" and "gemma", warn.

    Returns:
        y: Tensor[dtype of x], shape (..., d).
        rstd: Tensor[float32], shape (..., 1).

    Raises:
        TypeError: an input is no tensor, or has a dtype or combination of dtypes there is no kernel for.
        ValueError: gamma does not have the size of the last axis of x; epsilon or scheme is not allowed.

    Sums are accumulated in float32. A NaN in x makes its row NaN; an infinity, or a sum of squares beyond float32 (from
    some 1e19 on), makes rstd 0, and with it every finite element of the row. No other row is touched. Zeros keep their
    signs, subnormal numbers count. Without rows, y is empty and the gradient of gamma 0.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; CANN's RmsNorm.
    """
    return _select(x, gamma, epsilon, scheme)(x, gamma)  # type: ignore[no-any-return]


def composition(x: Tensor, gamma: Tensor, epsilon: float, scheme: str) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values, scale = x.astype(ms.float32), gamma.astype(ms.float32)
    rstd = stock.rsqrt((values * values).mean(-1, keep_dims=True) + epsilon)
    if scheme == "one_plus_gamma":
        return (values * rstd * (1.0 + scale)).astype(x.dtype), rstd
    normal = (values * rstd).astype(x.dtype).astype(ms.float32)
    return (normal * scale).astype(x.dtype), rstd
