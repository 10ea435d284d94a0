"""Provides RMSNorm as a layer."""

from __future__ import annotations

from collections.abc import Sequence

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.cells.parameters import Init, eps_or_epsilon, make_parameter, one_size

from ms_ascend_ops import registry
from ms_ascend_ops.ops.rms_norm import rms_norm

__all__ = ["RMSNorm"]


class RMSNormCell(nn.Cell):  # type: ignore[misc]
    """Holds what layers with a root mean square normalization share: arguments, weight and repr.

    A subclass names its operator in `op`.
    """

    op: str

    @eps_or_epsilon  # type: ignore[untyped-decorator]
    def __init__(
        self,
        hidden_size: int | Sequence[int],
        epsilon: float = 1e-6,
        scheme: str = "round_then_scale",
        param_init: Init = "ones",
        dtype: ms.dtype = ms.float32,
    ):
        super().__init__()
        layer = type(self).__name__
        signature = registry.signature(self.op)
        self.hidden_size = one_size(layer, "hidden_size", hidden_size)
        self.epsilon = signature.attribute("epsilon").check(layer, epsilon)
        self.scheme = signature.attribute("scheme").check(layer, scheme)
        self.weight = make_parameter(layer, "param_init", param_init, (self.hidden_size,), dtype, "weight")

    def extend_repr(self) -> str:
        return f"{self.hidden_size}, epsilon={self.epsilon}, scheme='{self.scheme}'"


class RMSNorm(RMSNormCell):
    r"""Normalizes by the root mean square over the last axis.

    .. math::
        y = \frac{x}{\sqrt{\mathrm{mean}(x^2) + \epsilon}} \cdot \mathrm{weight}

    Args:
        hidden_size: size of the last axis, as an int or a shape of one int.
        epsilon: added to the mean square, inside the root; > 0. `eps` is another name of it.
        scheme: where half precision rounds: "round_then_scale", or "one_plus_gamma", which scales by 1 + weight, too;
            see `ops.rms_norm`.
        param_init: initial weight: a value, the name of an initializer, an Initializer or a Tensor. A Parameter becomes
            the layer's weight itself, with its name.
        dtype: dtype of the weight, unless a Parameter is given.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., hidden_size).

    Outputs:
        Tensor[dtype of x], shape (..., hidden_size).

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument has a value that is not allowed, or a Parameter another shape than (hidden_size,).

    Sums are accumulated in float32.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """

    op = "rms_norm"

    def construct(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.weight, self.epsilon, self.scheme)[0]
