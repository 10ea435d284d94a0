"""Checks the sizes of heads, and the window, of attention."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.checks import ShapeCheck

__all__ = ["head_sizes_and_window"]


def head_sizes_and_window(operator: str, names: tuple[str, ...] = ("query", "key", "value")) -> ShapeCheck:
    def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
        most = registry.op_spec(operator).limits["head_size"]
        for name, shape in zip(names, shapes, strict=False):
            if shape[-1] > most:
                raise ValueError(f"{operator}: {name}.shape[-1] must be at most {most}, got {shape}")
        if attributes["window"] < 0:
            raise ValueError(f"{operator}: window must be 0 (all keys) or more, got {attributes['window']}")

    return check
