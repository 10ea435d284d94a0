"""Checks channels, groups of the norm, and the residual, which has the shape of the output."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.checks import conv2d
from ms_ascend_ops.definitions.shapes import window_count

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    op = "conv2d_group_norm"
    conv2d.check(shapes, attributes, op)
    weight, residual, groups = shapes[1], shapes[6], attributes["num_groups"]
    if len(weight) == 4 and weight[0] != -1 and weight[0] % groups:
        raise ValueError(f"{op}: weight.shape[0] must be a multiple of num_groups ({groups}), got {weight}")
    if residual is None or len(shapes[0]) != 4 or len(weight) != 4 or len(residual) != 4:
        return
    rows = 1 if attributes["data_format"] == "NHWC" else 2
    names = (("h", "top", "bottom", rows), ("w", "left", "right", rows + 1))
    for name, before, behind, dim in names:
        if -1 in (shapes[0][dim], weight[dim], residual[dim]):
            continue
        numbers = (
            attributes[each] for each in (f"dilation_{name}", f"pad_{before}", f"pad_{behind}", f"stride_{name}")
        )
        size = window_count(shapes[0][dim], weight[dim], *numbers)
        if residual[dim] != size:
            raise ValueError(f"{op}: residual.shape[{dim}] must be that of the output ({size}), got {residual}")
