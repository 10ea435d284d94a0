"""Replaces primitives of quantized products that only an Ascend NPU has by cells: see primitives.py."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops
from ms_ascend_ops.export.builtins.stock_primitives import Shim

from ms_ascend_ops import ops

__all__ = ["DynamicQuantExt", "QuantBatchMatmul", "QuantV2", "quantized_product"]


class DynamicQuantExt(Shim):
    """Computes DynamicQuantExt()(x, smooth_scales): rows rounded to int8, and the scale of each."""

    def construct(self, x: Tensor, smooth_scales: Any = None) -> Any:
        return ops.dynamic_quant(x, None if smooth_scales is None else smooth_scales.astype(x.dtype))


class QuantV2(Shim):
    """Quantizes to int8, to the nearest even: QuantV2()(x, scale, offset)."""

    def construct(
        self,
        x: Tensor,
        scale: Tensor,
        offset: Tensor,
        sqrt_mode: bool = False,
        rounding_mode: str = "ROUND",
        dst_type: Any = ms.int8,
    ) -> Tensor:
        if sqrt_mode:
            raise ValueError("QuantV2: sqrt_mode must be False")
        values = x.astype(ms.float32) * scale.astype(ms.float32) + offset.astype(ms.float32)
        return ms_ops.clamp(ms_ops.round(values), -128.0, 127.0).astype(ms.int8)


class QuantBatchMatmul(Shim):
    """Computes QuantBatchMatmul(transpose_x1, transpose_x2, dtype)(x1, x2, scale, ...) of int8.

    Sums are exact; of a weight with a batch, in float32, up to 1040 products are.
    """

    def __init__(self, transpose_x1: bool = False, transpose_x2: bool = False, dtype: Any = ms.float16):
        super().__init__()
        self.transpose_x1, self.transpose_x2, self.dtype = bool(transpose_x1), bool(transpose_x2), dtype

    def construct(
        self,
        x1: Tensor,
        x2: Tensor,
        scale: Tensor,
        offset: Any = None,
        bias: Any = None,
        pertokenScaleOptional: Any = None,  # noqa: N803  (the name that MindSpore has)
    ) -> Tensor:
        return quantized_product(
            "QuantBatchMatmul",
            x1,
            x2,
            scale,
            offset,
            bias,
            pertokenScaleOptional,
            self.transpose_x1,
            self.transpose_x2,
            self.dtype,
        )


def quantized_product(
    name: str,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Any,
    bias: Any,
    row_scale: Any,
    transpose_x1: bool,
    transpose_x2: bool,
    dtype: Any,
) -> Tensor:
    """Compute the product of int8 matrices, scaled by column and by row, with a bias of int32 before that or of
    floats.
    """
    if offset is not None:
        raise ValueError(f"{name}: offset must be None on a CPU")
    if scale.dtype not in (ms.float32, ms.bfloat16):
        raise ValueError(f"{name}: scale must be float32 or bfloat16 on a CPU: int64 packs bits of an NPU")
    scale = scale.reshape(-1).astype(ms.float32)
    rows = x1.swapaxes(-1, -2) if transpose_x1 else x1
    if x2.ndim == 2:
        columns = x2 if transpose_x2 else x2.swapaxes(0, 1)
        out = ops.quant_matmul(rows, columns, ms_ops.ones((columns.shape[0],), ms.float32))
    else:
        weight = x2.swapaxes(-1, -2) if transpose_x2 else x2
        out = ms_ops.matmul(rows.astype(ms.float32), weight.astype(ms.float32))
    if bias is not None and bias.dtype == ms.int32:
        out = out + bias.astype(ms.float32)
    out = out * scale
    if row_scale is not None:
        out = out * row_scale.astype(ms.float32).expand_dims(-1)
    if bias is not None and bias.dtype != ms.int32:
        out = out + bias.astype(ms.float32)
    return out.astype(dtype)
