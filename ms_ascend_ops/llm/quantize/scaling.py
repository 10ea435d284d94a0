"""Moves factors between layers, under which a network stays the same and its matrices are easier to round.

A column of a matrix that meets large activations matters more than the others. It is multiplied by a factor, which
leaves it a larger share of its group's numbers, and what makes the activations is divided by the same: a norm's weight,
or rows of the matrix in front. The factors are those of Lin et al., AWQ: Activation-aware Weight Quantization, 2023:
the mean magnitude of each activation, to a power that is tried. Where query heads share a value head, their factors are
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.quantize.forward import Forward
from ms_ascend_ops.llm.quantize.rounding import floats_of, rounded
from ms_ascend_ops.llm.quantize.units import Editable, Unit

__all__ = ["Calibration", "calibrated", "output_error", "scale_units"]

Array = np.ndarray[Any, Any]

_POWERS = np.arange(0, 1, 0.1)
_ROWS = 128  # of activations on which errors are measured
_LEAST = 1e-4  # of a factor: what hardly ever is anything but 0 says nothing about its column


@dataclass
class Calibration:
    """Keeps what a unit's matrices are multiplied with: the mean magnitude of each column, and some rows."""

    magnitude: Array
    rows: Array
    count: int = 1  # windows in the mean


def calibrated(
    editable: Editable, forward: Forward, windows: Sequence[Sequence[int]]
) -> tuple[dict[str, Calibration], list[list[Array]]]:
    """Run windows of tokens. Returns what goes into each unit, and the states in front of each layer and the end."""
    inputs: dict[str, Calibration] = {}
    layers = editable.network.layers
    states: list[list[Array]] = [[] for _ in range(len(layers) + 1)]
    each = max(1, _ROWS // len(windows))

    for tokens in windows:
        residual = forward.embedded(tokens)
        for index, layer in enumerate(layers):
            states[index].append(residual)

            def observe(kind: str, x: Array, index: int = index) -> None:
                magnitude = np.abs(x).mean(0, dtype=np.float64)
                rows = x[:: max(1, len(x) // each)][:each].astype(np.float32)
                known = inputs.get(name := f"layers.{index}.{kind}")
                if known is None:
                    inputs[name] = Calibration(magnitude, rows)
                    return
                known.count += 1
                known.magnitude += (magnitude - known.magnitude) / known.count
                known.rows = np.concatenate([known.rows, rows])

            residual = forward.layer(layer, residual, observe)
        states[-1].append(residual)
    return inputs, states


def output_error(weight: Array, kind: str, group: int, rows: Array) -> float:
    """Return the sum of squares of all errors that rounding a matrix makes in its products with some rows."""
    difference = floats_of(rounded(weight, kind, group)) - weight
    if not np.isfinite(difference).all():
        return float("inf")  # beyond float16
    return float(np.square(rows @ difference.T, dtype=np.float64).sum())


def scale_units(
    editable: Editable, inputs: dict[str, Calibration], kind: str, group: int, powers_of_two: bool = False
) -> dict[str, float]:
    """Move factors into all layers. Returns by units which share of the error of rounding to `kind` is left.

    Args:
        editable: the network. Its weights and norms are changed.
        inputs: what goes into the units; changed likewise.
        kind: the type to try factors with.
        group: columns with one scale.
        powers_of_two: only such factors, under which numbers that float16 or bfloat16 hold stay exact.
    """
    units = {unit.name: unit for unit in editable.units}
    left = {}
    for unit in editable.units:
        if unit.layer is None:
            continue
        if not _has_origin(editable, unit):
            left[unit.name] = 1.0
            continue
        seen = inputs[unit.name]
        shared = _shared(unit, seen.magnitude, editable.network.config)
        plain = best = sum(output_error(part.weight, kind, group, seen.rows) for part in unit.parts)
        factors = None
        for power in _POWERS[1:]:
            tried = np.maximum(shared, _LEAST * shared.max()) ** power if shared.max() > 0 else np.ones_like(shared)
            tried = tried / np.sqrt(tried.max() * tried.min())
            if powers_of_two:
                tried = np.exp2(np.rint(np.log2(tried)))
            tried = tried.astype(np.float32)
            error = sum(output_error(part.weight * tried, kind, group, seen.rows / tried) for part in unit.parts)
            if error < best:
                best, factors = error, tried
        if factors is not None:
            _apply(editable, units, unit, factors)
            seen.rows = seen.rows / factors
            seen.magnitude = seen.magnitude / factors
        left[unit.name] = best / plain if plain else 1.0
    return left


def _has_origin(editable: Editable, unit: Unit) -> bool:
    """Tell whether a matrix or a norm makes the activations, which can be divided by factors."""
    assert unit.layer is not None
    name = {"qkv": "input_norm", "gate_up": "post_norm"}.get(unit.kind)
    return name is None or getattr(editable.network.layers[unit.layer], name) is not None


def _shared(unit: Unit, magnitude: Array, config: ModelConfig) -> Array:
    """Average magnitudes over the query heads that share values, whose activations have one origin."""
    if unit.kind != "output" or config.heads == config.key_heads:
        return magnitude
    heads = magnitude.reshape(config.key_heads, -1, config.head_size)
    return np.broadcast_to(heads.mean(1, keepdims=True), heads.shape).reshape(-1)


def _apply(editable: Editable, units: dict[str, Unit], unit: Unit, factors: Array) -> None:
    assert unit.layer is not None
    for linear in unit.linears():
        linear.weight *= factors
    config, layer = editable.network.config, editable.network.layers[unit.layer]
    norm = {"qkv": layer.input_norm, "gate_up": layer.post_norm}.get(unit.kind)
    if norm is not None:
        added = 1 if config.family.one_plus_gamma else 0
        norm[...] = (norm + added) / factors - added
    elif unit.kind == "down":
        _divide(units[f"layers.{unit.layer}.gate_up"], 1, factors)
    else:
        of_values = factors.reshape(config.key_heads, -1, config.head_size)[:, 0].reshape(-1)
        _divide(units[f"layers.{unit.layer}.qkv"], 2, of_values)


def _divide(unit: Unit, index: int, factors: Array) -> None:
    """Divide the rows of a matrix, and its bias."""
    part = unit.parts[index]
    part.linear.weight[part.rows] /= factors[:, None]
    if part.linear.bias is not None:
        part.linear.bias[part.rows] /= factors
