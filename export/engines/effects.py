"""Tell whether a statement of a construct only gives a value: then it may go where nobody reads that.

Layers, primitives and functions of MindSpore have no effect but for those that write, print, communicate or draw random
numbers. What a user wrote is read as source, with everything that it calls.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Collection, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.export.graphs.probe import sub_cells

__all__ = ["Effects"]

# Names of functions that write, print, communicate, or advance a random generator. In evaluation a dropout returns its
# input; in training, places with one stay.
_EFFECTS = re.compile(
    r"(_$|^(inplace|assign|scatter_(?!nd)|scatter[A-Z]|set_|print|rand|normal($|_)|uniform|multinomial|bernoulli|gamma$|poisson"
    r"|laplace|standard_?(normal|laplace)|shuffle|choice|all_?(reduce|gather|to_?all)|reduce_?scatter|send|recv|receive"
    r"|barrier|manual_seed|seed|push|pull|update_?cache|kv_?cache|batchnorm|batch_norm|syncbatchnorm|trainonestep|custom$"
    r"|adam|sgd|momentum|apply[A-Z]|register|hook|save|load_))",
    re.IGNORECASE,
)
_FLAGS = ("side_effect_mem", "side_effect_io", "side_effect_hidden")
_LIBRARIES = ("mindspore", "numpy", "math", "functools", "operator", "ms_ascend_ops")
_BUILTINS = frozenset(
    (abs, bool, dict, divmod, enumerate, float, getattr, hasattr, int, isinstance, len, list, max, min, pow, range,
     round, slice, sorted, str, sum, tuple, type, zip)
)  # fmt: skip
_HOOKS = ("_forward_pre_hook", "_forward_hook", "_backward_pre_hook", "_backward_hook")
_PURE = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.Return,
    ast.If,
    ast.For,
    ast.Expr,
    ast.Pass,
    ast.Raise,
    ast.Assert,
)
_METHODS = frozenset(name for name in dir(Tensor) if not name.startswith("__")) | {"items", "keys", "values", "get"}
_MISSING = object()


class Effects:
    """Asks of the statements of a source; `owners` are, by function, the objects that its arguments are."""

    def __init__(
        self,
        names: Mapping[str, Any],
        functions: Mapping[str, ast.FunctionDef],
        owners: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._names, self._functions, self._owners = names, functions, owners
        self._known: dict[Any, bool] = {}

    def pure(self, function: ast.FunctionDef, statement: ast.stmt) -> bool:
        """Tell whether a statement of a function of the source does nothing but assign names."""
        return _Source(self, function, self._names, self._owners.get(function.name, {})).statement(statement)

    def calls_nothing_else(self, value: Any) -> bool:
        """Tell whether a call of a value, and what that calls, has no effect."""
        key = id(value) if not isinstance(value, MethodType) else (id(value.__self__), value.__func__)
        if key not in self._known:
            self._known[key] = True  # of a recursion, what is around it tells
            self._known[key] = self._judged(value)
        return self._known[key]

    def defined(self, name: str) -> bool | None:
        """Tell whether a call of a function of the source has no effect; None if there is none of this name."""
        if name not in self._functions:
            return None
        if name not in self._known:
            self._known[name] = True
            function = self._functions[name]
            source = _Source(self, function, self._names, self._owners.get(name, {}))
            self._known[name] = source.whole()
        return self._known[name]

    def _judged(self, value: Any) -> bool:
        if isinstance(value, nn.Cell):
            return self._cell_is_pure(value)
        if isinstance(value, ms.ops.Primitive):
            return not any(value.attrs.get(flag) for flag in _FLAGS) and not _EFFECTS.search(value.name)
        module = (getattr(value, "__module__", None) or "").partition(".")[0]
        name = getattr(value, "__name__", "")
        if isinstance(value, (FunctionType, MethodType)) and module not in _LIBRARIES:
            owner = value.__self__ if isinstance(value, MethodType) else None
            return self._function_is_pure(inspect.unwrap(value), owner)
        if isinstance(value, (type, FunctionType, BuiltinFunctionType, MethodType)) or callable(value):
            library = module in _LIBRARIES and ".communication" not in (getattr(value, "__module__", None) or "")
            return (library and bool(name) and not _EFFECTS.search(name)) or _is_pure_builtin(value)
        return False

    def _cell_is_pure(self, cell: nn.Cell) -> bool:
        if any(getattr(cell, name, None) for name in _HOOKS):
            return False
        if not all(self.calls_nothing_else(child) for child in sub_cells(cell).values()):
            return False
        kind: Any = type(cell)
        if kind.__module__.partition(".")[0] in ("mindspore", "ms_ascend_ops"):
            return not _EFFECTS.search(kind.__name__)
        return self._function_is_pure(inspect.unwrap(kind.construct), cell)

    def _function_is_pure(self, function: Any, owner: Any) -> bool:
        function = getattr(function, "__func__", function)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
        except (OSError, SyntaxError, TypeError, IndexError):
            return False
        if not isinstance(tree, ast.FunctionDef) or function.__closure__:
            return False
        first = [a.arg for a in (*tree.args.posonlyargs, *tree.args.args)][:1]
        owners = dict.fromkeys(first, owner) if owner is not None else {}
        return _Source(self, tree, function.__globals__, owners).whole()


def _is_pure_builtin(value: Any) -> bool:
    return any(value is known for known in _BUILTINS)


class _Source:
    """Describes one function as source: what its names stand for, and whether its statements have effects."""

    def __init__(
        self, effects: Effects, function: ast.FunctionDef, names: Mapping[str, Any], owners: Mapping[str, Any]
    ) -> None:
        self._effects, self._function, self._names = effects, function, names
        stored = [n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        self._arguments = arguments = {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
        self._local = {*stored, *arguments}
        self._owners = {name: owner for name, owner in owners.items() if name in arguments and name not in stored}
        once = {name for name in stored if stored.count(name) == 1 and name not in arguments}
        self._values = {
            n.targets[0].id: n.value
            for n in ast.walk(function)
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and n.targets[0].id in once
        }

    def whole(self) -> bool:
        """Tell whether a call of the function has no effect."""
        return all(
            self._allowed(node, self._arguments)
            for statement in self._function.body
            for node in ast.walk(statement)
            if isinstance(node, (ast.stmt, ast.expr))
        )

    def statement(self, statement: ast.stmt) -> bool:
        """Tell whether a simple statement does nothing but give names a value."""
        return isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)) and all(
            self._allowed(node, ()) for node in ast.walk(statement) if isinstance(node, (ast.stmt, ast.expr))
        )

    def _allowed(self, node: ast.AST, arguments: Collection[str]) -> bool:
        if isinstance(node, ast.stmt):
            # `x += y` of an argument may change what the caller has.
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id in arguments:
                return False
            return isinstance(node, _PURE)
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            return isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Call):
            return self._call(node.func)
        return not isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr))

    def _call(self, callee: ast.expr) -> bool:
        value = self._value(callee)
        if value is not _MISSING:
            return self._effects.calls_nothing_else(value)
        if isinstance(callee, ast.Name):
            if callee.id not in self._local:
                return bool(self._effects.defined(callee.id))
            made = self._values.get(callee.id)  # a layer or primitive that was made a line before
            return isinstance(made, ast.Call) and self._makes_pure(self._value(made.func))
        # A method of a value that the function has is one of a tensor: nothing else has it there.
        known = isinstance(callee, ast.Attribute) and callee.attr in _METHODS
        return known and not _EFFECTS.search(callee.attr)  # type: ignore[attr-defined]

    def _makes_pure(self, value: Any) -> bool:
        primitive = isinstance(value, type) and issubclass(value, (nn.Cell, ms.ops.Primitive))
        return primitive and value.__module__.startswith("mindspore.") and not _EFFECTS.search(value.__name__)

    def _value(self, node: ast.expr) -> Any:
        """Return what an expression stands for, as far as that is known before it runs."""
        if isinstance(node, ast.Name):
            if node.id in self._owners:
                return self._owners[node.id]
            if node.id in self._local:
                made = self._values.get(node.id)
                return self._value(made) if isinstance(made, (ast.Attribute, ast.Name)) else _MISSING
            return self._names.get(node.id, getattr(builtins, node.id, _MISSING))
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            if owner is _MISSING or isinstance(owner, Tensor):
                return _MISSING
            return getattr(owner, node.attr, _MISSING)
        return _MISSING
