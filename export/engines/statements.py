"""Simplifies functions of a user so that every statement does one thing: each part of an expression has a name."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import FunctionType, ModuleType
from typing import Any

from mindspore import Tensor, nn
from ms_ascend_ops.export.engines.lifting import lifted
from ms_ascend_ops.export.graphs.observe import is_of_a_user

__all__ = ["NotSimpleError", "Simplified", "parsed", "simplified"]


class NotSimpleError(Exception):
    """Refuses a function that has no such form, and says why."""


def parsed(function: FunctionType) -> ast.FunctionDef:
    """Return the statements of a function, without decorators and annotations, which may name anything."""
    if function.__closure__:
        raise NotSimpleError(f"{function.__name__} uses names of what is around it (a closure, or super())")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except (OSError, SyntaxError, TypeError) as error:
        raise NotSimpleError(f"the source of {function.__name__} is not there ({error})") from error
    if not isinstance(tree, ast.FunctionDef):
        raise NotSimpleError(f"{function.__name__} is no plain function")
    if any(
        isinstance(n, ast.Attribute) and n.attr.startswith("__") and not n.attr.endswith("__") for n in ast.walk(tree)
    ):
        raise NotSimpleError(f"{function.__name__} uses private names of its class")
    tree.decorator_list, tree.returns = [], None
    arguments = tree.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            argument.annotation = None
    return tree


@dataclass
class Simplified:
    """Holds the source of a function and of those that it calls.

    `names` are the other names of modules that it uses. `owners`: by function, the objects that its arguments are.
    """

    source: str
    names: dict[str, Any]
    owners: dict[str, dict[str, Any]]


def simplified(
    function: FunctionType,
    methods: Mapping[str, FunctionType] | None = None,
    *,
    cell: Any = None,
    absent: Mapping[str, bool] | None = None,
    unread: Iterable[int] = (),
) -> Simplified:
    """Return the source of a function and of those that it calls.

    The first is `function`; those that it calls get names of their own. `methods` are those of the `cell` that it is a
    method of, and become functions; so do those of objects that the cell holds, and functions in its body. `absent`
    says of arguments whether they are None: branches that ask for it are decided. Of what the function returns, the
    items in `unread` become None.
    """
    collected = _Collected(cell, methods or {})
    form = _Simple(absent or {}, frozenset(unread))
    tree = parsed(function)
    objects = {tree.args.args[0].arg: cell} if methods is not None else {}
    collected.add(tree, function, function.__name__, objects, form)
    source = "\n\n\n".join(map(ast.unparse, collected.functions)) + "\n"
    return Simplified(source, collected.names, collected.owners)


class _Collected:
    """Collects a function and those that it calls."""

    def __init__(self, cell: Any, methods: Mapping[str, FunctionType]) -> None:
        self.functions: list[ast.FunctionDef] = []
        self.names: dict[str, Any] = {}
        self.owners: dict[str, dict[str, Any]] = {}
        self.cell, self.methods = cell, methods
        self._known: dict[Any, str] = {}
        self._count = count(1)

    def add(
        self, tree: ast.FunctionDef, function: FunctionType, name: str, objects: dict[str, Any], form: _Simple
    ) -> None:
        """Take the source of a function under a new name; `objects`: the objects that its arguments are."""
        tree.name = name
        inner = lifted(tree, lambda inner: f"simple_{inner}_{next(self._count)}")
        local = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        local |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        used = _used(tree, function, local)
        # One module holds them all: a name must mean the same in each.
        if "fused" in used:  # what the operators are called here
            raise NotSimpleError(f"{function.__name__} uses a name `fused` of its own")
        if any(self.names.get(key, value) is not value for key, value in used.items()):
            raise NotSimpleError(f"{function.__name__} has other names in its module than those that call it")
        self.names.update(used)
        self.functions.append(tree)
        self.owners[name] = objects = {key: value for key, value in objects.items() if not _assigns(tree, key)}
        for one in inner:
            given = {a.arg for a in one.args.args}
            self.add(
                one, function, one.name, {k: v for k, v in objects.items() if k in given}, _Simple({}, frozenset())
            )
        _Calls(self, function, local, objects).visit(tree)
        tree.body = form.body(tree, {*local, *used, *(f.name for f in self.functions)})
        ast.fix_missing_locations(tree)

    def name_of(self, function: FunctionType, objects: Mapping[str, Any] | None = None) -> str:
        """Return the name that a called function has here; none if it stays as it is."""
        objects = dict(objects or {})
        key = function, tuple((name, id(value)) for name, value in objects.items())
        if key not in self._known:
            name = f"simple_{function.__name__.strip('_')}_{next(self._count)}"
            before = list(self.functions), dict(self.names), dict(self._known), dict(self.owners)
            self._known[key] = name
            try:
                self.add(parsed(function), function, name, objects, _Simple({}, frozenset()))
            except NotSimpleError:
                self.functions, self.names, self._known, self.owners = before
                self._known[key] = ""
        return self._known[key]


def _assigns(tree: ast.FunctionDef, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in ast.walk(tree))


def _used(tree: ast.FunctionDef, function: FunctionType, local: set[str]) -> dict[str, Any]:
    """Return the names of its module that a function uses."""
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - local
    return {name: function.__globals__[name] for name in names if name in function.__globals__}


class _Calls(ast.NodeTransformer):
    """Puts the new names of functions in the place of what called them: `f`, `module.f`, and `self.f(...)`."""

    def __init__(
        self, collected: _Collected, function: FunctionType, local: set[str], objects: Mapping[str, Any]
    ) -> None:
        self.collected, self.names, self.local, self.objects = collected, function.__globals__, local, objects

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._renamed(node, self._value(node)) if isinstance(node.ctx, ast.Load) else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        value = self._value(node)
        if is_of_a_user(value):
            return self._renamed(node, value)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if (found := self._method(node.func)) is not None:
            owner, function = found
            if name := self.collected.name_of(function, self._bound(function, owner, node)):
                node.func = ast.Name(name, ast.Load())
                node.args.insert(0, owner)
                node.args[1:] = [self.visit(argument) for argument in node.args[1:]]
                node.keywords = [self.visit(keyword) for keyword in node.keywords]
                return node
        self.generic_visit(node)
        return node

    def _method(self, callee: ast.expr) -> tuple[ast.expr, FunctionType] | None:
        """Return owner and function of a call of a method of the cell, or of an object that it holds."""
        if isinstance(callee, ast.Attribute) and (owner := self._object(callee.value)) is not None:
            if owner is self.collected.cell:
                method = self.collected.methods.get(callee.attr)
            else:
                method = _function_of(owner, callee.attr)
            if method is not None:
                return callee.value, method
        called = self._object(callee)
        function = None if called is None or called is self.collected.cell else _function_of(called, "__call__")
        return None if function is None else (callee, function)

    def _bound(self, function: FunctionType, owner: ast.expr, call: ast.Call) -> dict[str, Any]:
        """Return the objects among the arguments of a call, by the names that the function has for them."""
        names = list(inspect.signature(function).parameters)
        given = dict(zip(names, [owner, *call.args], strict=False))
        given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg in names}
        return {name: value for name, text in given.items() if (value := self._object(text)) is not None}

    def _object(self, node: ast.expr) -> Any:
        """Return the object that an expression is: an argument that is known, or an attribute of one.

        None of others.
        """
        if isinstance(node, ast.Name):
            return self.objects.get(node.id)
        if isinstance(node, ast.Attribute) and (owner := self._object(node.value)) is not None:
            return getattr(owner, node.attr, None)
        return None

    def _renamed(self, node: ast.expr, value: Any) -> ast.expr:
        name = self.collected.name_of(value) if is_of_a_user(value) else ""
        return ast.Name(name, ast.Load()) if name else node

    def _value(self, node: ast.expr) -> Any:
        """Return what a name of the module, or of a module that it has, stands for."""
        if isinstance(node, ast.Name):
            return None if node.id in self.local else self.names.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(owner := self._value(node.value), ModuleType):
            return getattr(owner, node.attr, None)
        return None


def _function_of(owner: Any, name: str) -> FunctionType | None:
    """Return a method of an object of a user's class that is no cell, as a function."""
    if isinstance(owner, (nn.Cell, Tensor, type)) or not is_of_a_user(function := getattr(type(owner), name, None)):
        return None
    return None if name in getattr(owner, "__dict__", {}) else function  # type: ignore[no-any-return]


class _Simple:
    """Writes statements with a name for each part of their expressions, in the order in which Python evaluates them."""

    def __init__(self, absent: Mapping[str, bool], unread: frozenset[int]) -> None:
        self._absent, self._unread = absent, unread
        self._names: Iterator[str] = iter(())
        self._lines: list[ast.stmt] = []

    def body(self, function: ast.FunctionDef, taken: set[str]) -> list[ast.stmt]:
        """Simplify the statements of a function; `taken` are names that mean something else there."""
        self._names = (name for number in count(1) if (name := f"t{number}") not in taken)
        assigned = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        self._absent = {name: value for name, value in self._absent.items() if name not in assigned}
        return self.block(function.body)

    def block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        made = [line for statement in statements for line in self._statement(statement)]
        return made or [ast.Pass()]

    def _statement(self, statement: ast.stmt) -> list[ast.stmt]:
        if isinstance(statement, ast.If) and (decided := self._decided(statement.test)) is not None:
            return [
                line for inner in (statement.body if decided else statement.orelse) for line in self._statement(inner)
            ]
        before, self._lines = self._lines, []
        changed = self._changed(statement)
        lines, self._lines = self._lines, before
        return [*lines, *([changed] if changed is not None else [])]

    def _changed(self, statement: ast.stmt) -> ast.stmt | None:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            return None  # a docstring
        if isinstance(statement, ast.AnnAssign):
            if statement.value is None:
                return None
            statement = ast.Assign([statement.target], statement.value)
        if isinstance(statement, ast.Return):
            statement.value = self._returned(statement.value)
        elif isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)):
            statement.value = self._parts(statement.value)
        # A condition, and what a loop goes over, stay as they are: they may be evaluated more than once, or not at all.
        for name in ("body", "orelse", "finalbody"):
            inner = getattr(statement, name, None)
            if inner and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                setattr(statement, name, self.block(inner))
        return statement

    def _decided(self, test: ast.expr) -> bool | None:
        """Return what a condition is known to be: one that asks whether an argument is None."""
        if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) > 1:
            return None
        absent = self._absent.get(test.left.id)
        if absent is None or not isinstance(test.comparators[0], ast.Constant) or test.comparators[0].value is not None:
            return None
        return {ast.Is: absent, ast.IsNot: not absent}.get(type(test.ops[0]))

    def _returned(self, value: ast.expr | None) -> ast.expr | None:
        if isinstance(value, ast.Tuple):
            starred = any(isinstance(item, ast.Starred) for item in value.elts)
            if self._unread and (starred or max(self._unread) >= len(value.elts)):
                raise NotSimpleError("not all that it returns stands in its source")
            for index in self._unread:
                value.elts[index] = ast.Constant(None)
            return self._parts(value)
        if self._unread:
            raise NotSimpleError("it returns no tuple")
        return value and self._named(value)

    def _named(self, value: ast.expr) -> ast.expr:
        """Return a name for a value, or the value where it needs none."""
        if isinstance(value, ast.Starred):
            value.value = self._named(value.value)
            return value
        if isinstance(value, (ast.Tuple, ast.List)):
            return self._parts(value)
        if isinstance(value, ast.Constant) or _is_path(value):
            return value
        if isinstance(value, ast.UnaryOp) and isinstance(value.operand, ast.Constant):
            return value
        value = self._parts(value)
        name = next(self._names)
        self._lines.append(ast.Assign([ast.Name(name, ast.Store())], value))
        return ast.Name(name, ast.Load())

    def _parts(self, value: ast.expr) -> ast.expr:
        """Name the parts of an expression. What evaluates a part of itself only sometimes stays whole."""
        if isinstance(value, ast.BinOp):
            value.left, value.right = self._named(value.left), self._named(value.right)
        elif isinstance(value, ast.UnaryOp):
            value.operand = self._named(value.operand)
        elif isinstance(value, (ast.Attribute, ast.Subscript)):
            value.value = self._named(value.value)
        elif isinstance(value, (ast.Tuple, ast.List)):
            value.elts = [self._named(item) for item in value.elts]
        elif isinstance(value, ast.Call):
            if isinstance(value.func, ast.Attribute):
                value.func.value = self._named(value.func.value)
            else:
                value.func = self._named(value.func)
            value.args = [self._named(argument) for argument in value.args]
            for keyword in value.keywords:
                keyword.value = self._named(keyword.value)
        return value


def _is_path(value: ast.expr) -> bool:
    """Return whether an expression is a name, or an attribute of one."""
    while isinstance(value, ast.Attribute):
        value = value.value
    return isinstance(value, ast.Name)
