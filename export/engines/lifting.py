"""Lifts functions in the body of a function out of it: what they take from around them becomes arguments."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

__all__ = ["lifted"]


def lifted(function: ast.FunctionDef, renamed: Callable[[str], str]) -> list[ast.FunctionDef]:
    """Take functions out of the body of another, in place, and return them under the names that `renamed` gives.

    Those are taken that are only called, and for which what they use of the names around them is assigned once, before.
    """
    taken = []
    for inner in [statement for statement in function.body if isinstance(statement, ast.FunctionDef)]:
        free = _free(function, inner)
        if free is None:
            continue
        name, old = renamed(inner.name), inner.name
        function.body = [s for s in function.body if s is not inner]
        _Calls(old, name, free).visit(function)
        inner.name = name
        inner.args.args[:0] = [ast.arg(variable) for variable in free]
        taken.append(inner)
    return taken


def _free(function: ast.FunctionDef, inner: ast.FunctionDef) -> list[str] | None:
    """Return the names of the function that the inner one uses, in order; None if it cannot be taken out."""
    arguments = inner.args
    if inner.decorator_list or arguments.posonlyargs or arguments.vararg or arguments.kwarg:
        return None
    if not all(isinstance(d, ast.Constant) for d in (*arguments.defaults, *arguments.kw_defaults) if d is not None):
        return None
    forbidden = (ast.Nonlocal, ast.Global, ast.Yield, ast.YieldFrom, ast.FunctionDef, ast.Lambda, ast.ClassDef)
    if any(isinstance(n, forbidden) for statement in inner.body for n in ast.walk(statement)):
        return None
    inside = {id(n) for n in ast.walk(inner)}
    called = {id(n.func) for n in ast.walk(function) if isinstance(n, ast.Call)}
    uses = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == inner.name]
    if any(id(n) in inside or id(n) not in called for n in uses):
        return None
    own = {a.arg for a in (*arguments.args, *arguments.kwonlyargs)} | set(_stored(inner.body))
    loaded = [n.id for s in inner.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    outer = [s for s in function.body if s is not inner]
    given = {n.arg for n in ast.walk(function.args) if isinstance(n, ast.arg)}
    stored = _stored(outer)
    free = [name for name in dict.fromkeys(loaded) if name not in own and (name in given or name in stored)]
    before = _stored([s for s in outer if s.lineno < inner.lineno and isinstance(s, ast.Assign)])
    for name in free:
        times = stored.count(name)
        if times > (name not in given) or (name not in given and name not in before):
            return None
    return free


def _stored(statements: Sequence[ast.stmt]) -> list[str]:
    return [
        n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    ]


class _Calls(ast.NodeTransformer):
    """Calls the function that was taken out, with what it had around it."""

    def __init__(self, old: str, new: str, free: Sequence[str]) -> None:
        self.old, self.new, self.free = old, new, free

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == self.old:
            node.func = ast.Name(self.new, ast.Load())
            node.args[:0] = [ast.Name(variable, ast.Load()) for variable in self.free]
        return node
