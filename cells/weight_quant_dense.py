"""Provides a linear layer with a weight in 8 or 4 bits."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from ms_ascend_ops.cells.parameters import fixed_parameter

from ms_ascend_ops import registry
from ms_ascend_ops.ops.weight_quant_matmul import weight_quant_matmul
from ms_ascend_ops.quantization import quantize_weight

__all__ = ["WeightQuantDense"]

_SIGNATURE = registry.signature("weight_quant_matmul")


class WeightQuantDense(nn.Cell):  # type: ignore[misc]
    r"""Computes a linear layer whose weight has 8 or 4 bits, with a scale and an offset for each group; for inference.

    .. math::
        y = activation(x \, w^T + bias), \quad w_{ij} = (weight_{ij} + offset_{ig}) \cdot scale_{ig}

    Args:
        in_channels: size of the last dim of x.
        out_channels: size of the last dim of y.
        has_bias: whether a bias is added.
        bits: 8 or 4.
        group_size: columns with one scale: a multiple of 32 that divides in_channels, or 0: a whole row.
        symmetric: without offsets.
        activation: "none", "relu", "gelu" (by error function), "gelu_tanh" or "silu".
        quantize_x: "int8" rounds x to 8 bits, see `weight_quant_matmul`; or "none".

    Inputs:
        x: Tensor[float16 | bfloat16 | float32], shape (..., in_channels).

    Outputs:
        Tensor[dtype of x], shape (..., out_channels).

    Raises:
        ValueError: sizes below 1, other bits, groups that do not divide, another activation or quantize_x.

    Parameters `weight` (int8), `scale` and `offset` (float16) and `bias` (float32); none of them is trained.
    `WeightQuantDense.from_dense(dense)` rounds the weight of an `nn.Dense` to them. Accumulated in float32.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        has_bias: bool = True,
        bits: int = 4,
        group_size: int = 32,
        symmetric: bool = False,
        activation: str = "none",
        quantize_x: str = "none",
    ):
        super().__init__()
        self.quantize_x = _SIGNATURE.attribute("quantize_x").check("WeightQuantDense", quantize_x)
        self.activation = _SIGNATURE.attribute("activation").check("WeightQuantDense", activation)
        for name, size in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"WeightQuantDense: {name} must be an int of at least 1, got {size!r}")
        self.in_channels, self.out_channels, self.has_bias = in_channels, out_channels, bool(has_bias)
        self.bits, self.group_size, self.symmetric = bits, group_size, symmetric
        self._set(np.zeros((out_channels, in_channels), np.float32))
        self.bias: Any = fixed_parameter(np.zeros(out_channels, np.float32), "bias") if has_bias else None

    def _set(self, weight: np.ndarray[Any, Any]) -> None:
        numbers, scale, offset = quantize_weight(weight, self.bits, self.group_size, self.symmetric)
        self.weight, self.scale = fixed_parameter(numbers, "weight"), fixed_parameter(scale, "scale")
        self.offset = None if offset is None else fixed_parameter(offset, "offset")

    @classmethod
    def from_dense(
        cls,
        dense: nn.Dense,
        bits: int = 4,
        group_size: int = 32,
        symmetric: bool = False,
        quantize_x: str = "none",
    ) -> WeightQuantDense:
        """Make a layer with the weight of `dense` rounded to `bits`, its bias, and its activation.

        Args:
            dense: the layer; it is not changed.
            bits: 8 or 4.
            group_size: elements of a row with one scale; 0: a whole row.
            symmetric: without offsets.
            quantize_x: "none", or "int8": x is rounded, too.

        Raises:
            TypeError: `dense` is no nn.Dense.
            ValueError: its activation is none of ReLU, GELU and SiLU; or as the class says.
        """
        if not isinstance(dense, nn.Dense):
            raise TypeError(f"WeightQuantDense.from_dense: dense must be an nn.Dense, got {type(dense).__name__}")
        weight = dense.weight.astype(ms.float32).asnumpy()
        activation = _activation_of(dense)
        rows, columns = weight.shape
        layer = cls(columns, rows, dense.has_bias, bits, group_size, symmetric, activation, quantize_x)
        layer._set(weight)
        if dense.has_bias:
            layer.bias.set_data(dense.bias.astype(ms.float32))
        return layer

    def construct(self, x: Tensor) -> Tensor:
        return weight_quant_matmul(x, self.weight, self.scale, self.offset, self.bias, self.activation, self.quantize_x)

    def extend_repr(self) -> str:
        return (
            f"in_channels={self.in_channels}, out_channels={self.out_channels}, has_bias={self.has_bias},"
            f" bits={self.bits}, group_size={self.group_size}, activation='{self.activation}',"
            f" quantize_x='{self.quantize_x}'"
        )


def _activation_of(dense: nn.Dense) -> str:
    """Return the operator's name of the activation."""
    activation = dense.activation
    if activation is None:
        return "none"
    if isinstance(activation, nn.GELU):
        return "gelu" if activation.approximate == "none" else "gelu_tanh"
    for kind, name in ((nn.ReLU, "relu"), (nn.SiLU, "silu")):
        if isinstance(activation, kind):
            return name
    name = type(activation).__name__
    raise ValueError(f"WeightQuantDense.from_dense: the activation of dense must be ReLU, GELU or SiLU, got {name}")
