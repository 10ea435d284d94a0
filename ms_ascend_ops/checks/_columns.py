"""Says how many products of integers a float32 sums up exactly."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.checks import ShapeCheck

__all__ = ["exact_sums"]


def exact_sums(op: str) -> ShapeCheck:
    def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
        x = shapes[0]
        most = registry.op_spec(op).limits["columns"]
        if x[-1] > most:
            raise ValueError(f"{op}: x.shape[-1] must be at most {most}, got {x}")

    return check
