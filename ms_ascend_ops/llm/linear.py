"""Linear layers, behind which the type of the weight can be exchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import GROUP, QuantizedMatrix

__all__ = ["FloatLinear", "Linear", "QuantizedLinear", "has_quantized_product", "load_linear"]

Array = np.ndarray[Any, Any]


class Linear(Protocol):
    """y = x weight^T + bias."""

    def __call__(self, ops: Any, x: Any) -> Any:
        """The product, by the operators `ops`."""

    def converted(self, convert: Callable[[Array], Any]) -> Linear:
        """The same layer with its arrays as tensors of another library."""


class FloatLinear:
    """A weight of floats, shape (n, k)."""

    def __init__(self, weight: Any, bias: Any = None):
        self.weight = weight
        self.bias = bias

    def __call__(self, ops: Any, x: Any) -> Any:
        return ops.matmul(x, self.weight, self.bias, transpose_weight=True)

    def converted(self, convert: Callable[[Array], Any]) -> FloatLinear:
        """The same layer with its arrays as tensors of another library."""
        return FloatLinear(convert(self.weight), None if self.bias is None else convert(self.bias))


class QuantizedLinear:
    """A weight of 4 or 8 bits with a scale, and an offset, for each group of 32."""

    def __init__(self, codes: Any, scale: Any, offset: Any, bias: Any = None):
        self.arrays = (codes, scale, offset, bias)

    def __call__(self, ops: Any, x: Any) -> Any:
        return ops.weight_quant_matmul(x, *self.arrays, group_size=GROUP)

    def converted(self, convert: Callable[[Array], Any]) -> QuantizedLinear:
        """The same layer with its arrays as tensors of another library."""
        return QuantizedLinear(*(None if array is None else convert(array) for array in self.arrays))


def has_quantized_product() -> bool:
    """Whether this build has the operator for quantized weights."""
    from ms_ascend_ops import registry  # noqa: PLC0415

    return "weight_quant_matmul" in registry.names()


def load_linear(checkpoint: Checkpoint, names: Sequence[str], dtype: Any, quantized: bool = False) -> Linear:
    """One layer of the weights of these names (`<name>.weight`, `<name>.bias`), one below the other.

    With `quantized`, weights that are quantized alike in the file stay so.
    """
    biases = [checkpoint.array(f"{name}.bias", dtype) for name in names if f"{name}.bias" in checkpoint]
    bias = np.concatenate(biases) if len(biases) == len(names) else None
    if quantized:
        parts = [checkpoint.weight(f"{name}.weight") for name in names]
        forms = [part.with_offset() for part in parts if isinstance(part, QuantizedMatrix)]
        alike = {(codes.dtype, offset is None) for codes, _, offset in forms}
        if len(forms) == len(parts) and len(alike) == 1:
            codes, scale, offset = (
                None if arrays[0] is None else np.ascontiguousarray(np.concatenate(arrays))
                for arrays in zip(*forms, strict=True)
            )
            return QuantizedLinear(codes, scale, offset, bias)
    shapes = [checkpoint.shapes[f"{name}.weight"] for name in names]
    weight = np.empty((sum(rows for rows, _ in shapes), shapes[0][1]), dtype)
    first = 0
    for name, (rows, _) in zip(names, shapes, strict=True):
        weight[first : first + rows] = checkpoint.array(f"{name}.weight", dtype)
        first += rows
    return FloatLinear(weight, bias)
