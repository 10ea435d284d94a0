"""Flattens the source of a construct, or of a function, so that every statement does one thing, and edits it."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from mindspore import Tensor, nn
from ms_ascend_ops.export.engines.generated import load_source
from ms_ascend_ops.export.engines.inlining import inlined
from ms_ascend_ops.export.engines.liveness import without_dead
from ms_ascend_ops.export.engines.statements import simplified
from ms_ascend_ops.export.graphs.observe import helpers

__all__ = ["Edited", "Flat", "Frame", "flatten", "flatten_function", "locator"]


@dataclass(frozen=True, eq=False)
class Frame:
    """Describes one function on the way to an operator: the line in it, and what its variables were."""

    function: str
    line: int
    variables: dict[str, Any]  # nodes by name
    owner: str = ""  # what the cell is called there


class Flat:
    """Holds the flat source of a function, and of those that it calls, as a module that is loaded."""

    def __init__(
        self, name: str, source: str, names: Mapping[str, Any], owners: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Take `owners`: by function, the objects that its arguments are, such as the cell."""
        self.name, self.names, self.owners = name, names, owners
        self.module = load_source(f"flat_{name}", source, names)
        file = self.module.__file__
        assert file is not None
        self.file = file
        with open(file, encoding="utf-8") as stream:
            self.lines = stream.read().splitlines()
        self._first = len(self.lines) - len(source.splitlines())
        self._tree = ast.parse("\n".join(self.lines))
        self._functions = [n for n in ast.walk(self._tree) if isinstance(n, ast.FunctionDef)]
        self.functions = {n.name: n for n in self._tree.body if isinstance(n, ast.FunctionDef)}

    def function_at(self, line: int) -> ast.FunctionDef:
        """Return the function that holds a line."""
        return next(f for f in self._functions if f.lineno <= line <= (f.end_lineno or f.lineno))

    @property
    def function(self) -> Any:
        """Return the function itself."""
        return vars(self.module)[self.name]

    def first_line(self) -> int:
        """Return where its body begins."""
        return next(f for f in self._functions if f.name == self.name).body[0].lineno

    def targets(self, line: int) -> list[str]:
        """Return the names that the statement on this line assigns; none if it is not one line of assignment."""
        for node in ast.walk(self.function_at(line)):
            if isinstance(node, ast.Assign) and node.lineno == line == node.end_lineno and len(node.targets) == 1:
                target = node.targets[0]
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                if all(isinstance(n, ast.Name) for n in names):
                    return [n.id for n in names]  # type: ignore[attr-defined]
        return []

    def edited(self, replaced: Mapping[int, str], removable: Callable[[ast.FunctionDef, ast.stmt], bool]) -> Edited:
        """Put other statements on some lines, and drop those that are dead then, as far as they are `removable`."""
        lines = list(self.lines)
        for line, text in replaced.items():
            old = lines[line - 1]
            lines[line - 1] = old[: len(old) - len(old.lstrip())] + text
        tree = ast.parse("\n".join(lines))
        gone: set[int] = set()
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            gone |= without_dead(function, lambda s, f=function: s.lineno not in replaced and removable(f, s))  # type: ignore[misc]
        body = [node for node in tree.body if node.lineno > self._first]
        return Edited(Flat(self.name, ast.unparse(ast.Module(body, [])) + "\n", self.names, self.owners), gone)

    def inlined(self) -> Flat | None:
        """Put the functions that it calls in the places of their calls; None if none can be."""
        if (function := inlined(self.functions, self.name)) is None:
            return None
        others = [node for name, node in self.functions.items() if name != self.name]
        source = "\n\n\n".join(map(ast.unparse, [function, *others])) + "\n"
        return Flat(self.name, source, self.names, self.owners)

    def with_lines(self, replaced: Mapping[int, str]) -> Flat:
        """Put other statements on some lines; all keep their numbers."""
        lines = list(self.lines)
        for line, text in replaced.items():
            old = lines[line - 1]
            lines[line - 1] = old[: len(old) - len(old.lstrip())] + text
        return Flat(self.name, "\n".join(lines[self._first :]), self.names, self.owners)

    def guarded(self, texts: list[str], names: Mapping[str, Any]) -> Flat:
        """Put more lines in front of the first, and the names that they use."""
        first = self.first_line() - 1
        lines = [*self.lines[self._first : first], *texts, *self.lines[first:]]
        return Flat(self.name, "\n".join(lines), {**self.names, **names}, self.owners)

    def lines_of(self, function: str, end: int) -> range:
        """Return the lines of a function that stand before one."""
        return range(self.functions[function].lineno, end)

    def always_assigned(self, name: str, line: int) -> bool:
        """Tell whether a name has a value at a line on every path: an argument, or assigned outside of branches."""
        function = self.function_at(line)
        if any(isinstance(n, ast.arg) and n.arg == name for n in ast.walk(function)):
            return True
        before = [n for n in range(function.lineno, line) if name in self.targets(n)]
        return any(self.always_before(n, line) for n in before) or len(before) > 1

    def always_before(self, first: int, second: int) -> bool:
        """Tell whether the statement on the first line has been executed whenever that on the second is."""
        for node in ast.walk(self.function_at(first)):
            blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            for block in blocks if not isinstance(node, ast.FunctionDef) else []:
                lines = (
                    range(block[0].lineno, (block[-1].end_lineno or 0) + 1) if isinstance(block, list) and block else ()
                )
                if first in lines and second not in lines:
                    return False
        return first < second

    def is_read(self, line: int, names: list[str]) -> bool:
        """Tell whether a later statement of the same function reads one of the names."""
        return any(
            isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names and n.lineno > line
            for n in ast.walk(self.function_at(line))
        )

    def written_in_place(self) -> dict[int, str]:
        """Return, by line, the name in front of a `+=` and its like."""
        return {
            node.lineno: node.target.id
            for node in ast.walk(self._tree)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.lineno == node.end_lineno
        }


@dataclass(frozen=True)
class Edited:
    """Holds a source that was changed, and the lines of the one before whose statements are gone."""

    flat: Flat
    gone: set[int]


def flatten(cell: nn.Cell, absent: Mapping[str, bool]) -> Flat:
    """Flatten the source of the construct of a cell; `absent` says of arguments whether they are None."""
    methods = {name: method for name, method in helpers(cell).items() if name not in cell.__dict__}
    construct = inspect.unwrap(type(cell).construct)
    made = simplified(construct, methods, cell=cell, absent=absent)
    return Flat(construct.__name__, made.source, made.names, made.owners)


def flatten_function(function: FunctionType, absent: Mapping[str, bool], unread: Collection[int]) -> Flat:
    """Flatten the source of a function; of what it returns, the items in `unread` are None."""
    made = simplified(function, absent=absent, unread=unread)
    return Flat(function.__name__, made.source, made.names, made.owners)


def locator(flat: Flat) -> Any:
    """Return a function that says where in the flat source an operator is being executed, from the outermost
    function on.
    """

    def locate(recorder: Any) -> tuple[Frame, ...]:
        frames = []
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == flat.file:
                variables = {
                    name: recorder.node(value) for name, value in frame.f_locals.items() if isinstance(value, Tensor)
                }
                owner = next((name for name, value in frame.f_locals.items() if value is recorder.cell), "")
                frames.append(Frame(frame.f_code.co_name, frame.f_lineno, variables, owner))
            frame = frame.f_back  # type: ignore[assignment]
        return tuple(reversed(frames))

    return locate
