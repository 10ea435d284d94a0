"""Describes a network, or a part of one, as a graph of MindSpore's primitives: engines read it, patterns are
matched in it.

Each engine makes such a graph in its own way: from a cell that it runs and watches, from the statements of a
`construct`, or from a MindIR file. The names of the nodes are those of MindSpore's primitives in all of them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

__all__ = ["BATCH_NORMS", "CALL", "CONSTANT", "INPUT", "PARAMETER", "Graph", "Node", "constant"]

# Kinds of nodes that are no primitive.
INPUT, PARAMETER, CONSTANT, CALL = "input", "parameter", "constant", "call"
# Primitives that use statistics of a batch, or given ones.
BATCH_NORMS = ("BatchNorm", "BatchNormExt")


@dataclass(eq=False)
class Node:
    """Describes one value of a network. A dim of -1 is unknown, a shape of None altogether."""

    kind: str  # the name of a primitive, or one of the kinds above
    inputs: tuple[Node, ...] = ()
    name: str = ""
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    value: Any = None  # of a constant, as Python object or NumPy array
    attributes: dict[str, Any] = field(default_factory=dict)  # of a primitive that keeps them beside its inputs
    origin: Any = None  # what the engine made it from
    symbols: tuple[str, ...] = ()  # names of open dims, if a file has them: the same name is the same size

    def __repr__(self) -> str:
        return f"{self.kind}({self.name or (self.value if self.kind == CONSTANT else '')})"


def constant(value: Any) -> Node:
    """Make a node for a Python value."""
    return Node(CONSTANT, value=value)


@dataclass(eq=False)
class Graph:
    """Holds nodes in an order in which they can be computed, and those of them that leave the graph."""

    nodes: list[Node]
    outputs: list[Node]

    def users(self) -> Counter[int]:
        """Return how many inputs of nodes that matter, and outputs, each node is; by id."""
        count = Counter(id(node) for node in self.outputs)
        seen: set[int] = set()
        stack = list(self.outputs)
        while stack:
            node = stack.pop()
            if id(node) not in seen:
                seen.add(id(node))
                count.update(id(i) for i in node.inputs)
                stack.extend(node.inputs)
        return count
