"""Computes linear layers, behind which the type of the weight can be exchanged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, Checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix

__all__ = [
    "Experts",
    "FloatLinear",
    "Linear",
    "QuantizedLinear",
    "SummedLinear",
    "load_experts",
    "load_linear",
    "rounding_of",
]

Array = np.ndarray[Any, Any]


class Linear(Protocol):
    """Computes y = x weight^T + bias."""

    def __call__(self, ops: Any, x: Any) -> Any:
        """Compute the product, by the operators `ops`."""

    def gated(self, ops: Any, x: Any, activation: str) -> Any:
        """Compute the activation of the first half of the product's columns times the second."""


def _gated(ops: Any, x: Any, activation: str) -> Any:
    """Compute a family's activation of the first half of the columns, times the second."""
    if activation == "gelu_tanh":
        return ops.geglu(x, activate_left=True, approximate="tanh")
    return ops.swiglu(x)


@dataclass(eq=False)
class FloatLinear:
    """Computes with a weight of floats, shape (n, k)."""

    weight: Any
    bias: Any

    def product(self, ops: Any, x: Any) -> Any:
        """Compute the product, by the operators `ops`."""
        return ops.matmul(x, self.weight, self.bias, transpose_weight=True)

    def gated(self, ops: Any, x: Any, activation: str) -> Any:
        """Compute the activation of the first half of the product's columns times the second."""
        return _gated(ops, self.product(ops, x), activation)

    __call__ = product


@dataclass(eq=False)
class QuantizedLinear:
    """Computes with a weight of 4 or 8 bits with a scale, and an offset, for each group of a row.

    quantize_x: of the operators: "int8" rounds x to 8 bits.
    """

    weight: Any
    scale: Any
    offset: Any
    bias: Any
    quantize_x: str

    def product(self, ops: Any, x: Any) -> Any:
        """Compute the product, by the operators `ops`."""
        return ops.weight_quant_matmul(
            x, self.weight, self.scale, self.offset, self.bias, quantize_x=self.quantize_x
        )  # fmt: skip

    def gated(self, ops: Any, x: Any, activation: str) -> Any:
        """Compute the activation of the first half of the product's columns times the second."""
        if activation != "silu":
            return _gated(ops, self.product(ops, x), activation)
        return ops.weight_quant_swiglu(
            x, self.weight, self.scale, self.offset, self.bias, quantize_x=self.quantize_x
        )  # fmt: skip

    __call__ = product


@dataclass(eq=False)
class SummedLinear:
    """Computes a layer whose weight has some of the columns: the processes of a group add up what they get."""

    linear: Linear
    group: Any

    def __call__(self, ops: Any, x: Any) -> Any:
        return self.group.summed(ops, self.linear(ops, x))

    def gated(self, ops: Any, x: Any, activation: str) -> Any:
        """Compute the activation of the first half of the product's columns times the second."""
        return _gated(ops, self(ops, x), activation)


@dataclass(eq=False)
class Experts:
    """Computes a mixture of experts: feed-forward layers, of which a token takes `used`, weighted by a router.

    Args:
        router: shape (experts, hidden).
        gate, up: shape (experts, features, hidden). down: shape (experts, hidden, features).
        used: experts of a token.
        normalized: whether the weights of those add up to 1.
    """

    router: Any
    gate: Any
    up: Any
    down: Any
    used: int
    normalized: bool

    def product(self, ops: Any, x: Any) -> Any:
        """Return what the layer gives, by the operators `ops`."""
        tokens = x.reshape(-1, x.shape[-1])
        scores = ops.matmul(tokens, self.router, None, transpose_weight=True)
        weights, chosen = ops.moe_gating_top_k(scores, None, self.used, "softmax", self.normalized)
        rows, places, ends = ops.moe_token_permute(tokens, chosen, self.router.shape[0])
        gate = ops.grouped_matmul(rows, self.gate, ends, True)
        product = ops.silu_mul(gate, ops.grouped_matmul(rows, self.up, ends, True))
        product = ops.grouped_matmul(product, self.down, ends, True)
        return ops.moe_token_unpermute(product, places, weights).reshape(*x.shape)

    __call__ = product


def load_experts(checkpoint: Checkpoint, name: str, dtype: Any) -> Experts:
    """Load the experts of a layer, as floats."""
    config = checkpoint.config

    def stacked(kind: str, *shape: int) -> Array:
        matrices = np.empty((config.experts, *shape), dtype)
        for expert, matrix in enumerate(matrices):
            matrix[...] = checkpoint.array(f"{name}.experts.{expert}.{kind}_proj.weight", dtype)
        return matrices

    router, inner, outer = checkpoint.array(f"{name}.gate.weight", dtype), config.feed_forward, config.hidden
    gate, up, down = stacked("gate", inner, outer), stacked("up", inner, outer), stacked("down", outer, inner)
    return Experts(router, gate, up, down, config.experts_used, config.normalized_experts)


def load_linear(
    checkpoint: Checkpoint, names: Sequence[str], dtype: Any, quantized: bool = False, quantize_x: str = "none",
    rows: Sequence[slice] | None = None, columns: slice = ALL, bias: bool = True,
) -> Linear:  # fmt: skip
    """Load one layer of the weights of these names (`<name>.weight`, `<name>.bias`), one below the other.

    With `quantized`, weights that are quantized in the file stay so, with the bits of the one that has most, and the
    groups that all of them have; `quantize_x` is for those. Of each weight,
    `rows` and `columns` may name a part; without `bias` there is none.
    """
    rows = rows or [ALL] * len(names)
    given = list(zip(names, rows, strict=True))
    bias_dtype = np.float32 if quantized else dtype
    biases = [
        checkpoint.array(f"{name}.bias", bias_dtype, part)
        for name, part in given
        if bias and f"{name}.bias" in checkpoint
    ]
    added = np.concatenate(biases) if len(biases) == len(names) else None
    if quantized:
        parts = [checkpoint.weight(f"{name}.weight", part, columns) for name, part in given]
        matrices = [part for part in parts if isinstance(part, QuantizedMatrix) and part.fits_product]
        if len(matrices) == len(parts):
            bits, group = max(one.bits for one in matrices), math.gcd(*(one.group for one in matrices))
            alike = [one.like(bits, group) for one in matrices]
            if all(one.fits_product for one in alike):
                return QuantizedLinear(*_joined([one.for_product() for one in alike]), added, quantize_x)
    shapes = [checkpoint.shapes[f"{name}.weight"] for name in names]
    counts = [len(range(*part.indices(shape[0]))) for part, shape in zip(rows, shapes, strict=True)]
    weight = np.empty((sum(counts), len(range(*columns.indices(shapes[0][1])))), dtype)
    first = 0
    for (name, part), count in zip(given, counts, strict=True):
        weight[first : first + count] = checkpoint.array(f"{name}.weight", dtype, part, columns)
        first += count
    return FloatLinear(weight, None if added is None else added.astype(dtype))


def _joined(forms: Sequence[tuple[Array, Array, Array | None]]) -> tuple[Array, Array, Array | None]:
    """Join matrices one below the other: with offsets, and with scales of float32, if one of them has those."""
    numbers, scales, offsets = zip(*forms, strict=True)
    dtype = np.result_type(*scales)
    offset = None
    if any(one is not None for one in offsets):
        filled = [np.zeros_like(s) if one is None else one for one, s in zip(offsets, scales, strict=True)]
        offset = np.concatenate(filled).astype(dtype)
    return np.concatenate(numbers), np.concatenate(scales).astype(dtype), offset


def rounding_of(activations: str) -> str:
    """Return the attribute `quantize_x` of the operators.

    Raises:
        ValueError: it is neither "int8" nor "float".
    """
    if activations not in ("float", "int8"):
        raise ValueError(f"activations must be int8 or float, got {activations!r}")
    return "int8" if activations == "int8" else "none"
