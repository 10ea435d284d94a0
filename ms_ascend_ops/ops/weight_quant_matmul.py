"""Product with a weight in 8 or 4 bits."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops import registry
from ms_ascend_ops.custom import Selector

__all__ = ["weight_quant_matmul"]


def _check(shapes: list[tuple[int, ...]], attributes: dict[str, Any]) -> None:
    """What the shape rules cannot say. Unknown dims are -1."""
    x, weight, scale = shapes[:3]
    limits = registry.op_spec("weight_quant_matmul").limits
    k, row, groups = x[-1], weight[-1], scale[-1]
    if k > 0 and row > 0 and k // row not in (1, 2):
        raise ValueError(
            f"weight_quant_matmul: weight.shape[-1] must be x.shape[-1] (8 bits) or half of that (4 bits),"
            f" got x {x} and weight {weight}"
        )
    if k > 0 and groups > 1:
        rule = ""
        if k // groups > limits["group_size"]:
            rule = f"must have at most {limits['group_size']} elements"
        elif k // groups % 32:
            rule = "must have a multiple of 32 elements"
        if rule:
            raise ValueError(
                f"weight_quant_matmul: a group {rule}, or be a whole row,"
                f" got {groups} groups of {k // groups}: x {x}, scale {scale}"
            )


# Runs in Python, also while a graph is compiled.
@ms.constexpr(check=False)  # type: ignore[untyped-decorator]
def _refuse_gradient() -> None:
    raise RuntimeError("weight_quant_matmul: it has no gradient: it is for inference")


def _bprop(x, weight, scale, offset, bias, out, dout):  # type: ignore[no-untyped-def]
    _refuse_gradient()
    return x, weight, scale, offset, bias


_select = Selector("weight_quant_matmul", _bprop, _check)


def weight_quant_matmul(
    x: Tensor, weight: Tensor, scale: Tensor, offset: Tensor | None = None, bias: Tensor | None = None
) -> Tensor:
    r"""Product with a weight in 8 or 4 bits, which is unpacked tile by tile; for inference.

    .. math::
        y = x \, w^T + bias, \quad w_{ij} = (weight_{ij} + offset_{ig}) \cdot scale_{ig}

    where g is the group of column j: groups of consecutive columns have one scale and one offset.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k).
        weight: Tensor[int8], shape (n, k), as nn.Dense keeps it; or of 4 bits, shape (n, k / 2): two's complements, of
            which a byte holds two, the first in its lower half. `ms_ascend_ops.quantization` makes them.
        scale: Tensor[float16 | float32 | bfloat16 if x is], shape (n, groups): 1 group, a whole row, or groups of a
            multiple of 32 elements, at most 1024.
        offset: Tensor[dtype of scale], shape of scale. Without it 0.
        bias: Tensor[float32], shape (n,).

    Returns:
        Tensor[dtype of x], shape (..., n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other, groups of another size.

    Products are accumulated in float32. Up to four rows of x are multiplied with the numbers as they are, in float32;
    for more the weight is rounded to the dtype of x, as CANN's WeightQuantBatchMatmulV2 does.
    """
    select = _select(x, weight, scale, offset, bias)
    return select(x, weight, scale, offset, bias)  # type: ignore[no-any-return]
