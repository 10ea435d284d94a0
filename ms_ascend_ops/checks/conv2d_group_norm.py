"""Channels, groups of the norm, and the residual, which has the shape of the output."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.checks import conv2d

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
        size, taps = shapes[0][dim], weight[dim]
        if -1 in (size, taps, residual[dim]):
            continue
        room = size + attributes[f"pad_{before}"] + attributes[f"pad_{behind}"]
        places = (room - (taps - 1) * attributes[f"dilation_{name}"] - 1) // attributes[f"stride_{name}"] + 1
        if residual[dim] != places:
            raise ValueError(f"{op}: residual.shape[{dim}] must be that of the output ({places}), got {residual}")
