"""Gated linear layer with SiLU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.gradients import as_rows, reshaped

__all__ = ["linear_silu_mul"]


def gated_products_bprop(gated_grad: Callable[..., Any]) -> Callable[..., Any]:
    """The bprop of act(x gate_weight^T) * (x up_weight^T), of the gradient kernel of act(gate) * up."""
    of_rows = kernel("matmul", transpose_weight=True, has_bias=False)
    of_x = kernel("matmul", has_bias=False)
    of_weight = kernel("matmul", transpose_x=True, has_bias=False)
    add = kernel("add")

    def bprop(x, gate_weight, up_weight, out, dout):  # type: ignore[no-untyped-def]
        rows = as_rows(x)
        # Both products again: keeping them would take twice the memory of the output.
        gate, up = of_rows(rows, gate_weight, None), of_rows(rows, up_weight, None)
        dgate, dup = gated_grad(as_rows(dout), gate, up)
        dx = add(of_x(dgate, gate_weight, None), of_x(dup, up_weight, None))
        if x.ndim != 2:
            dx = reshaped(dx, x.shape)
        return dx, of_weight(dgate, rows, None), of_weight(dup, rows, None)

    return bprop


_select = Selector("linear_silu_mul", composed=lambda _: gated_products_bprop(kernel("silu_mul_grad")))


def linear_silu_mul(x: Tensor, gate_weight: Tensor, up_weight: Tensor) -> Tensor:
    r"""Two linear layers, one behind SiLU times the other, in one pass: SwiGLU with the products in front of it.

    .. math::
        y = \mathrm{silu}(x \, W_\mathrm{gate}^T) \cdot (x \, W_\mathrm{up}^T),
        \qquad \mathrm{silu}(t) = \frac{t}{1 + e^{-t}}

    Neither product is in memory as a whole: tiles of both are multiplied while they are in cache. Differentiable in all
    inputs; the gradient calculates both products again.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k).
        gate_weight: Tensor[dtype of x], shape (n, k), as nn.Dense keeps it.
        up_weight: Tensor[dtype of x], shape (n, k).

    Returns:
        Tensor[dtype of x], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other.

    A row of x, or of a weight, that holds NaN gives NaN in its row, or column. Beyond float32's range a product is
    infinite, and treated as `ops.silu_mul` treats it. An empty x gives an empty y, and without columns (k = 0) y is 0.

    Products are accumulated in float32 and stay float32 until the result, which is rounded once.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """
    return _select(x, gate_weight, up_weight)(x, gate_weight, up_weight)  # type: ignore[no-any-return]


def gate_and_up(x: Tensor, gate_weight: Tensor, up_weight: Tensor) -> Tensors:
    values = x.astype(ms.float32)
    return tuple(stock.matmul(values, weight.astype(ms.float32).swapaxes(0, 1)) for weight in (gate_weight, up_weight))


def composition(x: Tensor, gate_weight: Tensor, up_weight: Tensor) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    gate, up = gate_and_up(x, gate_weight, up_weight)
    return (gate * stock.sigmoid(gate) * up).astype(x.dtype)
