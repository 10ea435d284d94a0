"""Brings sums, products and quotients into one form, and what is written with them: signs, roots, sigmoid, softmax."""

from __future__ import annotations

from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.matching.expr import Expr, known_number, number

__all__ = ["simplified"]

_HALF = 0.5


def simplified(op: str, inputs: tuple[Expr, ...], node: Node | None) -> Expr:
    """Bring sums, products and quotients with known numbers last, and roots, sigmoid, softmax and signs into
    one form.
    """
    a, b = inputs
    if op in ("add", "mul") and number(a) is not None:
        a, b = b, a
    if op in ("add", "mul"):
        a, b = _vector(a, b), _vector(b, a)
    c = number(b)
    made: Expr | None = None
    if op == "mul":
        made = _product(a, b, c, node)
    elif op == "sub":
        made = _difference(a, b, c, node)
    elif op == "div":
        made = _quotient(a, b, c, node)
    elif op == "add":
        made = _sum(a, b, c, node)
    return made or Expr(op, (a, b), node=node)


def _vector(a: Expr, b: Expr) -> Expr:
    """Return a vector that was given axes of one element in front to meet `b`, without them."""
    inner = a.inputs[0] if a.op in ("reshape", "expand_dims") else a
    while inner.op == "expand_dims" and len(inner.shape or ()) > 1:
        inner = inner.inputs[0]
    if inner is a or not a.shape or not inner.shape or len(inner.shape) != 1 or len(b.shape or ()) < len(a.shape):
        return a
    return inner if a.shape == (1,) * (len(a.shape) - 1) + inner.shape else a


def _product(a: Expr, b: Expr, c: float | None, node: Node | None) -> Expr | None:
    if a is b:
        return Expr("square", (a,), node=node)
    if c == 1 and node is not None and (node.dtype, node.shape) == (a.dtype, a.shape):
        return a
    if c == -1:
        return Expr("neg", (a,), node=node)
    # (1 + tanh(x / 2)) / 2
    if c == _HALF and a.op == "add" and number(a.inputs[1]) == 1 and (x := _halved_tanh(a.inputs[0])) is not None:
        return Expr("sigmoid", (x,), node=node)
    return None


def _sum(a: Expr, b: Expr, c: float | None, node: Node | None) -> Expr | None:
    if c == _HALF and a.op == "mul" and number(a.inputs[1]) == _HALF and (x := _halved_tanh(a.inputs[0])) is not None:
        return Expr("sigmoid", (x,), node=node)
    for one, other in ((a, b), (b, a)):
        if c is None and (positive := _negated(other)) is not None:
            return Expr("sub", (one, positive), node=node)
        # y + y * w: a weight that is stored as the difference from one
        if other.op == "mul" and one in other.inputs and one.node is not None:
            weight = other.inputs[other.inputs[0] is one]
            if len(weight.shape or ()) == 1:
                return Expr("mul", (one, Expr("add", (weight, known_number(1.0)))), node=node)
    return None


def _difference(a: Expr, b: Expr, c: float | None, node: Node | None) -> Expr | None:
    if c is not None:
        return Expr("add", (a, known_number(-c)), node=node)
    if number(a) == 0:
        return Expr("neg", (b,), node=node)
    positive = _negated(b)
    return None if positive is None else Expr("add", (a, positive), node=node)


def _quotient(a: Expr, b: Expr, c: float | None, node: Node | None) -> Expr | None:
    if c is not None and c != 0:
        return Expr("mul", (a, known_number(1 / c)), node=node)
    inverse: tuple[str, tuple[Expr, ...]] | None = None
    if b.op == "sqrt":
        inverse = "rsqrt", b.inputs
    elif (x := _of_sigmoid(b)) is not None:
        inverse = "sigmoid", (x,)
    if inverse is not None:
        made = Expr(*inverse, node=node if number(a) == 1 else None)
        return made if number(a) == 1 else Expr("mul", (a, made), node=node)
    if number(a) == 1:
        return Expr("reciprocal", (b,), node=node)
    # exp(x) / sum(exp(x)), where the maximum of x may be subtracted
    if a.op == "exp" and b.op == "sum" and b.inputs[0] is a and b.attributes["keep_dims"]:
        x, axis = a.inputs[0], b.attributes["axis"]
        if x.op == "sub" and (most := x.inputs[1]).op == "max" and most.inputs[0] is x.inputs[0]:
            same = most.attributes == {"axis": axis, "keep_dims": True}
            return Expr("softmax", (x.inputs[0],), {"axis": axis}, node) if same else None
    return None


def _of_sigmoid(expr: Expr) -> Expr | None:
    """Return x of 1 + exp(-x)."""
    if expr.op != "add" or number(expr.inputs[1]) != 1 or expr.inputs[0].op != "exp":
        return None
    inner = expr.inputs[0].inputs[0]
    return inner.inputs[0] if inner.op == "neg" else None


def _halved_tanh(expr: Expr) -> Expr | None:
    """Return x of tanh(x / 2)."""
    if expr.op != "tanh" or expr.inputs[0].op != "mul":
        return None
    x, factor = expr.inputs[0].inputs
    return x if number(factor) == _HALF else None


def _negated(expr: Expr) -> Expr | None:
    """Return what an expression is the negative of, where it is written so: -y, (-y) * z, and (y, -x) put together."""
    if expr.op == "neg":
        return expr.inputs[0]
    if expr.op == "mul":
        for one, other in (expr.inputs, expr.inputs[::-1]):
            positive = None if number(other) is not None else _negated(one)
            if positive is not None:
                return Expr("mul", (positive, other))
    if expr.op in ("concat", "stack") and [part.op == "neg" for part in expr.inputs] == [False, True]:
        first, second = expr.inputs
        return Expr(expr.op, (Expr("neg", (first,)), second.inputs[0]), expr.attributes)
    if expr.op == "reshape" and (positive := _negated(expr.inputs[0])) is not None:
        return Expr("reshape", (positive,), expr.attributes)
    return None
