"""Provides GEGLU as a layer."""

from __future__ import annotations

from mindspore import Tensor, nn

from ms_ascend_ops import registry
from ms_ascend_ops.ops.geglu import geglu
from ms_ascend_ops.ops.gelu_mul import gelu_mul

__all__ = ["GEGLU"]


class GEGLU(nn.Cell):  # type: ignore[misc]
    r"""Computes a GELU-gated linear unit, of one tensor that holds gate and up or of two.

    .. math::
        y = \mathrm{gelu}(\mathrm{gate}) \cdot \mathrm{up}

    Args:
        axis: the axis that holds both when one tensor is given.
        activate_left: which half is the gate then. False: the second (right) half. True: the first (left) half.
        approximate: the form of GELU, "none" or "tanh"; see `ops.gelu`.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32]; alone, it holds both halves along `axis`: shape (..., 2 d, ...). With
            `up` it is the gate.
        up: Tensor[dtype of x], shape of x; optional.

    Outputs:
        Tensor[dtype of x], shape (..., d, ...), or the shape of x when up is given.

    Raises:
        TypeError: axis is no int, activate_left no bool, or approximate no str.
        ValueError: approximate is neither "none" nor "tanh".

    Computed in float32 and rounded once.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """

    def __init__(self, axis: int = -1, activate_left: bool = False, approximate: str = "none"):
        super().__init__()
        signature = registry.signature("geglu")
        self.axis = signature.attribute("axis").check("GEGLU", axis)
        self.activate_left = signature.attribute("activate_left").check("GEGLU", activate_left)
        self.approximate = signature.attribute("approximate").check("GEGLU", approximate)

    def construct(self, x: Tensor, up: Tensor | None = None) -> Tensor:
        if up is None:
            return geglu(x, self.axis, self.activate_left, self.approximate)
        return gelu_mul(x, up, self.approximate)

    def extend_repr(self) -> str:
        return f"axis={self.axis}, activate_left={self.activate_left}, approximate='{self.approximate}'"
