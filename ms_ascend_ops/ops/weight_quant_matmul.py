"""Product with a weight in 8 or 4 bits."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import activated
from ms_ascend_ops.custom import Selector

__all__ = ["weight_quant_matmul"]

_select = Selector("weight_quant_matmul")


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


def unpacked_product(x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None) -> Tensor:
    """Compute in float32."""
    numbers, columns = weight.astype(ms.float32), x.shape[-1]
    if weight.shape[-1] != columns:  # two numbers of 4 bits in a byte, the lower half first
        high = stock.floor(numbers / 16)
        low = numbers - 16 * high
        numbers = stock.stack((low - 16 * stock.floor(low / 8), high), -1).reshape(weight.shape[0], columns)
    groups = numbers.reshape(weight.shape[0], scale.shape[1], -1)
    if offset is not None:
        groups = groups + offset.astype(ms.float32).expand_dims(-1)
    unpacked = (groups * scale.astype(ms.float32).expand_dims(-1)).reshape(weight.shape[0], columns)
    y = stock.matmul(x.astype(ms.float32), unpacked.swapaxes(0, 1))
    return y if bias is None else y + bias


def rounded(x: Tensor, groups: int, quantize_x: str) -> Tensor:
    """x as integers of 8 bits by groups, in float32; x itself where the kernel does not round.

    kernels/primitives/weight_quant_tiling.h says which sizes of groups it rounds by.
    """
    size = x.shape[-1] // groups
    piece = next((piece for piece in (64, 32, 16) if size % piece == 0), size)
    if quantize_x == "none" or size % 16 or size // piece > 4:
        return x
    grouped = x.astype(ms.float32).reshape(*x.shape[:-1], groups, size)
    largest = stock.maximum(grouped.abs().amax(-1, True), ms.Tensor(1e-30, ms.float32))
    return (stock.round(grouped * (127.0 / largest)) * (largest * (1 / 127))).reshape(x.shape)


def composition(
    x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None, bias: Tensor | None, activation: str,
    quantize_x: str,
) -> Tensor:  # fmt: skip
    """Compute all outputs by stock operators, as `compositions.py` says."""
    product = unpacked_product(rounded(x, scale.shape[1], quantize_x), weight, scale, offset, bias)
    return activated(product, activation).astype(x.dtype)
