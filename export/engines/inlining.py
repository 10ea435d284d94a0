"""Inlines functions of a flat source: what is computed in them has a name in the caller then."""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping, Sequence
from itertools import count

__all__ = ["inlined"]

_MOST = 1000  # statements of what is made


def inlined(functions: Mapping[str, ast.FunctionDef], name: str) -> ast.FunctionDef | None:
    """Return a copy of a function with its callees inlined, as far as they return at their end alone.

    None if there is no such call.
    """
    function = copy.deepcopy(functions[name])
    work = _Inlining(functions)
    function.body = work.block(function.body, {name})
    return ast.fix_missing_locations(function) if work.done else None


class _Inlining:
    def __init__(self, functions: Mapping[str, ast.FunctionDef]) -> None:
        self.functions, self.done = functions, 0
        self._numbers = count(1)
        self._size = 0

    def block(self, statements: Sequence[ast.stmt], around: set[str]) -> list[ast.stmt]:
        """Inline into the statements of a block; `around`: the functions in which it is."""
        made: list[ast.stmt] = []
        for statement in statements:
            for part in ("body", "orelse", "finalbody"):
                inner = getattr(statement, part, None)
                if inner and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                    setattr(statement, part, self.block(inner, around))
            body = self._body(statement, around)
            made += [statement] if body is None else body
            self._size += 1
        return made

    def _body(self, statement: ast.stmt, around: set[str]) -> list[ast.stmt] | None:
        """Return what a statement becomes that gives the result of a call names."""
        if not isinstance(statement, ast.Assign) or not isinstance(call := statement.value, ast.Call):
            return None
        called = call.func.id if isinstance(call.func, ast.Name) else ""
        function = self.functions.get(called)
        if function is None or called in around or self._size > _MOST or not _returns_at_its_end(function):
            return None
        given = _given(function.args, call)
        if given is None:
            return None
        prefix = f"in{next(self._numbers)}_"
        stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        instead: dict[str, ast.expr] = {n: ast.Name(prefix + n, ast.Load()) for n in stored}
        lines: list[ast.stmt] = []
        for name, value in given.items():
            if name in stored:
                lines.append(ast.Assign([ast.Name(prefix + name, ast.Store())], value))
            else:
                instead[name] = value
        body = [_Renamed(instead).visit(copy.deepcopy(inner)) for inner in function.body]
        last = body.pop()
        self.done += 1
        lines += self.block(body, around | {called})
        return [*lines, ast.Assign(statement.targets, last.value)]


def _returns_at_its_end(function: ast.FunctionDef) -> bool:
    refused = (
        ast.FunctionDef,
        ast.Lambda,
        ast.ListComp,
        ast.SetComp,
        ast.DictComp,
        ast.GeneratorExp,
        ast.Try,
        ast.With,
    )
    inside = [n for statement in function.body for n in ast.walk(statement)]
    returns = [n for n in inside if isinstance(n, ast.Return)]
    last = function.body[-1]
    ends = len(returns) == 1 and returns[0] is last and last.value is not None  # type: ignore[attr-defined]
    arguments = function.args
    return ends and not any(isinstance(n, refused) for n in inside) and not (arguments.vararg or arguments.kwarg)


def _given(arguments: ast.arguments, call: ast.Call) -> dict[str, ast.expr] | None:
    """Return the arguments of a call by their names; None where that is not known, or one is no name or constant."""
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    if len(call.args) > len(names) or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    defaults = dict(zip(reversed(names), reversed(arguments.defaults), strict=False))
    defaults |= {a.arg: d for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None}
    given = defaults | dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        given[keyword.arg] = keyword.value
    wanted = {*names, *(a.arg for a in arguments.kwonlyargs)}
    plain = all(_is_plain(value) for value in given.values())
    return given if plain and set(given) == wanted else None


def _is_plain(value: ast.expr) -> bool:
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, (ast.Name, ast.Constant))


class _Renamed(ast.NodeTransformer):
    def __init__(self, instead: Mapping[str, ast.expr]) -> None:
        self.instead = instead

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.instead.get(node.id)
        if value is None:
            return node
        if isinstance(value, ast.Name):
            return ast.Name(value.id, node.ctx)
        return copy.deepcopy(value)
