"""Provides a mixture of experts that multiplies 8-bit integers."""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor
from ms_ascend_ops.cells.moe_feed_forward import MoEFeedForward
from ms_ascend_ops.cells.parameters import fixed_parameter

from ms_ascend_ops.ops.dynamic_quant import dynamic_quant
from ms_ascend_ops.ops.grouped_quant_matmul import grouped_quant_matmul
from ms_ascend_ops.ops.silu_mul import silu_mul
from ms_ascend_ops.quantization import quantize_weight

__all__ = ["QuantMoEFeedForward"]

_PRODUCTS = ("gate", "up", "down")


class QuantMoEFeedForward(MoEFeedForward):
    """Computes `MoEFeedForward` with experts that multiply 8-bit integers; for inference.

    Weights of experts are rounded to 8 bits, with a scale for each of their rows; tokens, and what SwiGLU makes of
    them, as they come, with a scale each (`ops.dynamic_quant`). The router stays as it is.

    Arguments, inputs and outputs are those of `MoEFeedForward`, and so are `of` and `replace`, which take blocks of
    networks and compare: half of the tokens are within 5 % of the block's. `from_layer` takes a `MoEFeedForward`.

    Parameters:
        router_weight, router_bias: as those of `MoEFeedForward`.
        gate_weight, up_weight: Tensor[int8], shape (e, i, h). gate_scale, up_scale: shape (e, i).
        down_weight: Tensor[int8], shape (e, h, i). down_scale: shape (e, h).

    Args:
        args, kwargs: those of `MoEFeedForward`.

    Raises:
        ValueError: a weight that is not finite; what `MoEFeedForward` refuses.
        RuntimeError: a gradient is needed: there is none.

    Sums of products are exact, in 32 bits; scales are applied in float32, and a product is rounded once.
    """

    close = (5e-2, 5e-2)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.router_weight.requires_grad = False
        for name in _PRODUCTS:
            weight = getattr(self, f"{name}_weight")
            numbers, scale = _rounded(weight.astype(ms.float32).asnumpy())
            setattr(self, f"{name}_weight", fixed_parameter(Tensor(numbers), f"{name}_weight"))
            setattr(self, f"{name}_scale", fixed_parameter(Tensor(scale).astype(self.dtype), f"{name}_scale"))

    @classmethod
    def from_layer(cls, layer: MoEFeedForward) -> QuantMoEFeedForward:
        """Return the layer with the weights of another one, rounded, and its shared experts.

        Args:
            layer: the other one, which stays as it is.

        Raises:
            TypeError: `layer` is no MoEFeedForward, or has 8 bits already.
        """
        if not isinstance(layer, MoEFeedForward) or isinstance(layer, cls):
            raise TypeError(f"{cls.__name__}.from_layer: layer must be a MoEFeedForward, got {type(layer).__name__}")
        experts, inner, hidden = layer.gate_weight.shape
        weights = ("router_weight", *(f"{name}_weight" for name in _PRODUCTS))
        initial = {f"{name}_init": Parameter(Tensor(getattr(layer, name)), name=name) for name in weights}
        has_bias = layer.router_bias is not None
        found = cls(
            hidden, inner, experts, *layer.gating, has_bias, layer.shared_experts, layer.return_logits, **initial,
            dtype=layer.dtype, router_dtype=layer.router_weight.dtype,
        )  # fmt: skip
        if has_bias:
            found.router_bias.set_data(Tensor(layer.router_bias))  # type: ignore[union-attr]
        return found

    def own_parameters(self) -> list[Parameter]:
        """Return all but those of the shared experts."""
        return [*super().own_parameters(), *(getattr(self, f"{name}_scale") for name in _PRODUCTS)]

    def multiply(self, rows: Tensor, ends: Tensor) -> Tensor:
        numbers, scale = dynamic_quant(rows)
        gate = grouped_quant_matmul(numbers, self.gate_weight, self.gate_scale, ends, scale)
        up = grouped_quant_matmul(numbers, self.up_weight, self.up_scale, ends, scale)
        numbers, scale = dynamic_quant(silu_mul(gate, up))
        return grouped_quant_matmul(numbers, self.down_weight, self.down_scale, ends, scale)


def _rounded(weight: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the rounded numbers, and a float32 scale for each row."""
    numbers, scale, _ = quantize_weight(weight.reshape(-1, weight.shape[-1]), 8, 0, True, np.float32)
    return numbers.reshape(weight.shape), scale.reshape(weight.shape[:-1]).astype(np.float32)
