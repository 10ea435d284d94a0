"""Provides a linear layer of 8-bit integers."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from ms_ascend_ops.cells.parameters import fixed_parameter

from ms_ascend_ops.mindspore_versions import numpy_bfloat16
from ms_ascend_ops.ops.dynamic_quant import dynamic_quant
from ms_ascend_ops.ops.quant_matmul import quant_matmul
from ms_ascend_ops.quantization import quantize_weight

__all__ = ["QuantDense"]

_NUMPY_TYPES = {"Float16": np.float16, "BFloat16": numpy_bfloat16(), "Float32": np.float32}


class QuantDense(nn.Cell):  # type: ignore[misc]
    r"""Computes a linear layer in 8-bit integers: rows of x are rounded to them as they come; for inference.

    .. math::
        y = \bigl(\mathrm{round}(x / s) \, weight^T\bigr) \cdot scale \cdot s + bias, \quad s = \max_j |x_{ij}| / 127

    Args:
        in_channels: size of the last dim of x.
        out_channels: size of the last dim of y.
        has_bias: whether a bias is added.
        dtype: of the scales and of y: float32, float16 or bfloat16.

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., in_channels).

    Outputs:
        Tensor[dtype], shape (..., out_channels).

    Raises:
        ValueError: sizes below 1.
        TypeError: another dtype.

    Parameters `weight` (int8), `scale` (dtype) and `bias` (float32); none of them is trained.
    `QuantDense.from_dense(dense)` rounds the weight of an `nn.Dense` to them. Sums are exact, in 32 bits.
    """

    def __init__(self, in_channels: int, out_channels: int, has_bias: bool = True, dtype: Any = ms.float32):
        super().__init__()
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"QuantDense: {name} must be an int of at least 1, got {size!r}")
        if str(dtype) not in _NUMPY_TYPES:
            raise TypeError(f"QuantDense: dtype must be float16, bfloat16 or float32, got {dtype}")
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, bool(has_bias)
        self.dtype = dtype
        self._set(np.zeros((out_channels, in_channels), np.float32))
        self.bias: Any = fixed_parameter(Tensor(np.zeros(out_channels, np.float32)), "bias") if has_bias else None

    def _set(self, weight: np.ndarray[Any, Any]) -> None:
        numbers, scale, _ = quantize_weight(weight, 8, 0, True, _NUMPY_TYPES[str(self.dtype)])
        self.weight = fixed_parameter(Tensor(numbers), "weight")
        self.scale = fixed_parameter(Tensor(scale.ravel().astype(np.float32)).astype(self.dtype), "scale")

    @classmethod
    def from_dense(cls, dense: nn.Dense, dtype: Any = ms.float32) -> QuantDense:
        """Make a layer with the weight of `dense` rounded to 8 bits, and its bias. An activation is not taken along.

        Args:
            dense: the layer; it is not changed.
            dtype: that of the scales, and of what the layer returns.
        """
        if not isinstance(dense, nn.Dense):
            raise TypeError(f"QuantDense.from_dense: dense must be an nn.Dense, got {type(dense).__name__}")
        weight = dense.weight.astype(ms.float32).asnumpy()
        layer = cls(weight.shape[1], weight.shape[0], dense.has_bias, dtype)
        layer._set(weight)
        if dense.has_bias:
            layer.bias.set_data(dense.bias.astype(ms.float32))
        return layer

    def construct(self, x: Tensor) -> Tensor:
        numbers, scale = dynamic_quant(x)
        return quant_matmul(numbers, self.weight, self.scale, scale, self.bias)

    def extend_repr(self) -> str:
        return f"in_channels={self.in_channels}, out_channels={self.out_channels}, has_bias={self.has_bias}"
