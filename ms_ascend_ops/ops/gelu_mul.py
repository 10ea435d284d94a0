"""GELU-gated product of two tensors."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.compositions import gelu_in_float32
from ms_ascend_ops.custom import Selector

__all__ = ["gelu_mul"]

_select = Selector("gelu_mul")


def gelu_mul(gate: Tensor, up: Tensor, approximate: str = "none") -> Tensor:
    r"""Multiply `up` by the GELU of `gate`: GEGLU where gate and up are two tensors.

    .. math::
        y = \mathrm{gelu}(\mathrm{gate}) \cdot \mathrm{up}

    Differentiable in `gate` and `up`.

    Args:
        gate: Tensor[float16 | bfloat16 | float32], shape (...).
        up: Tensor[dtype of gate], shape (...).
        approximate: the form of GELU, "none" or "tanh"; see `ops.gelu`.

    Returns:
        Tensor[dtype of gate], shape (...).

    Raises:
        TypeError: an input is no tensor, or has a dtype there is no kernel for; approximate is no str.
        ValueError: the shapes differ; approximate is neither "none" nor "tanh".

    Computed in float32 and rounded once. A NaN stays in its element; for infinite gates see `ops.gelu`. Empty tensors
    give an empty y.

    Source: Shazeer, GLU Variants Improve Transformer, 2020; CANN's GeluMul.
    """
    return _select(gate, up, approximate)(gate, up)


def composition(gate: Tensor, up: Tensor, approximate: str) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    return (gelu_in_float32(gate.astype(ms.float32), approximate) * up.astype(ms.float32)).astype(gate.dtype)
