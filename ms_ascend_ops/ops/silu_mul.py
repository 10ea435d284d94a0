"""SiLU-gated product of two tensors."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import Selector

__all__ = ["silu_mul"]

_select = Selector("silu_mul")


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    r"""Multiply `up` by the SiLU of `gate`: SwiGLU where gate and up are two tensors.

    .. math::
        y = \mathrm{silu}(\mathrm{gate}) \cdot \mathrm{up}, \qquad \mathrm{silu}(t) = \frac{t}{1 + e^{-t}}

    Differentiable in `gate` and `up`.

    Args:
        gate: Tensor[float16 | bfloat16 | float32], shape (...).
        up: Tensor[dtype of gate], shape (...).

    Returns:
        Tensor[dtype of gate], shape (...).

    Raises:
        TypeError: an input is no tensor, or has a dtype there is no kernel for.
        ValueError: the shapes differ.

    Computed in float32 and rounded once. A NaN stays in its element. silu(inf) = inf; silu(-inf) = NaN, as in PyTorch.
    Zeros keep their signs, subnormal numbers count. Empty tensors give an empty y.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """
    return _select(gate, up)(gate, up)


def composition(gate: Tensor, up: Tensor) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values = gate.astype(ms.float32)
    return (values * stock.sigmoid(values) * up.astype(ms.float32)).astype(gate.dtype)
