"""Defines the pattern language: a small algebra of expressions with names for what varies.

    x, epsilon = Any("x"), Number("epsilon")
    rstd = Op("rsqrt", Op("add", Op("mean", Op("square", x), keep_dims=True), epsilon))

A name that stands twice must stand for the same expression both times. Sums and products match either way round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any as Object

from ms_ascend_ops.export.matching.expr import Expr, number, same

__all__ = ["Any", "Bindings", "Near", "Number", "OneOf", "Op", "Optional", "Pattern", "cast", "matches", "roots"]

Bindings = Mapping[str, Expr]

_COMMUTATIVE = frozenset({"add", "mul"})


class Pattern(ABC):
    """A pattern says what an expression may look like."""

    @abstractmethod
    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        """Yield every reading of `expr` as this pattern, with what is bound already; each with the names bound then."""


def matches(pattern: Pattern, expr: Expr) -> Iterator[Bindings]:
    """Yield every reading of `expr` as `pattern`."""
    yield from pattern.match(expr, {})


def _bind(name: str, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
    if not name:
        yield bound
    elif name not in bound:
        yield {**bound, name: expr}
    elif same(bound[name], expr):
        yield bound


class Any(Pattern):
    """Matches any expression that is not a known number."""

    def __init__(self, name: str) -> None:
        self.name = name

    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        if number(expr) is None:
            yield from _bind(self.name, expr, bound)


class Number(Pattern):
    """Matches a known number."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        if number(expr) is not None:
            yield from _bind(self.name, expr, bound)


class Near(Pattern):
    """Matches a known number that is `value` to so many digits as people write: sqrt(2 / pi) may be 0.7978845."""

    def __init__(self, value: float, tolerance: float = 2e-6) -> None:
        self.value, self.tolerance = value, tolerance

    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        found = number(expr)
        if found is not None and abs(found - self.value) <= self.tolerance * abs(self.value):
            yield bound


class Op(Pattern):
    """Matches an operation. `where` gives values of its attributes, or tests of them; `name` binds the result."""

    def __init__(self, op: str, *inputs: Pattern, name: str = "", **where: Object) -> None:
        self.op, self.inputs, self.name, self.where = op, inputs, name, where

    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        if expr.op != self.op or len(expr.inputs) < len(self.inputs) or not self._admits(expr):
            return
        orders = [expr.inputs[: len(self.inputs)]]
        if self.op in _COMMUTATIVE and len(expr.inputs) == 2:
            orders.append(expr.inputs[::-1])
        for order in orders:
            for found in _all(self.inputs, order, bound):
                yield from _bind(self.name, expr, found)

    def _admits(self, expr: Expr) -> bool:
        def admits(wanted: Object, got: Object) -> bool:
            return bool(wanted(got)) if callable(wanted) else wanted == got

        return all(admits(wanted, expr.attributes.get(key)) for key, wanted in self.where.items())


def _all(patterns: tuple[Pattern, ...], exprs: tuple[Expr, ...], bound: Bindings) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for found in patterns[0].match(exprs[0], bound):
        yield from _all(patterns[1:], exprs[1:], found)


class OneOf(Pattern):
    """Matches any of several patterns, tried in their order."""

    def __init__(self, *choices: Pattern) -> None:
        self.choices = choices

    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        for choice in self.choices:
            yield from choice.match(expr, bound)


class Optional(Pattern):
    """Matches a pattern, or an operation of one input on it: a cast, say.

    `name` binds that operation where it is there.
    """

    def __init__(self, op: str, inner: Pattern, name: str = "") -> None:
        self.choices = (Op(op, inner, name=name), inner)

    def match(self, expr: Expr, bound: Bindings) -> Iterator[Bindings]:
        for choice in self.choices:
            yield from choice.match(expr, bound)


def cast(inner: Pattern, name: str = "") -> Pattern:
    """Return the pattern in another dtype or not."""
    return Optional("cast", inner, name)


def roots(pattern: Pattern) -> frozenset[str] | None:
    """Return the operations that an expression of this pattern can be; None if it can be any."""
    if isinstance(pattern, Op):
        return frozenset({pattern.op})
    if isinstance(pattern, (OneOf, Optional)):
        sets = [roots(choice) for choice in pattern.choices]
        return None if None in sets else frozenset().union(*(s for s in sets if s))
    return None
