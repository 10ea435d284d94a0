"""Reads arguments of primitives that are no tensors, which are among the inputs or attributes."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.matching.expr import Expr

__all__ = ["from_end", "rank_of", "value_of"]


def value_of(node: Node, inputs: list[Expr], position: int, name: str, default: Any = None) -> Any:
    """Return an argument that is no tensor: among the inputs, or an attribute of the primitive."""
    if position < len(inputs):
        value = inputs[position].attributes.get("value", default) if inputs[position].op == "constant" else default
        return default if value is None else value
    return node.attributes.get(name, default)


def rank_of(expr: Expr) -> int | None:
    """Return the number of axes, if it is known."""
    return None if expr.shape is None else len(expr.shape)


def from_end(axis: Any, rank: int | None) -> int | None:
    """Return one axis, counted from the end: -1 is the last. None where that is not known."""
    if isinstance(axis, (tuple, list)) and len(axis) == 1:
        axis = axis[0]
    if not isinstance(axis, int) or isinstance(axis, bool):
        return None
    if axis < 0:
        return axis
    return None if rank is None else axis - rank
