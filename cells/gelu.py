"""Provides GELU as a layer."""

from __future__ import annotations

from mindspore import Tensor, nn

from ms_ascend_ops.ops.gelu import gelu

__all__ = ["GELU"]


class GELU(nn.Cell):  # type: ignore[misc]
    r"""Computes the Gaussian error linear unit; takes the argument of `nn.GELU`.

    .. math::
        y = x \, \Phi(x), \; \text{or its approximation by tanh}

    Args:
        approximate: True: the approximation by tanh. False: by the error function.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (...).

    Outputs:
        Tensor[dtype of x], shape (...).

    Raises:
        TypeError: approximate is no bool.

    Computed in float32 and rounded once.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """

    def __init__(self, approximate: bool = True):
        super().__init__()
        if not isinstance(approximate, bool):
            raise TypeError(f"GELU: approximate must be a bool, got {type(approximate).__name__}")
        self.approximate = approximate
        self.form = "tanh" if approximate else "none"

    def construct(self, x: Tensor) -> Tensor:
        return gelu(x, self.form)

    def extend_repr(self) -> str:
        return f"approximate={self.approximate}"
