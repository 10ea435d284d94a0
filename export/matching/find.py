"""Looks for the patterns of the table in a graph.

What is found, and what of it may be replaced, is decided here for all engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ms_ascend_ops.export.graphs.graph import CONSTANT, INPUT, PARAMETER, Graph, Node
from ms_ascend_ops.export.graphs.sizes import Sizes
from ms_ascend_ops.export.matching.expr import Expr
from ms_ascend_ops.export.matching.expressions import Expressions
from ms_ascend_ops.export.matching.match import matches, roots
from ms_ascend_ops.export.matching.rows import LEVELS, Fused, Match, Row, Skip

from ms_ascend_ops import registry
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types

__all__ = ["Found", "Place", "check_level", "find"]

# Sizes pass through these, besides arithmetic.
_OF_SIZES = frozenset({"Shape", "TupleGetItem", "MakeTuple", "make_tuple"})


@dataclass(eq=False)
class Found:
    """Describes a place for a fused operator.

    `inputs` are the nodes to feed it, `outputs` those that its outputs replace.

    `moved` are reshapes and transposes that were applied to a later value, and are applied to an input now, by its
    position.
    """

    row: Row
    fused: Fused
    root: Node
    inputs: tuple[Node, ...]
    outputs: dict[int, Node]
    inside: list[Node] = field(repr=False)
    moved: dict[int, Node] = field(default_factory=dict, repr=False)


@dataclass(eq=False)
class Place:
    """Describes a place that was recognised and must stay."""

    row: Row
    root: Node
    reason: str


def check_level(level: str, caller: str) -> str:
    """Check the level and return it."""
    if level not in LEVELS:
        raise ValueError(f"{caller}: level must be one of {', '.join(LEVELS)}, got {level!r}")
    return level


def find(
    graph: Graph, patterns: Sequence[Row], level: str, refuse: Callable[[Found], str] | None = None
) -> tuple[list[Found], list[Place]]:
    """Return where patterns fit. The search begins at the end of a graph: the larger of two nested ones comes first.

    `refuse` says why a place must stay, if it must; smaller ones in it are looked for then.
    """
    search = _Search(graph, level, refuse)
    present = set(registry.names())
    rows = [(row, roots(row.pattern)) for row in patterns if row.op in present and row.level <= level]
    if level != "O0":
        for node in reversed(graph.nodes):
            if node.kind not in (INPUT, PARAMETER, CONSTANT):
                search.at(node, rows)
    # Where only a conversion of its result blocks a place, it may have been replaced without that conversion.
    left = [p for p in search.left[::-1] if not search.taken & {id(n) for n in (p.root, *_converted(p.root))}]
    return search.found[::-1], left


def _converted(node: Node) -> tuple[Node, ...]:
    """Return what a node has in another form."""
    return node.inputs[:1] if node.kind.removesuffix("View") in ("Cast", "Reshape", "Transpose", "TransposeExt") else ()


_NEW_AXIS = ("ExpandDims", "ExpandDimsView")


class _Search:
    def __init__(self, graph: Graph, level: str, refuse: Callable[[Found], str] | None) -> None:
        self.graph, self.level, self.refuse = graph, level, refuse
        self.users = graph.users()
        self.expressions = Expressions()
        self.found: list[Found] = []
        self.left: list[Place] = []
        self.taken: set[int] = set()

    @cached_property
    def sizes(self) -> Sizes:
        return Sizes(self.graph)

    def at(self, node: Node, rows: Iterable[tuple[Row, frozenset[str] | None]]) -> None:
        """Try every row on one node; the first that may be replaced is, and otherwise the first reason is kept."""
        expr = self.expressions(node)
        if expr.node is not node or id(node) in self.taken or any(i.via is node for i in expr.inputs):
            return  # an activation behind a reshape is looked for where it is
        place = None
        for row, outcome in self._outcomes(expr, rows):
            checked = self._checked(node, row, outcome) if isinstance(outcome, Fused) else outcome
            if isinstance(checked, Found):
                self.found.append(checked)
                self.taken.update(id(n) for n in checked.inside)
                return
            if place is None and checked is not None:
                place = Place(row, node, checked.reason)
        if place is not None:
            self.left.append(place)

    def _checked(self, node: Node, row: Row, fused: Fused) -> Found | Skip | None:
        boundary: dict[int, Node] = {}
        wanted = {id(e.source) for e in fused.inputs}
        outputs = {k: e.node for k, e in fused.outputs.items() if e.node is not None}
        inside = self._inside(outputs.values(), wanted, boundary)
        # A new axis of an input may stay: queries and keys share that of the tables of a rotary embedding.
        given = {id(n) for n in boundary.values()}
        inside = [n for n in inside if n.kind not in _NEW_AXIS or id(n.inputs[0]) not in given]
        if any(id(n) in self.taken for n in inside) or len(boundary) < len(wanted):
            return None
        reason = _breaks_definition(fused) or self._used_elsewhere(inside, outputs.values())
        if reason:
            return Skip(reason)
        half = any(e.dtype != "float32" for e in fused.inputs)
        needed = max(row.level, "O2" if half and not fused.exact else "O1")
        if needed > self.level:
            return Skip(f"level {needed} would replace it ({LEVELS[needed]})")
        moved = {place: e.via for place, e in enumerate(fused.inputs) if e.via is not None}
        found = Found(row, fused, node, tuple(boundary[id(e.source)] for e in fused.inputs), outputs, inside, moved)
        reason = self.refuse(found) if self.refuse is not None else ""
        return Skip(reason) if reason else found

    def _outcomes(
        self, expr: Expr, rows: Iterable[tuple[Row, frozenset[str] | None]]
    ) -> Iterator[tuple[Row, Fused | Skip]]:
        for row, ops in rows:
            if ops is not None and expr.op not in ops:
                continue
            for bound in matches(row.pattern, expr):
                outcome = row.build(Match(expr, bound, lambda: self.sizes))
                if outcome is not None:
                    yield row, outcome

    def _inside(self, roots: Iterable[Node], leaves: set[int], boundary: dict[int, Node]) -> list[Node]:
        """Return the nodes that `roots` are computed from, up to the expressions in `leaves`, whose nodes go to
        `boundary`.
        """
        seen: set[int] = set()
        inside = []
        stack = list(roots)
        while stack:
            node = stack.pop()
            expr = self.expressions(node)
            if id(expr) in leaves:
                boundary.setdefault(id(expr), node)
                continue
            if id(node) in seen or node.kind in (INPUT, PARAMETER, CONSTANT):
                continue
            if self._is_number(node) and not any(id(self.expressions(i)) in leaves for i in node.inputs):
                continue
            seen.add(id(node))
            inside.append(node)
            stack.extend(node.inputs)
        return inside

    def _is_number(self, node: Node) -> bool:
        """Tell whether a value is made of constants, or a size or a tuple of sizes: no result of the network."""
        if node.inputs and all(i.kind == CONSTANT for i in node.inputs):
            return True
        if node.kind not in _OF_SIZES and not node.kind.startswith("Scalar"):
            return False
        numbers = self.sizes.numbers(node)
        return all(number is not None for number in (numbers if isinstance(numbers, tuple) else (numbers,)))

    def _used_elsewhere(self, inside: list[Node], outputs: Iterable[Node]) -> str:
        uses = {id(n): 0 for n in inside}
        for n in inside:
            for i in n.inputs:
                if id(i) in uses:
                    uses[id(i)] += 1
        free = {id(n) for n in outputs}
        if any(self.users[key] > count for key, count in uses.items() if key not in free):
            return "an intermediate result of it is used elsewhere, too"
        return ""


def _breaks_definition(fused: Fused) -> str:
    """Return why the operator's definition does not admit this place, as far as shapes and dtypes are known."""
    signature = registry.signature(fused.op)
    if any(e.shape is None or not e.dtype for e in fused.inputs):
        return "the shape or the dtype of an input is not known"
    try:
        attributes = signature.check_attributes(fused.attributes)
        shapes, dtypes = fused.taken()
        absent = [None] * (len(signature.inputs) - len(shapes))
        results = infer_types(signature, [*dtypes, *absent])
        sizes = infer_shapes(signature, [*shapes, *absent], attributes)
        sizes = [size[1:] for size in sizes] if fused.lifted else sizes
    except (TypeError, ValueError) as error:
        return f"the operator does not take it ({error})"
    for index, value in fused.outputs.items():
        if value.dtype and results[index] != value.dtype:
            return f"it returns {value.dtype} where the operator returns {results[index]}"
        if value.shape is not None and not _agree(sizes[index], value.shape):
            return f"it returns the shape {value.shape} where the operator returns {tuple(sizes[index])}"
    return ""


def _agree(a: Sequence[int], b: Sequence[int]) -> bool:
    return len(a) == len(b) and all(x == y or -1 in (x, y) for x, y in zip(a, b, strict=True))
