"""Read what lies between the two products of an attention: factors, masks and a softmax, in equivalent forms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from ms_ascend_ops.export.matching.expr import Expr, number
from ms_ascend_ops.export.matching.rows import Skip
from numpy.typing import NDArray

__all__ = ["HALF", "Scores", "factor", "known_mask", "mask_kind", "probabilities"]


HALF = ("float16", "bfloat16")

# A number that takes the place of a score hides the key from here on: exp(-1e4 - a score) is 0 in float32. So does one
# that is added to a score, unless scores are thousands apart, which no network means.
_HIDES = -1e4


def factor(product: Expr) -> tuple[Expr, float] | None:
    """Return what is multiplied by a known number, and that."""
    one, other = product.inputs
    value = _known(other)
    return None if value is None else (one, value)


def _known(expr: Expr) -> float | None:
    """Return the value of a known number, also of one that is converted."""
    while expr.op == "cast":
        expr = expr.inputs[0]
    value = number(expr)
    if value is None and expr.op == "constant" and isinstance(expr.attributes["value"], int):
        return float(expr.attributes["value"])
    return value


@dataclass(frozen=True)
class Scores:
    """Hold what lies between the two products: the first one, its factor, the mask, and the values on the way."""

    product: Expr
    scale: float = 1.0
    mask: Expr | None = None
    hidden: bool | None = None  # of a mask of bools: whether True hides
    negative: bool = False  # the mask is subtracted
    at_mask: Expr | None = None  # the scores that the mask meets
    passed: tuple[Expr, ...] = field(default=())  # reshapes of the scores and of the probabilities


def _scores(  # noqa: PLR0912
    expr: Expr, scale: float = 1.0, passed: tuple[Expr, ...] = ()
) -> Iterator[Scores | Skip]:
    """Yield every reading of what a softmax takes as scaled and masked scores."""
    if expr.op == "matmul":
        yield Scores(expr, scale, passed=passed)
    elif expr.op == "cast" and expr.inputs[0].dtype in HALF:
        yield from _scores(expr.inputs[0], scale, passed)
    elif expr.op == "reshape":
        yield from _scores(expr.inputs[0], scale, (*passed, expr))
    elif expr.op == "mul" and (scaled := factor(expr)) is not None:
        yield from _scores(scaled[0], scale * scaled[1], passed)
    elif expr.op == "mul":
        if any(isinstance(found, Scores) for inner in expr.inputs for found in _scores(inner)):
            yield Skip("its scores are multiplied by a tensor")
    elif expr.op == "sub" and _is_largest(expr.inputs[1], expr.inputs[0]):
        yield from _scores(expr.inputs[0], scale, passed)  # a softmax is the same without it
    elif expr.op in ("add", "sub") and scale == 1.0:
        negative = expr.op == "sub"
        for inner, mask in (expr.inputs,) if negative else (expr.inputs, expr.inputs[::-1]):
            for found in _scores(inner, 1.0, passed):
                yield _masked(found, inner, mask, None, negative=negative)
    elif expr.op == "select" and scale > 0:
        condition, *values = expr.inputs
        for (inner, fill), hidden in ((values, False), (values[::-1], True)):
            value = _known(fill)
            for found in _scores(inner, scale, passed) if value is not None else ():
                if value is not None and value * scale > _HIDES:
                    yield Skip(f"hidden scores become {value * scale:g}, which does not hide them")
                else:
                    yield _masked(found, inner, condition, hidden)


def _is_largest(expr: Expr, of: Expr) -> bool:
    """Tell whether an expression is the largest value of each row of another one."""
    return expr.op == "max" and expr.inputs[0] is of and expr.attributes == {"axis": -1, "keep_dims": True}


def _masked(
    found: Scores | Skip, at: Expr, mask: Expr, hidden: bool | None, *, negative: bool = False
) -> Scores | Skip:
    if isinstance(found, Skip):
        return found
    if found.mask is not None:
        return Skip("its scores have two masks, and the operator takes one")
    return replace(found, mask=mask, hidden=hidden, negative=negative, at_mask=at)


def probabilities(expr: Expr) -> Iterator[Scores | Skip]:
    """Yield every reading of an operand of the second product as probabilities of scores."""
    passed: tuple[Expr, ...] = ()
    while expr.op in ("cast", "reshape", "dropout"):
        if expr.op == "dropout":
            if any(isinstance(found, Scores) for found in probabilities(expr.inputs[0])):
                yield Skip("there is a dropout inside, which the operator has not")
            return
        if expr.op == "reshape":
            passed = (*passed, expr)
        expr = expr.inputs[0]
    if expr.op in ("softmax", "fused:softmax") and expr.attributes.get("axis") == -1:
        yield from _scores(expr.inputs[0], passed=passed)
    elif expr.op == "fused:scaled_masked_softmax":
        scores, mask = expr.inputs
        for found in _scores(scores, expr.attributes["scale"], passed):
            yield _masked(found, scores, mask, None)


def known_mask(mask: Expr, hidden: bool | None) -> str:
    """Tell whether a constant mask hides no key ("all"), or those behind each query ("causal"); nothing: neither.

    The operator leaves out keys that are hidden by position; those that a mask hides it multiplies nevertheless.
    """
    while mask.op in ("cast", "expand_dims", "reshape"):
        inner = mask.inputs[0]
        if mask.shape is None or inner.shape is None or mask.shape[-2:] != inner.shape[-2:]:
            return ""
        mask = inner
    values = mask.attributes.get("value")
    return mask_kind(values, hidden) if isinstance(values, np.ndarray) else ""


def mask_kind(values: NDArray[np.generic], hidden: bool | None, most: float = _HIDES) -> str:
    """Tell whether a mask hides no key ("all"), or those behind each query ("causal"); nothing: neither.

    Args:
        values: of the mask, (..., queries, keys).
        hidden: what bools are where a key is hidden; None: the mask is added to scores.
        most: an added number up to this one hides a key.
    """
    if values.ndim < 2 or values.size == 0:
        return ""
    if hidden is None:
        added = values.astype(np.float32)
        if not ((added == 0) | (added <= most)).all():
            return ""
        seen = added == 0
    else:
        seen = values.astype(bool) != hidden
    if seen.all():
        return "all"
    queries, keys = values.shape[-2:]
    return "causal" if queries <= keys and (seen == np.tri(queries, keys, keys - queries, dtype=bool)).all() else ""
