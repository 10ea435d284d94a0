"""The source of a cell in which every statement does one thing, as `mindspore.rewrite` makes it, and edits of it."""

from __future__ import annotations

import ast
import contextlib
import os
import pickle
import sys
import textwrap
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mindspore import Tensor, nn
from mindspore.rewrite import SymbolTree
from mindspore.rewrite.symbol_tree import symbol_tree
from ms_ascend_ops.export.engines.generated import folder, load_source
from ms_ascend_ops.export.graphs.probe import detached, rebound, sub_cells

__all__ = ["Flat", "Frame", "flatten", "locator"]


@dataclass(frozen=True, eq=False)
class Frame:
    """One function on the way to an operator: the line in it, and what its variables were."""

    function: str
    line: int
    variables: dict[str, Any]  # nodes by name


class Flat:
    """The flat source, as a module that is loaded."""

    def __init__(self, cell: nn.Cell, source: str) -> None:
        with _unchanged_path():
            # mindspore.rewrite copies imports, but not the other names that the module of the cell defines.
            names = vars(sys.modules[type(cell).__module__])
            self.module = load_source(f"flat_{type(cell).__name__}", source, names)
        file = self.module.__file__
        assert file is not None
        self.file = file
        with open(file, encoding="utf-8") as stream:
            self.lines = stream.read().splitlines()
        # More than one such class where a cell holds another of its own kind: the outermost comes last.
        kinds = [k for k in vars(self.module).values() if isinstance(k, type) and type(cell) in k.__bases__]
        if not kinds:
            raise TypeError(f"it writes no class for {type(cell).__name__}")
        self.kind = kinds[-1]
        self._functions = self._spans()

    def _spans(self) -> list[ast.FunctionDef]:
        return [n for n in ast.walk(ast.parse("\n".join(self.lines))) if isinstance(n, ast.FunctionDef)]

    def function_at(self, line: int) -> ast.FunctionDef:
        """The function that holds a line."""
        return next(f for f in self._functions if f.lineno <= line <= (f.end_lineno or f.lineno))

    def copy(self, cell: nn.Cell) -> nn.Cell:
        """A cell of the flat class with the parameters and sub-cells of `cell`, which keeps its own lists of them."""
        source = detached(cell, cells=sub_cells(cell))
        made: nn.Cell = self.kind(source)
        made.__dict__.update(rebound(made.__dict__, source, made))
        return made

    @property
    def construct(self) -> Any:
        """The function of the cell's construct."""
        return vars(self.kind)["construct"]

    def first_line_of_construct(self) -> int:
        """Where the body of the cell's construct begins."""
        start = self.construct.__code__.co_firstlineno
        return next(f for f in self._functions if f.name == "construct" and f.lineno == start).body[0].lineno

    def targets(self, line: int) -> list[str]:
        """The names that the statement on this line assigns; none if it is not one line of assignment."""
        for node in ast.walk(self.function_at(line)):
            if isinstance(node, ast.Assign) and node.lineno == line == node.end_lineno and len(node.targets) == 1:
                target = node.targets[0]
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                if all(isinstance(n, ast.Name) for n in names):
                    return [n.id for n in names]  # type: ignore[attr-defined]
        return []

    def edited(self, cell: nn.Cell, replaced: dict[int, str], removable: set[int]) -> Flat:
        """With other statements on some lines, and without those of `removable` whose names are dead then."""
        lines = list(self.lines)
        for line, text in replaced.items():
            old = lines[line - 1]
            lines[line - 1] = old[: len(old) - len(old.lstrip())] + text
        changed = True
        while changed:
            changed = False
            for line in sorted(removable - set(replaced), reverse=True):
                names = self.targets(line)
                old = lines[line - 1]
                if old.strip() == "pass" or not names or self._read_in(lines, line, names, replaced):
                    continue
                lines[line - 1] = old[: len(old) - len(old.lstrip())] + "pass"  # the only one under an `if`, perhaps
                changed = True
        body = "\n".join(lines)
        return Flat(cell, body)

    def inserted(self, cell: nn.Cell, line: int, texts: list[str]) -> Flat:
        """With more lines in front of one."""
        return Flat(cell, "\n".join([*self.lines[: line - 1], *texts, *self.lines[line - 1 :]]))

    def always_before(self, first: int, second: int) -> bool:
        """Whether the statement on the first line has been executed whenever that on the second is."""
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
        """Whether a later statement of the same function reads one of the names."""
        return self._read_in(self.lines, line, names, ())

    def _read_in(self, lines: list[str], line: int, names: list[str], replaced: Collection[int]) -> bool:
        """Whether a later statement of the same function reads one of the names, before a new one assigns it."""
        span = self.function_at(line)
        last = span.end_lineno or span.lineno
        tree = ast.parse("\n".join(lines))
        function = next(f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) and f.lineno == span.lineno)
        ends = dict.fromkeys(names, last)
        for new in replaced:
            if line < new <= last:
                ends.update({name: min(new, ends[name]) for name in self.targets(new) if name in ends})
        return any(
            isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in names and line < n.lineno <= ends[n.id]
            for n in ast.walk(function)
        )


def flatten(cell: nn.Cell) -> Flat:
    """The flat source of a cell, without that of its sub-cells, which stay calls.

    Raises whatever `mindspore.rewrite` raises for a construct that it does not take.
    """
    alone = detached(cell, cells={name: _opaque(child) for name, child in sub_cells(cell).items()})
    here = os.getcwd()
    os.chdir(folder())  # it writes into the working directory
    try:
        with _unchanged_path(), _imports_once(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = SymbolTree.create(alone).get_code()
    finally:
        os.chdir(here)
    return Flat(cell, source)


class _Imports(symbol_tree.AstImportFinder):  # type: ignore[misc]
    """The imports of a file, which are statements: without a look into every expression."""

    def generic_visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
                self.visit(child)


@cache
def _imports_of(path: str) -> bytes:
    """The imports of a file, such that each user has statements of its own."""
    source = Path(path).read_text(encoding="utf-8")
    return pickle.dumps(_Imports(ast.parse(textwrap.dedent(source))).get_import_node())


def _save_imports_from_file(self: Any, file_path: str, belonging_ast: Any = None) -> None:
    """What `SymbolTree.save_imports_from_file` does, with each file read once."""
    self.save_file_path_to_sys(0, file_path, belonging_ast)
    nodes = (self._process_relative_import(node, file_path) for node in pickle.loads(_imports_of(file_path)))
    self._get_imports_list_of_ast(belonging_ast).extend(node for node in nodes if node)


@contextlib.contextmanager
def _imports_once() -> Iterator[None]:
    """`mindspore.rewrite` reads the file of each function that a construct calls, which takes it most of its time."""
    kind = symbol_tree.SymbolTree
    stock = kind.save_imports_from_file
    kind.save_imports_from_file = _save_imports_from_file
    try:
        yield
    finally:
        kind.save_imports_from_file = stock


def _opaque(child: nn.Cell) -> nn.Cell:
    """What `mindspore.rewrite` does not look into, in the place of a sub-cell."""
    if isinstance(child, nn.CellList):
        return nn.CellList([nn.Identity() for _ in child])
    return nn.Identity()


@contextlib.contextmanager
def _unchanged_path() -> Iterator[None]:
    """The generated source puts folders of MindSpore's own modules on the search path; that ends here."""
    path = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path


def locator(flat: Flat) -> Any:
    """A function that says where in the flat source an operator is being executed, from the outermost function on."""

    def locate(recorder: Any) -> tuple[Frame, ...]:
        frames = []
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename == flat.file:
                variables = {
                    name: recorder.node(value) for name, value in frame.f_locals.items() if isinstance(value, Tensor)
                }
                frames.append(Frame(frame.f_code.co_name, frame.f_lineno, variables))
            frame = frame.f_back  # type: ignore[assignment]
        return tuple(reversed(frames))

    return locate
