"""Analyses statements as `x += y`, which change x in place in a graph and make another x in PyNative mode.

What has been watched is PyNative. A statement that is changed may read a value under another name than before, and that
name shares its memory with x. So `x += y` becomes `x = x + y` where both modes then do what they did: x is a value that
the construct itself has computed, and nobody reads an older one of it, or a view of one, afterwards.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, INPUT, PARAMETER, Node
from ms_ascend_ops.export.graphs.trace import Trace

__all__ = ["Writes", "written_apart"]

# Primitives whose result may alias the memory of their first input.
_VIEWS = frozenset(
    ("Reshape", "View", "Transpose", "TransposeExt", "ExpandDims", "Unsqueeze", "Squeeze", "getitem", "TupleGetItem",
     "Split", "SplitTensor", "SplitWithSize", "Chunk", "Unstack", "UnstackExt", "StridedSlice", "Slice", "SliceExt",
     "SelectExt", "Narrow", "BroadcastTo", "ExpandAs", "Diagonal", "Identity", "Contiguous", "Flatten", "FlattenExt",
     "Depend", "Load", "AsStrided", "Real", "StopGradient")
)  # fmt: skip
_PARTS = frozenset(("Split", "SplitTensor", "SplitWithSize", "Chunk", "Unstack", "UnstackExt"))


@dataclass(frozen=True)
class _Write:
    """Describes one execution of a statement that writes in place: its line, when it was, and the memory."""

    line: int
    at: int
    memory: Sequence[Any]


class Writes:
    """Hold what the statements of a flat source were seen to write in place."""

    def __init__(self, seen: Trace, targets: Mapping[int, str], is_layer: Callable[[str], bool]) -> None:
        """Take `targets`, by line the names that change in place, and `is_layer`, whether a sub-cell makes a
        new tensor.
        """
        self._position = {id(node): index for index, node in enumerate(seen.graph.nodes)}
        self._nodes, self._outputs, self._is_layer = seen.graph.nodes, seen.graph.outputs, is_layer
        writes: list[_Write] = []
        self.apart: set[int] = set()
        together: set[int] = set()
        for index, node in enumerate(self._nodes):
            stack = seen.places.get(id(node), ())
            if not stack or stack[-1].line not in targets:
                continue
            line = stack[-1].line
            old = stack[-1].variables.get(targets[line])
            if old is None or all(i is not old for i in node.inputs):
                continue  # no tensor, or a conversion of the other operand
            writes.append(_Write(line, index, self._memory(old)))
            (self.apart if self._is_apart(old, node, index) else together).add(line)
        self.apart -= together
        self.any = bool(writes)
        self._remaining = [write for write in writes if write.line in together]

    def are_inside(self, nodes: Sequence[Node]) -> bool:
        """Tell whether one of these was executed by a statement that still writes in place."""
        positions = {self._position.get(id(node)) for node in nodes}
        return any(write.at in positions for write in self._remaining)

    def change(self, node: Node, until: Node) -> bool:
        """Tell whether a value has been changed in place, in a graph, before another one is computed."""
        first, last = self._position.get(id(node), -1), self._position.get(id(until), -1)
        memory = self._memory(node)
        return any(first < w.at <= last and _overlap(memory, w.memory) for w in self._remaining)

    def _is_apart(self, old: Node, new: Node, at: int) -> bool:
        """Tell whether nobody can tell whether a value was changed in place, or another one was made of it."""
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            return False  # in place it would keep both
        memory = self._memory(old)
        origin = memory[0]
        if origin.kind in (INPUT, PARAMETER, CONSTANT) or (origin.kind == CALL and not self._is_layer(origin.name)):
            return False
        later = (i for node in self._nodes[at + 1 :] for i in node.inputs)
        return not any(
            self._position.get(id(i), at) < at and i is not new and _overlap(memory, self._memory(i))
            for i in (*later, *self._outputs)
        )

    def _memory(self, node: Node) -> Sequence[Any]:
        """Return where a value lies: what made that memory, and which part of it the value is."""
        parts: list[Any] = []
        while (kind := node.kind.removesuffix("View")) in _VIEWS and node.inputs:
            source = node.inputs[0]
            if kind == "TupleGetItem" and source.kind.removesuffix("View") not in _PARTS and source.kind != CALL:
                return [node, *reversed(parts)]  # results of one primitive are apart
            if kind == "TupleGetItem":
                parts.append((id(source), node.inputs[1].value))
            elif kind == "getitem":
                parts.append((id(source), node.attributes["index"]))
            node = source
        return [node, *reversed(parts)]


def _overlap(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Tell whether two values may share memory: not if they are different elements of the same."""
    if one[0] is not other[0]:
        return False
    for (source, first), (same, second) in zip(one[1:], other[1:], strict=False):
        if source != same:
            return True
        if _differ(first, second):
            return False
    return True


def _differ(first: Any, second: Any) -> bool:
    """Tell whether two indices take different elements of one axis."""
    if isinstance(first, int) and isinstance(second, int):
        return first != second and first >= 0 and second >= 0
    if isinstance(first, tuple) and isinstance(second, tuple) and first and second:
        return _differ(first[0], second[0]) or (
            len(first) == len(second) and first[0] == second[0] == slice(None) and _differ(first[1:], second[1:])
        )
    return False


def written_apart(source: Sequence[str], lines: set[int]) -> dict[int, str]:
    """Return, for lines with `x += y`, the statements `x = x + y`."""
    made = {}
    for line in lines:
        statement = ast.parse(source[line - 1].strip()).body[0]
        assert isinstance(statement, ast.AugAssign)
        assert isinstance(statement.target, ast.Name)
        value = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
        made[line] = f"{statement.target.id} = {ast.unparse(value)}"
    return made
