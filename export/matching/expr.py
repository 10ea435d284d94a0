"""Defines one value of a graph in the common form (expressions.py), and numbers among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ms_ascend_ops.export.graphs.graph import CALL, Node

__all__ = ["Expr", "is_call", "known_number", "number", "same"]


@dataclass(eq=False)
class Expr:
    """Describes one value in the common form. Without a node it stands for a value that the graph does not compute."""

    op: str
    inputs: tuple[Expr, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    node: Node | None = None
    via: Node | None = None  # the reshape or transpose that makes this value, if it is applied to the input instead

    @property
    def shape(self) -> tuple[int, ...] | None:
        node = self.node or self.via
        return node.shape if node else None

    @property
    def dtype(self) -> str:
        return self.node.dtype if self.node else self.inputs[0].dtype if self.via else ""

    @property
    def source(self) -> Expr:
        """Return the value of the graph that this one is, or is made from by `via`."""
        return self.inputs[0] if self.via else self

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.inputs))})"


def number(expr: Expr) -> float | None:
    """Return the value of an expression that is one known number."""
    if expr.op != "constant":
        return None
    value = expr.attributes["value"]
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def same(one: Expr, other: Expr) -> bool:
    """Tell whether two expressions are the same value: one, or what known operations make of the same."""
    if one is other:
        return True
    if one.op != other.op or not one.inputs or len(one.inputs) != len(other.inputs) or one.op not in _REPEATABLE:
        return False
    alike = (one.shape, one.dtype) == (other.shape, other.dtype) and one.attributes == other.attributes
    return alike and all(map(same, one.inputs, other.inputs))


# People write these twice rather than give them a name.
_REPEATABLE = frozenset(("add", "sub", "mul", "mean", "cast", "square"))


def is_call(expr: Expr) -> bool:
    """Tell whether an expression is what a sub-cell returned that was not looked into."""
    return expr.node is not None and expr.node.kind == CALL


def known_number(value: float) -> Expr:
    """Return the expression of a number."""
    return Expr("constant", attributes={"value": value})
