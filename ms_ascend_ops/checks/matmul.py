"""Checks batches of the weight."""

from __future__ import annotations

from typing import Any

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    x, weight = shapes[0][:-2], shapes[1][:-2]
    if weight and weight != x and (-2,) not in (shapes[0], shapes[1]) and -1 not in (*x, *weight):
        raise ValueError(
            f"matmul: weight.shape[:-2] must be that of x {x}, or be empty: one matrix for all, got {shapes[1]}"
        )
