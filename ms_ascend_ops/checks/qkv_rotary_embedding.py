"""Checks heads, and the tables of angles."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.checks._rotary import rotated

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    qkv, cos, sin = shapes[:3]
    rotated("qkv_rotary_embedding", "qkv", qkv, cos, sin, attributes)
