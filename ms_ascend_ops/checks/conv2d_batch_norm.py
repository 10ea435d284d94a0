"""Checks channels of x and weight."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.checks import conv2d

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    conv2d.check(shapes, attributes, "conv2d_batch_norm")
