"""Implements engine 2: edits single statements inside a user's construct, and inside the functions that it calls.

The construct is brought into a form where every statement does one thing. That form runs while it is watched, as in
engine 1, and each primitive is known by the line that executed it. Lines are then changed; everything else of the
construct, its conditions and shapes included, stays.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from mindspore import Parameter, nn
from ms_ascend_ops.export.engines.aliases import Writes, written_apart
from ms_ascend_ops.export.engines.cell_engine import (
    TOLERANCES,
    Analysis,
    Swap,
    Target,
    conditions_of,
    drawn,
    error_of,
    of_one_sub_cell,
    outside_training,
)
from ms_ascend_ops.export.engines.effects import Effects
from ms_ascend_ops.export.engines.emit import NotPortableError, moved_texts, path_to
from ms_ascend_ops.export.engines.flat import Edited, Flat, Frame, flatten, locator
from ms_ascend_ops.export.engines.generated import guard, stock_of, with_construct
from ms_ascend_ops.export.engines.statements import NotSimpleError
from ms_ascend_ops.export.engines.timing import slower
from ms_ascend_ops.export.graphs.graph import CALL, CONSTANT, PARAMETER, Node
from ms_ascend_ops.export.graphs.layers import matrix_of, operator_of
from ms_ascend_ops.export.graphs.probe import sub_cells
from ms_ascend_ops.export.graphs.specs import OWNER
from ms_ascend_ops.export.graphs.trace import Trace
from ms_ascend_ops.export.matching.find import Found, find

__all__ = ["flat_source", "rewrite"]


def flat_source(cell: nn.Cell, absent: Mapping[str, bool]) -> Flat | str:
    """Return the construct of a cell in simple statements, or why there is none."""
    try:
        return flatten(cell, absent)
    except (NotSimpleError, SyntaxError, NameError) as error:
        return f"its construct cannot be changed: {error}"


def rewrite(
    target: Target,
    flat: Flat,
    calls: Sequence[Mapping[str, Any]],
    make: Callable[..., type] | None = None,
) -> Analysis | str:
    """Find statements to replace in one cell, which was called like this. The cell itself stays as it is.

    `make(stock, edited=, conditions=)` gives a class the edited source, with conditions under which it is taken; by
    default that is a construct. A text says why the cell cannot be looked at.
    """
    first = _rewrite(target, flat, calls, make)
    if isinstance(first, str) or not (missing := _nameless(first)):
        return first
    inner = flat.inlined()  # a value of a function that is called has a name there
    second = first if inner is None else _rewrite(target, inner, calls, make)
    return second if not isinstance(second, str) and second.swap is not None and _nameless(second) < missing else first


def _nameless(analysis: Analysis) -> int:
    """Return how many places stay as a value has no name."""
    return sum(text == _NO_NAME for _, text in analysis.left)


_NO_NAME = "a value that it needs has no name there"


def _rewrite(
    target: Target, flat: Flat, calls: Sequence[Mapping[str, Any]], make: Callable[..., type] | None
) -> Analysis | str:
    stored = target.stored
    inputs = drawn(calls[0], stored, stored)
    seen = target.trace(target.cell, inputs, construct=flat.function, locate=locator(flat))
    if isinstance(seen, str):
        return f"it does not run by itself ({seen})"
    owned = {name: target.cell for name, value in calls[0].items() if value is OWNER}
    owners = {name: {**known, **(owned if name == flat.name else {})} for name, known in flat.owners.items()}
    effects = Effects(flat.names, flat.functions, owners)
    staying: dict[tuple[int, str], str] = {}
    while True:
        edits = _Edits(target.cell, flat, seen, staying)
        result = _edited_places(target, edits, calls[0])
        if not result.found:
            return result
        try:
            edited = edits.flat.edited(edits.lines, edits.removable(effects))
        except (SyntaxError, NameError, ImportError) as error:
            return _none_of(result, f"the new source does not load ({error})")
        running = {(id(item.root), item.row.op): text for item in result.found if (text := edits.runs(item, edited))}
        if not running:
            break
        staying |= running  # smaller places in these are looked for then
    difference = max(_error(target, inputs, edited.flat) for inputs in calls)
    if not difference <= TOLERANCES[stored]:
        return _none_of(result, f"its result is {difference:.1e} away from the fused one")
    # The watched call is one choice of optional inputs.
    accepted = [stored, *_other_dtypes(target, calls[0], edits.flat, edited.flat)]
    conditions = [*conditions_of(target, calls[0], accepted), *outside_training(target.cell, result.found)]
    made = partial(make or _class, edited=edited.flat, conditions=conditions)
    result.swap = Swap(made, result.found, [], in_place=edits.writes.any)
    return result


def _none_of(result: Analysis, reason: str) -> Analysis:
    """Return an analysis whose places all stay."""
    result.left += [(item.row.name, reason) for item in result.found]
    result.found = []
    return result


def _edited_places(target: Target, edits: _Edits, call: Mapping[str, Any]) -> Analysis:
    """Find places and edit the lines for them."""
    seen = edits.seen
    found, left = find(seen.graph, target.patterns, target.level, edits.refusal)
    if any(item.fused.dropout for item in found):
        reason = _dropout(target, edits, call, found)
        if reason:
            # Look inside of these places then.
            found, left = find(
                seen.graph, target.patterns, target.level, lambda f: (f.fused.dropout and reason) or edits.refusal(f)
            )
    result = Analysis(left=[(p.row.name, p.reason) for p in left if p.root.origin is None], graph=seen.graph)
    for item in found:
        if of_one_sub_cell(item):
            continue
        reason = edits.add(item)
        if reason:
            result.left.append((item.row.name, reason))
        else:
            result.found.append(item)
    return result


def _dropout(target: Target, edits: _Edits, call: Mapping[str, Any], found: Sequence[Found]) -> str:
    """Return why places in which there may be a dropout must stay: in training they are not the same."""
    flat, seen = edits.flat, edits.seen
    inputs = drawn(call, target.stored, target.stored)
    trained = target.trace(target.cell, inputs, construct=flat.function, training=True, locate=locator(flat))
    if isinstance(trained, str):
        return f"it cannot be watched in training ({trained})"
    others, left = find(trained.graph, target.patterns, target.level, _Edits(target.cell, flat, trained, {}).refusal)

    def lines(trace: Trace, places: Sequence[Found]) -> list[list[int]]:
        roots = [trace.places.get(id(item.root), ()) for item in places if item.fused.dropout]
        return sorted([frame.line for frame in frames] for frames in roots)

    if lines(seen, found) == lines(trained, others):
        return ""
    reasons = [place.reason for place in left if place.row.op in {item.row.op for item in found if item.fused.dropout}]
    return f"in training {reasons[0]}" if reasons else "it does something else in training (dropout?)"


def _error(target: Target, inputs: Mapping[str, Any], edited: Flat) -> float:
    seen = target.stock(inputs)
    if isinstance(seen, str):
        return float("inf")
    error: float = error_of(target, inputs, target.stored, seen, edited.function)
    return error


def _other_dtypes(target: Target, inputs: Mapping[str, Any], flat: Flat, edited: Flat) -> Iterator[str]:
    """Yield the other dtypes in which the edited construct does the same, where it may round in other places."""
    for dtype in TOLERANCES if target.level >= "O2" else ():
        if dtype != target.stored:
            values = drawn(inputs, dtype, target.stored)
            seen = target.trace(target.cell, values, construct=flat.function, dtype=dtype)
            if isinstance(seen, str):
                continue
            if error_of(target, inputs, dtype, seen, edited.function) <= TOLERANCES[dtype]:
                yield dtype


def _class(stock: type, edited: Flat, conditions: Sequence[str]) -> type:
    """Return a class with the edited construct; where a condition fails, that of `stock` runs."""
    guarded = edited.guarded(guard(conditions, *stock_of(stock)), {})
    made: type = with_construct(stock, guarded.function, "\n".join(guarded.lines))
    return made


class _Edits:
    """Say which lines of the flat source become what."""

    def __init__(self, cell: nn.Cell, flat: Flat, seen: Trace, staying: Mapping[tuple[int, str], str]) -> None:
        """Take `staying`: why places must stay, by the id of the root and the operator."""
        self.cell, self.seen, self.staying = cell, seen, staying
        self.writes = Writes(seen, flat.written_in_place(), self._makes_a_tensor)
        self.flat = flat.with_lines(written_apart(flat.lines, self.writes.apart)) if self.writes.apart else flat
        self.lines: dict[int, str] = {}
        self._inside: set[int] = set()

    def _makes_a_tensor(self, path: str) -> bool:
        """Tell whether a sub-cell is a layer whose result is no view of its input."""
        child = dict(self.cell.cells_and_names()).get(path)
        return child is not None and (bool(operator_of(child)) or matrix_of(child) is not None)

    def refusal(self, found: Found) -> str:
        """Return why a place must stay, whatever else is edited: a smaller one in it may do."""
        if reason := slower(found):
            return reason
        if staying := self.staying.get((id(found.root), found.row.op)):
            return staying
        stacks = [self.seen.places.get(id(n), ()) for n in found.inside if n.kind != "MakeTuple"]
        if of_one_sub_cell(found) or any(not stack for stack in stacks):
            return ""
        if any(self._learned(found.inputs[i]) for i in found.fused.constant):
            return "a gradient may be needed that the operator does not give"
        if self.writes.are_inside(found.inside) or any(self.writes.change(i, found.root) for i in found.inputs):
            return "a statement as `x += y` changes a value in place that is used as it was, too"
        depth = _common_depth(stacks)
        first = min((self.seen.places[id(node)][depth] for node in found.outputs.values()), key=lambda f: f.line)
        named = (self._name(i, first) or self._keep(i, first, depth, {}) for i in found.inputs)
        return "" if all(named) else _NO_NAME

    def runs(self, found: Found, edited: Edited) -> str:
        """Return why a part of a place still runs after the edit, though the operator computes it, if one does."""
        nodes = [n for n in found.inside if n.kind.removesuffix("View") in _HEAVY and id(n) in self.seen.places]
        stacks = [self.seen.places[id(n)] for n in nodes]
        depth = _common_depth([self.seen.places.get(id(n), ()) for n in found.inside if n.kind != "MakeTuple"])
        lines = {stack[depth].line for stack in stacks if len(stack) > depth} - set(self.lines) - edited.gone
        if not lines:
            return ""
        names = sorted({name for line in lines for name in self.flat.targets(line)})
        return f"a part of it is needed by a statement that stays ({', '.join(names) or 'a call'})"

    def add(self, found: Found) -> str:
        """Edit the lines for one place; a text says why that cannot be."""
        stacks = [self.seen.places.get(id(n), ()) for n in found.inside if n.kind != "MakeTuple"]
        if any(not stack for stack in stacks):
            return "a part of it is not in the source of the construct"
        depth = _common_depth(stacks)
        fused = found.fused
        outputs = {self.seen.places[id(node)][depth]: (index, node) for index, node in found.outputs.items()}
        frames = sorted(outputs, key=lambda frame: frame.line)
        names = [self._target(frame.line, outputs[frame][1]) for frame in frames]
        if any(not n for n in names) or any(self._goes_on(frame, depth, found) for frame in frames):
            return "its statement assigns something else, too"
        arguments: list[str] = []
        kept: dict[int, str] = {}
        for i in found.inputs:
            text = self._name(i, frames[0]) or self._keep(i, frames[0], depth, kept)
            if not text:
                return _NO_NAME
            arguments.append(text)
        try:
            call = fused.call(moved_texts(found, arguments))
        except NotPortableError as error:
            return str(error)
        lines = kept
        if not fused.has_several:
            lines[frames[0].line] = f"{names[0]} = {fused.result(call, 0)}"
        else:
            result = f"fused_{frames[0].line}"
            for frame, name in zip(frames, names, strict=True):
                lines[frame.line] = f"{name} = {fused.result(result, outputs[frame][0])}"
            lines[frames[0].line] = f"{result} = {call}; {lines[frames[0].line]}"
        if any(not text.endswith(self.lines.get(line, text)) for line, text in lines.items()):
            return "its statement becomes something else in another call"
        self.lines.update(lines)
        self._inside |= {id(n) for n in found.inside}
        return ""

    def _goes_on(self, frame: Frame, depth: int, found: Found) -> bool:
        """Tell whether a statement does more with the result: in a function that stays whole, say."""
        within = {id(n) for n in found.inside}
        nodes = self.seen.graph.nodes
        last = max(i for i, n in enumerate(nodes) if any(n is o for o in found.outputs.values()))
        for node in nodes[last + 1 :]:
            stack = self.seen.places.get(id(node), ())
            if len(stack) <= depth or (stack[depth].function, stack[depth].line) != (frame.function, frame.line):
                break
            if id(node) not in within and node.kind != "TupleGetItem":
                return True
        return False

    def _learned(self, node: Node) -> bool:
        """Tell whether a value is computed from trained parameters, or in a sub-cell, which may have some."""
        parameters = {path: p.requires_grad for path, p in _parameters(self.cell)}
        seen: set[int] = set()
        stack = [node]
        while stack:
            node = stack.pop()
            if node.kind == CALL or (node.kind == PARAMETER and parameters.get(node.name, True)):
                return True
            if id(node) not in seen:
                seen.add(id(node))
                stack.extend(node.inputs)
        return False

    def _name(self, node: Node, frame: Frame) -> str | None:
        """Return how a value is called where a frame is."""
        if node.kind == PARAMETER or (node.kind == CONSTANT and node.name):
            return path_to(self.cell, node.name, frame.owner) if frame.owner else None
        names = [name for name, value in frame.variables.items() if value is node]
        # Prefer a name that has a value on every path to one that a branch has assigned.
        return min(names, key=lambda name: not self.flat.always_assigned(name, frame.line), default=None)

    def _target(self, line: int, node: Node) -> str:
        """Return the name that a statement gives to a value; none if it gives others to values that are needed."""
        names = self.flat.targets(line)
        if len(names) > 1 and node.kind == "TupleGetItem":  # y, mean, rstd = layer_norm(x, gamma, beta)
            index = node.inputs[1].value
            others = [name for i, name in enumerate(names) if i != index]
            return "" if index >= len(names) or self.flat.is_read(line, others) else names[index]
        return names[0] if len(names) == 1 else ""

    def _keep(self, node: Node, frame: Frame, depth: int, lines: dict[int, str]) -> str:
        """Give a value whose name has another value by now a name of its own; `lines` get the statement for it."""
        if (place := self._named_before(node, frame, depth)) is not None:
            line, name = place
            kept = f"kept_{line}_{name}"
            old = lines.get(line, self.flat.lines[line - 1].strip())
            lines[line] = old if f"; {kept} = " in old else f"{old}; {kept} = {name}"
            return kept
        # For an argument, or a value of a branch: in front of the statement that reassigns its name.
        stacks = (frames[depth : depth + 1] for frames in self.seen.places.values())
        places = [f for stack in stacks for f in stack if f.function == frame.function]
        for name in sorted({name for place in places for name, value in place.variables.items() if value is node}):
            takers = [n for n in self.flat.lines_of(frame.function, frame.line) if name in self.flat.targets(n)]
            takers = [n for n in takers if self.flat.always_before(n, frame.line)]
            last = min((p.line for p in places if p.variables.get(name) is node), default=0)
            for line in (n for n in takers if n >= last):
                if self._has(places, name, node, line):
                    old = lines.get(line, self.lines.get(line, self.flat.lines[line - 1].strip()))
                    kept = f"kept_{name}_{line}"
                    lines[line] = old if f"{kept} = " in old else f"{kept} = {name}; {old}"
                    return kept
        return ""

    def _has(self, places: Sequence[Frame], name: str, node: Node, line: int) -> bool:
        """Tell whether a name has a value in front of a line: the first that is seen of the name there, or before."""
        here = [p for p in places if p.line == line and name in p.variables]
        before = [p for p in places if p.line < line and name in p.variables]
        seen = here or sorted(before, key=lambda p: p.line)[-1:]
        return bool(seen) and all(p.variables[name] is node for p in seen)

    def _named_before(self, node: Node, frame: Frame, depth: int) -> tuple[int, str] | None:
        """Return the line before, of the same call, whose statement gave a value a name that has another value
        since.
        """
        stack = self.seen.places.get(id(node), ())
        if len(stack) <= depth or stack[depth].function != frame.function:
            return None
        line = stack[depth].line
        if not self.flat.always_before(line, frame.line) or line in self.lines:
            return None
        later = [f for frames in self.seen.places.values() for f in frames[depth : depth + 1]]
        known = [f.variables for f in later if f.function == frame.function]
        for name in self.flat.targets(line):
            if any(variables.get(name) is node for variables in known):
                return line, name
        return None

    def removable(self, effects: Effects) -> Callable[[ast.FunctionDef, ast.stmt], bool]:
        """Return which statements may go where nobody reads what they assign.

        Those that do nothing else, as their source tells, or under which nothing ran but what is replaced.
        """
        ran: dict[int, bool] = {}
        users = self.seen.graph.users()
        for node in self.seen.graph.nodes:
            if node.kind == "TupleGetItem" and not users[id(node)] and id(node.inputs[0]) in self._inside:
                continue
            for frame in self.seen.places.get(id(node), ()):
                ran[frame.line] = ran.get(frame.line, True) and id(node) in self._inside
        return lambda function, statement: ran.get(statement.lineno, False) or effects.pure(function, statement)


# Most of a network's time goes to these: where one still runs, nothing was replaced.
_HEAVY = frozenset(
    ("MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt", "Dense", "Conv2D", "Conv2DExt", "Softmax", "LayerNorm",
     "LayerNormExt", "GroupNorm", "RmsNorm")
)  # fmt: skip


def _parameters(cell: nn.Cell, prefix: str = "") -> Iterator[tuple[str, Parameter]]:
    """Yield the parameters of a cell, with the paths that lead to them."""
    for name, parameter in cell._params.items():
        if parameter is not None:
            yield f"{prefix}{name}", parameter
    for name, child in sub_cells(cell).items():
        yield from _parameters(child, f"{prefix}{name}.")


def _common_depth(stacks: Sequence[Any]) -> int:
    """Return how deep the innermost function lies that all of the call stacks go through."""
    depth = 0
    while all(len(c) > depth + 1 for c in stacks) and len({(c[depth].function, c[depth].line) for c in stacks}) == 1:
        depth += 1
    return depth
