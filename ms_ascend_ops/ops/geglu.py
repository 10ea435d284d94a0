"""GELU-gated linear unit of one tensor that holds gate and up."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import gelu_in_float32
from ms_ascend_ops.custom import Selector

__all__ = ["geglu"]

_select = Selector("geglu")


def geglu(x: Tensor, axis: int = -1, activate_left: bool = False, approximate: str = "none") -> Tensor:
    r"""Split `x` along `axis` into a left and a right half, and multiply one by the GELU of the other.

    .. math::
        y = \mathrm{left} \cdot \mathrm{gelu}(\mathrm{right}), \qquad
        \mathrm{activate\_left}: \; y = \mathrm{gelu}(\mathrm{left}) \cdot \mathrm{right}

    Differentiable in `x`.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., 2 d, ...), where 2 d is the size of `axis`.
        axis: the axis to split.
        activate_left: which half GELU is applied to. False: the second (right) half, as CANN's GeGlu and diffusers do.
            True: the first (left) half, as swiglu here does.
        approximate: the form of GELU, "none" or "tanh"; see `ops.gelu`.

    Returns:
        Tensor[dtype of x], shape (..., d, ...).

    Raises:
        TypeError: x is no tensor, or has a dtype there is no kernel for; an attribute has another type.
        ValueError: axis is out of range, or its size is odd; approximate is neither "none" nor "tanh".

    Computed in float32 and rounded once. A NaN stays in its element; for infinite gates see `ops.gelu`. Empty tensors
    give an empty y.

    Source: Shazeer, GLU Variants Improve Transformer, 2020; CANN's GeGluV3.
    """
    return _select(x, axis, activate_left, approximate)(x)


def composition(x: Tensor, axis: int, activate_left: bool, approximate: str) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    left, right = stock.chunk(x.astype(ms.float32), 2, axis)
    gate, up = (left, right) if activate_left else (right, left)
    return (gelu_in_float32(gate, approximate) * up).astype(x.dtype)
