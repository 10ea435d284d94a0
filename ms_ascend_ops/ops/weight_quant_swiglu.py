"""Gated linear layer with weights in 8 or 4 bits."""

from __future__ import annotations

from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import Selector
from ms_ascend_ops.ops.weight_quant_matmul import rounded, unpacked_product

__all__ = ["weight_quant_swiglu"]

_select = Selector("weight_quant_swiglu")


def weight_quant_swiglu(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None = None,
    bias: Tensor | None = None,
    quantize_x: str = "none",
) -> Tensor:
    r"""Gated linear layer with both weights in 8 or 4 bits, which are unpacked tile by tile; for inference.

    .. math::
        y = \mathrm{silu}(x \, w_\mathrm{gate}^T + bias_\mathrm{gate}) \cdot (x \, w_\mathrm{up}^T + bias_\mathrm{up}),
        \quad w_{ij} = (weight_{ij} + offset_{ig}) \cdot scale_{ig}

    where g is the group of column j: groups of consecutive columns have one scale and one offset. Both weights are one
    tensor, the gate's n rows first.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k).
        weight: Tensor[int8], shape (2 n, k), or of 4 bits (2 n, k / 2), as `weight_quant_matmul` takes it.
        scale: Tensor[float16 | float32 | bfloat16 if x is], shape (2 n, groups): 1 group, a whole row, or groups of a
            multiple of 16 elements, at most 1024.
        offset: Tensor[dtype of scale], shape of scale. Without it 0.
        bias: Tensor[float32], shape (2 n,).
        quantize_x: "none" or "int8": round x to integers of 8 bits, as `weight_quant_matmul` does.

    Returns:
        Tensor[dtype of x], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other, groups of another size, an odd number of rows of the weight,
            another quantize_x.

    NaN in a row of x gives NaN for that row, NaN in a scale, an offset or a bias in its column. An empty x gives an
    empty y.

    Products are accumulated in float32 and stay float32 until the result, which is rounded once. Up to four rows of x
    are multiplied with the numbers as they are; for more the weight is rounded to the dtype of x.
    """
    select = _select(x, weight, scale, offset, bias, quantize_x)
    return select(x, weight, scale, offset, bias)  # type: ignore[no-any-return]


def composition(
    x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None, quantize_x: str
) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    product = unpacked_product(rounded(x, scale.shape[1], quantize_x), weight, scale, offset, bias)
    gate, up = stock.chunk(product, 2, -1)
    return (gate * stock.sigmoid(gate) * up).astype(x.dtype)
