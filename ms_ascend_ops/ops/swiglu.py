"""SiLU-gated linear unit of one tensor that holds gate and up."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import Selector

__all__ = ["swiglu"]

_select = Selector("swiglu")


def swiglu(x: Tensor, axis: int = -1, interleaved: bool = False) -> Tensor:
    r"""Split `x` along `axis` into gate and up, and multiply up by the SiLU of gate.

    .. math::
        y = \mathrm{silu}(\mathrm{gate}) \cdot \mathrm{up}, \qquad \mathrm{silu}(t) = \frac{t}{1 + e^{-t}}

    Differentiable in `x`.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., 2 d, ...), where 2 d is the size of `axis`.
        axis: the axis to split.
        interleaved: False: the first half of the axis is gate, the second up. True: they alternate, gate first.

    Returns:
        Tensor[dtype of x], shape (..., d, ...).

    Raises:
        TypeError: x is no tensor, or has a dtype there is no kernel for; axis is no int, interleaved no bool.
        ValueError: axis is out of range, or its size is odd.

    Computed in float32 and rounded once. A NaN stays in its element. silu(inf) = inf; silu(-inf) = NaN, as in PyTorch.
    Zeros keep their signs, subnormal numbers count. Empty tensors give an empty y.

    Source: Shazeer, GLU Variants Improve Transformer, 2020; CANN's SwiGlu.
    """
    return _select(x, axis, interleaved)(x)


def composition(x: Tensor, axis: int, interleaved: bool) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values = x.astype(ms.float32)
    if interleaved:
        place = axis % x.ndim
        pairs = values.reshape(x.shape[:place] + (-1, 2) + x.shape[place + 1 :])  # noqa: RUF005 - a graph unpacks none
        gate, up = stock.unstack(pairs, place + 1)
    else:
        gate, up = stock.chunk(values, 2, axis)
    return (gate * stock.sigmoid(gate) * up).astype(x.dtype)
