"""Product with a weight in 8 or 4 bits."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector
from ms_ascend_ops.gradients import refuse_gradient

__all__ = ["weight_quant_matmul"]


def _bprop(x, weight, scale, offset, bias, out, dout):  # type: ignore[no-untyped-def]
    refuse_gradient("weight_quant_matmul")
    return x, weight, scale, offset, bias


_select = Selector("weight_quant_matmul", _bprop)


def weight_quant_matmul(
    x: Tensor,
    weight: Tensor,
    scale: Tensor,
    offset: Tensor | None = None,
    bias: Tensor | None = None,
    activation: str = "none",
    quantize_x: str = "none",
) -> Tensor:
    r"""Product with a weight in 8 or 4 bits, which is unpacked tile by tile; for inference.

    .. math::
        y = \mathrm{activation}(x \, w^T + bias), \quad w_{ij} = (weight_{ij} + offset_{ig}) \cdot scale_{ig}

    where g is the group of column j: groups of consecutive columns have one scale and one offset.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k).
        weight: Tensor[int8], shape (n, k), as nn.Dense keeps it; or of 4 bits, shape (n, k / 2): two's complements, of
            which a byte holds two, the first in its lower half. `ms_ascend_ops.quantization` makes them.
        scale: Tensor[float16 | float32 | bfloat16 if x is], shape (n, groups): 1 group, a whole row, or groups of a
            multiple of 16 elements, at most 1024.
        offset: Tensor[dtype of scale], shape of scale. Without it 0.
        bias: Tensor[float32], shape (n,).
        activation: "none", "relu", "gelu" (by the error function), "gelu_tanh" or "silu".
        quantize_x: "none" or "int8": round x, too, see below.

    Returns:
        Tensor[dtype of x], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other, groups of another size, another activation or quantize_x.

    NaN in a row of x gives NaN for that row, NaN in a scale, an offset or a bias in its column; one that is infinite
    gives infinities or NaN. An empty x gives an empty y.

    Products are accumulated in float32, in which bias and activation are applied, too; the result is rounded once. Up
    to four rows of x are multiplied with the numbers as they are, in float32; for more the weight is rounded to the
    dtype of x, as CANN's WeightQuantBatchMatmulV2 does.

    With quantize_x "int8", rows of x become integers of 8 bits with a scale for each group of the weight,
    :math:`s_g = \max|x_g| / 127`: :math:`\hat{x}_j = s_g \, \mathrm{round}(x_j / s_g)`, half to even, in the place of
    x. Sums over a group are then exact, and a CPU adds them up as integers, in a half to a third of the time. What is
    not finite in x gives NaN for its row. Groups of other sizes than 16, 32, 48, 64, 96, 128, 192 and 256 are not
    rounded. On an NPU it saves nothing: up to eight rows are multiplied as integers there, too, and three and more take
    longer; more rows are rounded first and multiplied as floats.
    """
    select = _select(x, weight, scale, offset, bias, activation, quantize_x)
    return select(x, weight, scale, offset, bias)  # type: ignore[no-any-return]
