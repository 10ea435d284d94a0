"""Checks how many experts a token, or a network, may have."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.checks import ShapeCheck

__all__ = ["experts_of_a_token"]


def experts_of_a_token(operator: str, place: int) -> ShapeCheck:
    """Return n and k of the shape (n, k) at this place."""

    def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
        limits = registry.op_spec(operator).limits
        if len(shapes[place]) == 2 and shapes[place][1] > limits["experts_of_a_token"]:
            raise ValueError(
                f"{operator}: a token must have at most {limits['experts_of_a_token']} experts, got {shapes[place][1]}"
            )
        if attributes.get("num_experts", 0) > limits.get("experts", 0):
            raise ValueError(
                f"{operator}: num_experts must be at most {limits['experts']}, got {attributes['num_experts']}"
            )

    return check
