"""Checks the class that is left out."""

from __future__ import annotations

from typing import Any

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    if not -(2**31) < attributes["ignore_index"] < 2**31:
        raise ValueError(f"cross_entropy: ignore_index must fit in 32 bits, got {attributes['ignore_index']}")
