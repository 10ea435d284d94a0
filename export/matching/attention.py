"""Attention as networks write it: a softmax between two products of matrices.

    softmax(q @ k^T * scale + mask) @ v

What is between the products, and how the heads lie, is different everywhere: transposes, reshapes that join axes and
part them again, keys and values that are repeated, conversions to float32 around the softmax. So operands are followed
back to where they have four axes, and what is passed on the way is kept in mind. Elements stay in their order in a
reshape, so all that matters of one is how rows of scores lie in it:

    plain    (batch, heads, s, .)
    grouped  (batch, key heads, queries of all heads that share a key head, .)
    flat     (batch * heads, s, .)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from ms_ascend_ops.export.graphs.sizes import Size, Sizes, repeats_heads
from ms_ascend_ops.export.matching.expr import Expr, number
from ms_ascend_ops.export.matching.match import Any, OneOf, Op, Optional, Pattern
from ms_ascend_ops.export.matching.rows import Fused, Mask, Match, Row, Skip, typed
from numpy.typing import NDArray

from ms_ascend_ops import registry

__all__ = ["attention_rows", "mask_kind"]

_OP = "flash_attention"
_HEADS_BEHIND = (0, 2, 1, 3)  # (batch, s, heads, d) <-> (batch, heads, s, d)
_HALF = ("float16", "bfloat16")

# A number that takes the place of a score hides the key from here on: exp(-1e4 - a score) is 0 in float32. So does one
# that is added to a score, unless scores are thousands apart, which no network means.
_HIDES = -1e4

_Shape = tuple[Size, ...]


@dataclass(frozen=True)
class _Operand:
    """One operand of a product, followed back.

    `heads` is what has four axes, (batch, heads, length, features); `times` how often each of its heads stands in the
    product, `flat` whether the product has it with batch and heads joined.
    """

    heads: Expr
    scale: float = 1.0
    times: int = 1
    flat: bool = False
    grouped: bool = False
    behind: bool = False  # the heads are the third axis: (batch, length, heads, features)


class _Place:
    """A product that may be the second one of an attention, and what leads to it."""

    def __init__(self, m: Match) -> None:
        self.m = m
        self.product = m["product"]
        self.result = m["result"] if "result" in m else m["product"]

    @cached_property
    def sizes(self) -> Sizes:
        return self.m.sizes()

    def shape(self, expr: Expr) -> _Shape:
        """The sizes of a value; none, if they are not known."""
        shape = self.sizes.shape(expr.node) if expr.node is not None else None
        return shape or ()

    def same(self, one: Size, other: Size) -> bool:
        return bool(self.sizes.same([one], [other]))

    # ---- operands

    def operands(self, expr: Expr, *, turned: bool, scaled: bool) -> Iterator[_Operand]:
        """Every point to which an operand of a product can be followed back, the one that is furthest back first.

        `turned`: its last two axes are to be swapped. `scaled`: factors are part of it.
        """
        points: list[_Operand] = []
        at = _Operand(expr)
        while True:
            if not turned and len(self.shape(at.heads)) == 4:
                points.append(at)
            step = self._step(at, turned, scaled)
            if step is None:
                break
            at, turned = step
        yield from reversed(points)

    def _step(  # noqa: PLR0911, PLR0912
        self, at: _Operand, turned: bool, scaled: bool
    ) -> tuple[_Operand, bool] | None:
        expr = at.heads
        inner = expr.inputs[0] if expr.inputs else None
        if inner is None:
            return None
        if expr.op == "cast" and expr.dtype == "float32" and inner.dtype in _HALF:
            return replace(at, heads=inner), turned
        if expr.op == "mul" and scaled and (factor := _factor(expr)) is not None:
            return replace(at, heads=factor[0], scale=at.scale * factor[1]), turned
        if expr.op == "transpose" and not at.behind:
            order = expr.attributes["order"]
            if turned and order in ((0, 1, 3, 2), (0, 2, 1)):
                return replace(at, heads=inner), False
            if turned and order == (0, 2, 3, 1):
                return replace(at, heads=inner, behind=True), False
            if not turned and order == _HEADS_BEHIND:
                return replace(at, heads=inner, behind=True), False
        if at.behind:
            return None
        if (shared := self._repeated(expr)) is not None and not turned and at.times == 1:
            return replace(at, heads=shared[0], times=shared[1]), False
        if expr.op == "reshape" and not at.flat and not at.grouped:
            before, after = self.shape(inner), self.shape(expr)
            if len(before) != 4:
                return None
            if len(after) == 3 and all(self.same(*pair) for pair in zip(before[2:], after[1:], strict=True)):
                return replace(at, heads=inner, flat=True), turned
            if not turned and len(after) == 4 and self._groups(before, after):
                return replace(at, heads=inner, grouped=True), turned
        return None

    def _groups(self, before: _Shape, after: _Shape) -> bool:
        """Whether heads are joined that share one."""
        heads, fewer = before[1], after[1]
        divides = isinstance(heads, int) and isinstance(fewer, int) and 0 < fewer < heads and heads % fewer == 0
        return divides and self.same(before[0], after[0]) and self.same(before[3], after[3])

    def _repeated(self, expr: Expr) -> tuple[Expr, int] | None:
        """Heads that a value holds several times, each time one behind the other, and how often."""
        if expr.op == "repeat" and expr.attributes["axis"] == -3 and isinstance(expr.attributes["count"], int):
            return expr.inputs[0], expr.attributes["count"]
        spread = expr.inputs[0] if expr.op == "reshape" else expr
        single = spread.inputs[0] if spread.op in ("broadcast", "tile") else spread
        if spread is expr or single is spread or single.op not in ("expand_dims", "reshape"):
            return None
        heads = single.inputs[0]
        shapes = [self.shape(e) for e in (heads, single, spread, expr)]
        return (heads, int(shapes[2][2])) if repeats_heads(self.sizes, *shapes) else None  # type: ignore[arg-type]


def _factor(product: Expr) -> tuple[Expr, float] | None:
    """What is multiplied by a known number, and that."""
    one, other = product.inputs
    value = _known(other)
    return None if value is None else (one, value)


def _known(expr: Expr) -> float | None:
    """A known number, also one that is converted."""
    while expr.op == "cast":
        expr = expr.inputs[0]
    value = number(expr)
    if value is None and expr.op == "constant" and isinstance(expr.attributes["value"], int):
        return float(expr.attributes["value"])
    return value


@dataclass(frozen=True)
class _Scores:
    """What lies between the two products: the first one, its factor, the mask, and the values on the way."""

    product: Expr
    scale: float = 1.0
    mask: Expr | None = None
    hidden: bool | None = None  # of a mask of bools: whether True hides
    at_mask: Expr | None = None  # the scores that the mask meets
    passed: tuple[Expr, ...] = field(default=())  # reshapes of the scores and of the probabilities


def _scores(expr: Expr, scale: float = 1.0, passed: tuple[Expr, ...] = ()) -> Iterator[_Scores | Skip]:
    """Every way to read what a softmax takes as scaled and masked scores."""
    if expr.op == "matmul":
        yield _Scores(expr, scale, passed=passed)
    elif expr.op == "cast" and expr.inputs[0].dtype in _HALF:
        yield from _scores(expr.inputs[0], scale, passed)
    elif expr.op == "reshape":
        yield from _scores(expr.inputs[0], scale, (*passed, expr))
    elif expr.op == "mul" and (factor := _factor(expr)) is not None:
        yield from _scores(factor[0], scale * factor[1], passed)
    elif expr.op == "add" and scale == 1.0:
        for inner, mask in (expr.inputs, expr.inputs[::-1]):
            for found in _scores(inner, 1.0, passed):
                yield _masked(found, inner, mask, None)
    elif expr.op == "select" and scale > 0:
        condition, *values = expr.inputs
        for (inner, fill), hidden in ((values, False), (values[::-1], True)):
            value = _known(fill)
            for found in _scores(inner, scale, passed) if value is not None else ():
                if value is not None and value * scale > _HIDES:
                    yield Skip(f"hidden scores become {value * scale:g}, which does not hide them")
                else:
                    yield _masked(found, inner, condition, hidden)


def _masked(found: _Scores | Skip, at: Expr, mask: Expr, hidden: bool | None) -> _Scores | Skip:
    if isinstance(found, Skip):
        return found
    if found.mask is not None:
        return Skip("its scores have two masks, and the operator takes one")
    return replace(found, mask=mask, hidden=hidden, at_mask=at)


def _probabilities(expr: Expr) -> Iterator[_Scores | Skip]:
    """Every way to read an operand of the second product as probabilities of scores."""
    passed: tuple[Expr, ...] = ()
    while expr.op in ("cast", "reshape", "dropout"):
        if expr.op == "dropout":
            if any(isinstance(found, _Scores) for found in _probabilities(expr.inputs[0])):
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


# ---- how rows of scores lie


@dataclass(frozen=True)
class _Sizes:
    """The sizes of an attention: batch, heads, heads of keys, queries, keys."""

    batch: Size
    heads: int
    shared: int
    queries: Size
    keys: Size
    rows: Size  # queries of all heads that share a head of keys


def _form(place: _Place, shape: Sequence[Size], sizes: _Sizes, width: Size) -> str:
    """How the rows lie in a value of this shape that has as many elements as all rows; nothing: in no known way.

    One size of a reshape follows from the others.
    """
    forms: dict[str, tuple[Size | None, ...]] = {
        "plain": (sizes.batch, sizes.heads, sizes.queries, width),
        "grouped": (sizes.batch, sizes.shared, sizes.rows, width),
        "flat": (None, sizes.queries, width),
    }
    for name, form in forms.items():
        if len(form) == len(shape):
            open_ones = sum(b is None or not place.same(a, b) for a, b in zip(shape, form, strict=True))
            if open_ones <= 1:
                return name
    return ""


def _build(*, behind: bool, shared: bool) -> Callable[[Match], Fused | Skip | None]:
    def build(m: Match) -> Fused | Skip | None:
        place = _Place(m)
        reason: Skip | None = None
        for found in _probabilities(place.product.inputs[0]):
            if isinstance(found, Skip):
                reason = reason or found
                continue
            outcome = _attention(place, found, behind=behind, shared=shared)
            if isinstance(outcome, Fused):
                return outcome
            reason = reason or outcome
        return reason

    return build


def _attention(place: _Place, scores: _Scores, *, behind: bool, shared: bool) -> Fused | Skip | None:
    """The operator for one reading of a place: with heads in front or behind, with keys before they are repeated."""
    first, second = scores.product, place.product
    if first.attributes["transpose_a"] or second.attributes["transpose_a"] or second.attributes["transpose_b"]:
        return None
    chosen: Fused | Skip | None = None
    for query in place.operands(first.inputs[0], turned=False, scaled=True):
        for key in place.operands(first.inputs[1], turned=not first.attributes["transpose_b"], scaled=True):
            for value in place.operands(second.inputs[1], turned=False, scaled=False):
                repeats = key.times > 1 or value.times > 1
                if {query.behind, key.behind, value.behind} == {behind} and (shared or not repeats):
                    outcome = _with_operands(place, scores, query, key, value)
                    if isinstance(outcome, Fused):
                        return outcome
                    chosen = chosen or outcome
    return chosen


def _with_operands(  # noqa: PLR0911
    place: _Place, scores: _Scores, query: _Operand, key: _Operand, value: _Operand
) -> Fused | Skip | None:
    shapes = [_heads_first(place.shape(o.heads), behind=o.behind) for o in (query, key, value)]
    if any(len(shape) != 4 for shape in shapes):
        return None
    (batch, heads, queries, d), (key_batch, shared, keys, _), (value_batch, value_heads, _, e) = shapes
    if not all(isinstance(size, int) and size > 0 for size in (heads, shared, value_heads, d, e)):
        return Skip("the sizes of its heads are not known")
    assert isinstance(heads, int)
    assert isinstance(shared, int)
    if shared != value_heads or heads % shared:
        return None
    if not place.same(batch, key_batch) or not place.same(batch, value_batch):
        return Skip("queries, keys and values are not known to have the same batch")
    rows = queries if heads == shared else heads // shared * queries if isinstance(queries, int) else None
    operand = place.shape(scores.product.inputs[0])
    sizes = _Sizes(batch, heads, shared, queries, keys, operand[-2] if rows is None and query.grouped else rows or -1)
    if not _fits(place, scores, sizes, (query, key, value), e):
        return None
    most = registry.op_spec(_OP).limits["head_size"]
    largest = max(size for size in (d, e) if isinstance(size, int))
    if largest > most:
        return Skip(f"its heads have {largest} elements, the operator takes {most} at most")
    return _fused(place, scores, sizes, (query, key, value))


def _heads_first(shape: _Shape, *, behind: bool) -> _Shape:
    return tuple(shape[axis] for axis in _HEADS_BEHIND) if behind and len(shape) == 4 else shape


def _fits(
    place: _Place, scores: _Scores, sizes: _Sizes, operands: tuple[_Operand, _Operand, _Operand], features: Size
) -> bool:
    """Whether operands, scores and result are those of one attention, in the way in which their rows lie."""
    query, key, value = operands
    heads, shared = sizes.heads, sizes.shared
    for product, operand, form in (
        (scores.product, key, "grouped" if query.grouped else "flat" if query.flat else "plain"),
        (place.product, value, _form(place, place.shape(place.product.inputs[0]), sizes, sizes.keys)),
    ):
        there = shared * operand.times
        fits = {
            # A head of keys for each head of queries, or one for all, over which the product broadcasts.
            "plain": not operand.flat and there in (heads, 1),
            "grouped": not operand.flat and operand.times == 1,
            "flat": operand.flat and there == heads,
        }
        if not fits.get(form) or operand.grouped or len(place.shape(product)) != (3 if form == "flat" else 4):
            return False
    if any(not _form(place, place.shape(e), sizes, sizes.keys) for e in scores.passed):
        return False
    result = place.result
    return _form(place, place.shape(result), sizes, features) == "plain" and len(place.shape(result)) == 4


def _fused(
    place: _Place, scores: _Scores, sizes: _Sizes, operands: tuple[_Operand, _Operand, _Operand]
) -> Fused | Skip | None:
    query, key, _ = operands
    inputs = [operand.heads for operand in operands]
    masks: dict[int, Mask] = {}
    constant: tuple[int, ...] = ()
    known = ""
    if scores.mask is not None:
        meets = _mask_meets(place, scores, sizes)
        if meets is not True:
            return meets or None
        known = _known_mask(scores.mask, scores.hidden)
    if scores.mask is not None and not known:
        inputs.append(scores.mask)
        masks = {3: Mask(hidden=scores.hidden)}
        constant = (3,) if scores.hidden is None else ()
    scale = typed(scores.scale * query.scale * key.scale)
    causal = known == "causal"
    attributes = {"scale": scale, "causal": causal, "window": 0, "layout": "BSND" if query.behind else "BNSD"}
    notes = [f"scale {scale:g}", str(attributes["layout"])]
    if sizes.shared < sizes.heads:
        notes.append(f"{sizes.heads // sizes.shared} heads share keys")
    if causal:
        notes.append("causal by its mask")
    note = ", ".join(notes) + ("; a row that is masked as a whole gives zeros" if masks else "")
    keywords = {"scale": scale, "layout": attributes["layout"]} | ({"causal": True} if causal else {})
    return Fused(
        _OP,
        tuple(inputs),
        {0: place.m.root},
        attributes,
        exact=False,
        note=note,
        keywords=keywords,
        constant=constant,
        masks=masks,
        dropout=True,
    )


def _known_mask(mask: Expr, hidden: bool | None) -> str:
    """Whether a mask is a constant that hides no key ("all"), or those behind each query ("causal"); nothing: neither.

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
    """Whether a mask hides no key ("all"), or those behind each query ("causal"); nothing: neither.

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


def _mask_meets(place: _Place, scores: _Scores, sizes: _Sizes) -> Skip | bool:
    """Whether the mask, with ones in front, is one of (batch, heads, s, t), or why it is not."""
    assert scores.mask is not None
    assert scores.at_mask is not None
    mask, shape = scores.mask, place.shape(scores.mask)
    if not shape:
        return False if mask.shape == () else Skip("the shape of its mask is not known")
    form = _form(place, place.shape(scores.at_mask), sizes, sizes.keys)
    per_key = all(size == 1 for size in shape[:-1][-3:])
    if len(shape) > 4 or not form or (form == "grouped" and not per_key):
        return False
    if form == "flat" and (len(shape) > 3 or (len(shape) == 3 and shape[0] != 1)):
        return Skip("its mask has an axis for batch and heads together")
    if (mask.dtype == "bool") is (scores.hidden is None):
        return False
    if not place.same(shape[-1], sizes.keys) and shape[-1] == 1:
        return Skip("its mask is the same for all keys")
    return True


def attention_rows() -> Iterator[Row]:
    """The rows of the table: with the heads behind the sequence where all have them there, otherwise in front.

    Where repeated heads are needed elsewhere, or what they are made of has no name, they are taken as they are.
    """
    product = Op("matmul", Any("probabilities"), Any("value"), name="product")
    result: Pattern = OneOf(Op("reshape", Optional("cast", product), name="result"), product)
    result = Optional("cast", result)
    behind = Op("transpose", result, order=_HEADS_BEHIND)
    yield Row("attention", _OP, behind, _build(behind=True, shared=True))
    yield Row("attention", _OP, result, _build(behind=False, shared=True))
    yield Row("attention", _OP, result, _build(behind=False, shared=False))
