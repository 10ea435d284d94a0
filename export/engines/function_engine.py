"""Implements engine 2 for a function that a construct calls which is not taken apart itself: one with `**kwargs`, say.

The construct stays as it is written, in a module in which the name of the function stands for the edited one.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import FunctionType
from typing import Any

from ms_ascend_ops.export.engines.cell_engine import Analysis, Target, absent
from ms_ascend_ops.export.engines.flat import Flat, flatten_function
from ms_ascend_ops.export.engines.generated import guard, load_source, stock_of, with_construct
from ms_ascend_ops.export.engines.rewrite_engine import rewrite
from ms_ascend_ops.export.engines.statements import NotSimpleError, parsed
from ms_ascend_ops.export.graphs.specs import OWNER

__all__ = ["equivalence_key", "rewrite_function"]


def rewrite_function(target: Target, name: str, calls: Sequence[Mapping[str, Any]], *, drop: bool) -> Analysis:
    """Find statements to replace in `target.function`, which its construct calls `name`, and called like this.

    Eager attention returns its probabilities, too, which nobody reads as a rule. With `drop`, they become None where
    that makes it one operator.
    """
    best = _rewritten(target, name, calls)
    seen = target.stock(calls[0]) if drop else ""
    if not isinstance(seen, str) and isinstance(seen.values, tuple) and len(seen.values) > 1:
        unread = replace(target, unread=frozenset(range(1, len(seen.values))), watched={})
        other = _rewritten(unread, name, calls)
        if other.swap is not None and any(item.fused.op == _ATTENTION for item in other.swap.found):
            other.swap.unread = True
            other.swap.notes.append("its probabilities, which nobody has read, are None")
            return other
    return best


_ATTENTION = "flash_attention"


def _rewritten(target: Target, name: str, calls: Sequence[Mapping[str, Any]]) -> Analysis:
    function = target.function
    try:
        flat = flatten_function(function, absent(target, calls[0]), target.unread)
        construct = parsed(inspect.unwrap(type(target.cell).construct))
    except (NotSimpleError, SyntaxError, NameError):
        return Analysis()
    asked = _asked_for(construct.args) if target.unread else []
    result = rewrite(target, flat, calls, partial(_class, name=name, function=function, asked=asked))
    return Analysis() if isinstance(result, str) else result


def _asked_for(arguments: ast.arguments) -> list[str]:
    """Return conditions under which a construct need not return the probabilities, as far as its arguments tell."""
    names = [a.arg for a in (*arguments.args, *arguments.kwonlyargs) if a.arg == _ASKED]
    keywords = [arguments.kwarg.arg] if arguments.kwarg is not None and not names else []
    return [*(f"not {name}" for name in names), *(f"not {name}.get({_ASKED!r}, False)" for name in keywords)]


_ASKED = "output_attentions"  # what transformers calls it


def _class(
    stock: type, edited: Flat, conditions: Sequence[str], *, name: str, function: FunctionType, asked: Sequence[str]
) -> type:
    """Return a class whose construct calls the edited function; where a condition fails, that calls the one before.

    The construct itself is the one before where a condition in `asked` fails.
    """
    construct = inspect.unwrap(stock.construct)  # type: ignore[attr-defined]
    before = f"stock_{name}"
    lines = guard(conditions, before, inspect.signature(function))
    guarded = edited.guarded(lines, {before: construct.__globals__[name]})
    header, *body = ast.unparse(parsed(construct)).splitlines()
    source = "\n".join([header, *guard(asked, *stock_of(stock)), *body])
    names = {**construct.__globals__, name: guarded.function}
    made = vars(load_source(stock.__name__, f"{source}\n", names))[construct.__name__]
    return with_construct(stock, made, "\n".join([source, *guarded.lines]))


def equivalence_key(target: Target, name: str, calls: Sequence[Mapping[str, Any]]) -> Any:
    """Return a key that is equal where a function does the same: equal reads of the cell, and inputs that are alike."""
    function = target.function
    owners = {key for key, value in calls[0].items() if value is OWNER}
    try:
        tree = parsed(function)
    except NotSimpleError:
        return id(target.cell), name
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in owners]
    read = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.value in names]
    values = {n.attr: getattr(target.cell, n.attr, None) for n in read}
    plain = all(isinstance(value, (int, float, str, bool, type(None))) for value in values.values())
    # The cell may be passed on to another function.
    own = id(target.cell) if len(names) > len(read) or not plain else repr(values)
    return type(target.cell), name, own, repr(calls)
