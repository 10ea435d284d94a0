"""Find statements of a function that nobody needs any more: liveness of names, backwards through its control flow."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

__all__ = ["without_dead"]

_Removable = Callable[[ast.stmt], bool]


def without_dead(function: ast.FunctionDef, removable: _Removable) -> set[int]:
    """Take dead statements out of a function, in place; returns the lines that they were on.

    A statement is dead if nothing reads what it assigns, on any path, and `removable` says that it does nothing else.
    """
    if any(isinstance(n, (ast.Global, ast.Nonlocal)) for n in ast.walk(function)):
        return set()
    gone: set[int] = set()
    while True:
        search = _Liveness(removable)
        search.block(function.body, set())
        search = _Liveness(removable, search.heads)
        search.block(function.body, set())
        if not search.dead:
            return gone
        gone |= {statement.lineno for statement in search.dead}
        _Removal({id(statement) for statement in search.dead}).visit(function)


class _Liveness:
    """Walks once from the end of a function to its beginning; `heads`: names that are read in the loops, by loop."""

    def __init__(self, removable: _Removable, heads: dict[int, set[str]] | None = None) -> None:
        self.removable, self.known = removable, heads
        self.heads: dict[int, set[str]] = heads or {}
        self.dead: list[ast.stmt] = []
        self._loops: list[tuple[set[str], set[str]]] = []  # names that live behind a loop, and at its head

    def block(self, statements: Sequence[ast.stmt], live: set[str]) -> set[str]:
        """Return the names that live in front of a block, from those that live behind it."""
        for statement in reversed(statements):
            live = self._before(statement, live)
        return live

    def _before(self, statement: ast.stmt, live: set[str]) -> set[str]:
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)):
            return self._simple(statement, live)
        if isinstance(statement, (ast.Return, ast.Raise)):
            return _read(statement)
        if isinstance(statement, (ast.Break, ast.Continue)):
            behind, head = self._loops[-1]
            return set(behind if isinstance(statement, ast.Break) else head)
        if isinstance(statement, ast.If):
            branches = self.block(statement.body, live) | self.block(statement.orelse, live)
            return _read(statement.test) | branches
        if isinstance(statement, (ast.For, ast.While)):
            return self._loop(statement, live)
        # Other statements may be left anywhere, or not be entered: what they read lives, and nothing in them is
        # removed.
        return live | _read(statement)

    def _simple(self, statement: ast.Assign | ast.AnnAssign | ast.Expr, live: set[str]) -> set[str]:
        assigned = _assigned(statement)
        if assigned is not None and not assigned & live and self.known is not None and self.removable(statement):
            self.dead.append(statement)
            return live
        return live - (assigned or set()) | _read(statement)

    def _loop(self, loop: ast.For | ast.While, live: set[str]) -> set[str]:
        """Visit a loop: anything that an iteration reads may have been assigned by the one before."""
        behind = self.block(loop.orelse, live)
        first = _read(loop.test if isinstance(loop, ast.While) else loop.iter)
        head = self.heads.get(id(loop), set()) | behind | first
        while True:
            self._loops.append((live, head))
            again = self.block(loop.body, head) | head
            self._loops.pop()
            if again == head or self.known is not None:
                break
            head = again
        self.heads[id(loop)] = head
        return head


def _assigned(statement: ast.stmt) -> set[str] | None:
    """Return the names that a statement gives a value; None if it writes to anything else, too."""
    if isinstance(statement, ast.Expr):
        return set()
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names: set[str] = set()
    for target in targets:
        for item in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            if not isinstance(item, ast.Name):
                return None
            names.add(item.id)
    return names


def _read(node: ast.AST) -> set[str]:
    """Return the names that are read; `x += 1` reads x, too, and so does an assignment to a part of x."""
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Load, ast.Del))}
    return read | {
        n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }


class _Removal(ast.NodeTransformer):
    def __init__(self, dead: set[int]) -> None:
        self.dead = dead

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                kept = [self.visit(statement) for statement in block if id(statement) not in self.dead]
                # A block of a function, a branch or a loop must not be empty.
                setattr(
                    node, name, kept or ([ast.copy_location(ast.Pass(), block[0])] if block and name == "body" else [])
                )
        return node
