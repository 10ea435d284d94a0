"""Provides a residual addition and RMSNorm as one layer."""

from __future__ import annotations

from mindspore import Tensor
from ms_ascend_ops.cells.rms_norm import RMSNormCell

from ms_ascend_ops.ops.add_rms_norm import add_rms_norm

__all__ = ["AddRMSNorm"]


class AddRMSNorm(RMSNormCell):  # type: ignore[misc]
    r"""Adds a residual and normalizes the sum by its root mean square, in one pass.

    .. math::
        x = x_1 + x_2, \qquad
        y = \frac{x}{\sqrt{\mathrm{mean}(x^2) + \epsilon}} \cdot \mathrm{weight}

    Args:
        hidden_size: size of the last axis, as an int or a shape of one int.
        epsilon: added to the mean square, inside the root; > 0. `eps` is another name of it.
        scheme: where half precision rounds: "round_then_scale", or "one_plus_gamma", which scales by 1 + weight, too;
            see `ops.add_rms_norm`.
        param_init: initial weight: a value, the name of an initializer, an Initializer or a Tensor. A Parameter becomes
            the layer's weight itself, with its name.
        dtype: dtype of the weight, unless a Parameter is given.

    Inputs:
        x1: Tensor[float16 | bfloat16 | float32], shape (..., hidden_size).
        x2: Tensor[dtype of x1], shape of x1.

    Outputs:
        y: Tensor[dtype of x1], shape of x1: the normalized sum.
        x: Tensor[dtype of x1], shape of x1: the sum, which the next residual connection takes.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or a Parameter another shape than (hidden_size,).

    Sums are accumulated in float32.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """

    op = "add_rms_norm"

    def construct(self, x1: Tensor, x2: Tensor) -> tuple[Tensor, Tensor]:
        y, _, x = add_rms_norm(x1, x2, self.weight, self.epsilon, self.scheme)
        return y, x
