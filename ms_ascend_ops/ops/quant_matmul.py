"""Product of matrices of 8-bit integers."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import Selector

__all__ = ["quant_matmul"]

_select = Selector("quant_matmul")


def quant_matmul(
    x: Tensor, weight: Tensor, scale: Tensor, pertoken_scale: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    r"""Product of matrices of 8-bit integers, scaled by column and by row; for inference.

    .. math::
        y_{ij} = \Bigl(\sum_p x_{ip} \, weight_{jp}\Bigr) \cdot scale_j \cdot pertoken\_scale_i + bias_j

    Args:
        x: Tensor[int8], shape (..., k), k at most 131071: `dynamic_quant` makes it.
        weight: Tensor[int8], shape (n, k), as nn.Dense keeps it: `ms_ascend_ops.quantization.quantize_weight` makes it,
            with `bits=8, symmetric=True`.
        scale: Tensor[float16 | bfloat16 | float32], shape (n,). Its dtype is that of the result.
        pertoken_scale: Tensor[float32], shape (...): of the rows of x. Without it 1.
        bias: Tensor[float32], shape (n,).

    Returns:
        Tensor[dtype of scale], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; rows without elements, or with too many.

    Sums of products are exact, in 32 bits; scales and bias are applied in float32, and the result is rounded once. NaN
    or an infinity in a scale or in the bias gives NaN or infinities in its row or column; 0 times infinity is NaN. An
    empty x gives an empty y. It is what CANN's QuantBatchMatmul computes.
    """
    select = _select(x, weight, scale, pertoken_scale, bias)
    return select(x, weight, scale, pertoken_scale, bias)  # type: ignore[no-any-return]


def composition(x: Tensor, weight: Tensor, scale: Tensor, pertoken_scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    y = stock.matmul(x.astype(ms.float32), weight.astype(ms.float32).swapaxes(0, 1)) * scale.astype(ms.float32)
    if pertoken_scale is not None:
        y = y * pertoken_scale.expand_dims(-1)
    if bias is not None:
        y = y + bias
    return y.astype(scale.dtype)
