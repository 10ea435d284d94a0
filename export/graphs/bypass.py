"""Takes the activation off the construct of a cell: what a linear layer gives before that is applied."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from typing import Any

from mindspore import nn
from ms_ascend_ops.export.engines.generated import load_source

__all__ = ["bypassing", "name_without"]


def name_without(activation: str) -> str:
    """Return what the method is called that does all of a cell but its activation."""
    return f"without_{activation}"


def bypassing(cell: nn.Cell, activation: str) -> Callable[..., Any] | None:
    """Return the construct of a cell in which the call of a sub-cell gives its argument.

    None without exactly one such.
    """
    kind: Any = type(cell)
    return _bypassing(kind, activation)


@cache
def _bypassing(kind: Any, activation: str) -> Callable[..., Any] | None:
    construct = inspect.unwrap(kind.construct)
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(construct)))
    except (OSError, SyntaxError):
        return None
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef) or construct.__closure__:
        return None
    edit = _Bypass(activation)
    edit.visit(function)
    if edit.count != 1:
        return None
    function.name, function.decorator_list, function.returns = name_without(activation), [], None
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    names = vars(sys.modules[construct.__module__])
    made = load_source(kind.__name__, f"{ast.unparse(ast.fix_missing_locations(tree))}\n", names)
    return vars(made)[function.name]  # type: ignore[no-any-return]


class _Bypass(ast.NodeTransformer):
    """Takes `self.NAME(x)` for `x`."""

    def __init__(self, name: str) -> None:
        self.name, self.count = name, 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        target = node.func
        if not (isinstance(target, ast.Attribute) and target.attr == self.name and len(node.args) == 1):
            return node
        if not (isinstance(target.value, ast.Name) and target.value.id == "self") or node.keywords:
            return node
        self.count += 1
        return node.args[0]
