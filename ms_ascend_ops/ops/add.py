"""Sum of two tensors."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.custom import Selector

__all__ = ["add"]


def _bprop(attributes):  # type: ignore[no-untyped-def]
    def bprop(x, y, out, dout):  # type: ignore[no-untyped-def]
        return dout, dout

    return bprop


_select = Selector("add", composed=_bprop)


def add(x: Tensor, y: Tensor) -> Tensor:
    r"""Add two tensors of the same shape: the smallest complete operator, for `docs/new_operator.md`.

    .. math::
        z = x + y

    Differentiable in `x` and `y`.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (...).
        y: Tensor[dtype of x], shape (...).

    Returns:
        Tensor[dtype of x], shape (...).

    Raises:
        TypeError: an input is no tensor, or has a dtype there is no kernel for.
        ValueError: the shapes differ.

    Added in float32 and rounded once. NaN, infinities, subnormal numbers and the signs of zeros are those of IEEE
    addition, and stay in their element. Of empty tensors the sum is empty.

    Source: CANN's Add; every introduction to Ascend C.
    """
    return _select(x, y)(x, y)  # type: ignore[no-any-return]


def composition(x: Tensor, y: Tensor) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    return (x.astype(ms.float32) + y.astype(ms.float32)).astype(x.dtype)
