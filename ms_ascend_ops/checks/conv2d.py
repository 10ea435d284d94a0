"""Checks channels of x, of the weight and of groups."""

from __future__ import annotations

from typing import Any

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any], op: str = "conv2d") -> None:
    axis = -1 if attributes["data_format"] == "NHWC" else 1
    x, weight, groups = shapes[0], shapes[1], attributes["groups"]
    if len(x) != 4 or len(weight) != 4 or -1 in (x[axis], weight[axis]):
        return
    if weight[axis] * groups != x[axis]:
        raise ValueError(
            f"{op}: weight.shape[{axis}] must be x.shape[{axis}] / groups ({x[axis] // groups}), got {weight}"
        )
