"""Provides SwiGLU as a layer."""

from __future__ import annotations

from mindspore import Tensor, nn

from ms_ascend_ops import registry
from ms_ascend_ops.ops.silu_mul import silu_mul
from ms_ascend_ops.ops.swiglu import swiglu

__all__ = ["SwiGLU"]


class SwiGLU(nn.Cell):  # type: ignore[misc]
    r"""Computes a SiLU-gated linear unit, of one tensor that holds gate and up or of two.

    .. math::
        y = \mathrm{silu}(\mathrm{gate}) \cdot \mathrm{up}

    Args:
        axis: the axis that holds gate and up when one tensor is given.
        interleaved: False: the first half of the axis is gate, the second up. True: they alternate, gate first.

    Inputs:
        gate: Tensor[float16 | bfloat16 | float32]; alone, it holds gate and up along `axis`: shape (..., 2 d, ...).
        up: Tensor[dtype of gate], shape of gate; optional.

    Outputs:
        Tensor[dtype of gate], shape (..., d, ...), or the shape of gate when up is given.

    Raises:
        TypeError: axis is no int, or interleaved no bool.

    Computed in float32 and rounded once.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """

    def __init__(self, axis: int = -1, interleaved: bool = False):
        super().__init__()
        signature = registry.signature("swiglu")
        self.axis = signature.attribute("axis").check("SwiGLU", axis)
        self.interleaved = signature.attribute("interleaved").check("SwiGLU", interleaved)

    def construct(self, gate: Tensor, up: Tensor | None = None) -> Tensor:
        if up is None:
            return swiglu(gate, self.axis, self.interleaved)
        return silu_mul(gate, up)

    def extend_repr(self) -> str:
        return f"axis={self.axis}, interleaved={self.interleaved}"
