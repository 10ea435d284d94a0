"""Gated linear layer with GELU."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.compositions import gelu_in_float32
from ms_ascend_ops.custom import Selector, kernel
from ms_ascend_ops.ops.linear_silu_mul import gate_and_up, gated_products_bprop

__all__ = ["linear_gelu_mul"]

_select = Selector(
    "linear_gelu_mul", composed=lambda attributes: gated_products_bprop(kernel("gelu_mul_grad", **attributes))
)


def linear_gelu_mul(x: Tensor, gate_weight: Tensor, up_weight: Tensor, approximate: str = "none") -> Tensor:
    r"""Two linear layers, one behind GELU times the other, in one pass: GEGLU with the products in front of it.

    .. math::
        y = \mathrm{gelu}(x \, W_\mathrm{gate}^T) \cdot (x \, W_\mathrm{up}^T)

    Neither product is in memory as a whole: tiles of both are multiplied while they are in cache. Differentiable in all
    inputs; the gradient calculates both products again.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k).
        gate_weight: Tensor[dtype of x], shape (n, k), as nn.Dense keeps it.
        up_weight: Tensor[dtype of x], shape (n, k).
        approximate: the form of GELU, "none" or "tanh"; see `ops.gelu`.

    Returns:
        Tensor[dtype of x], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype; approximate is no str.
        ValueError: shapes that do not fit each other; approximate is neither "none" nor "tanh".

    A row of x, or of a weight, that holds NaN gives NaN in its row, or column. Beyond float32's range a product is
    infinite, and treated as `ops.gelu_mul` treats it. An empty x gives an empty y, and without columns (k = 0) y is 0.

    Products are accumulated in float32 and stay float32 until the result, which is rounded once.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """
    return _select(x, gate_weight, up_weight, approximate)(x, gate_weight, up_weight)  # type: ignore[no-any-return]


def composition(x: Tensor, gate_weight: Tensor, up_weight: Tensor, approximate: str) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    gate, up = gate_and_up(x, gate_weight, up_weight)
    return (gelu_in_float32(gate, approximate) * up).astype(x.dtype)
