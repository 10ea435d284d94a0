"""Recognises attention as networks write it: a softmax between two products of matrices.

    softmax(q @ k^T * scale + mask) @ v

What is between the products, and how the heads lie, is different everywhere: transposes, reshapes that join axes and
part them again, keys and values that are repeated, conversions to float32 around the softmax. So operands are followed
back to where they have four axes, and what is passed on the way is kept in mind. Elements stay in their order in a
reshape, so all that matters of one is how rows of scores lie in it:

    plain    (batch, heads, s, .)
    grouped  (batch, key heads, queries of all heads that share a key head, .)
    flat     (batch * heads, s, .)

Where operands or the result have three axes at both ends, the first one counts as heads of a batch of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ms_ascend_ops.export.graphs.sizes import Size, Sizes, repeats_heads
from ms_ascend_ops.export.matching.expr import Expr
from ms_ascend_ops.export.matching.match import Any, OneOf, Op, Optional, Pattern
from ms_ascend_ops.export.matching.rows import Fused, Mask, Match, Row, Skip, typed
from ms_ascend_ops.export.matching.scores import HALF, Scores, factor, known_mask, probabilities

from ms_ascend_ops import registry

__all__ = ["attention_rows"]

_OP = "flash_attention"
_HEADS_BEHIND = (0, 2, 1, 3)  # (batch, s, heads, d) <-> (batch, heads, s, d)

_Shape = tuple[Size, ...]


@dataclass(frozen=True)
class _Operand:
    """Describes one operand of a product, followed back.

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
    """Describes a product that may be the second one of an attention, and what leads to it."""

    def __init__(self, m: Match) -> None:
        self.m = m
        self.product = m["product"]
        self.result = m["result"] if "result" in m else m["product"]

    @cached_property
    def sizes(self) -> Sizes:
        return self.m.sizes()

    def shape(self, expr: Expr) -> _Shape:
        """Return the sizes of a value; none, if they are not known."""
        shape = self.sizes.shape(expr.node) if expr.node is not None else None
        return shape or ()

    def same(self, one: Size, other: Size) -> bool:
        return bool(self.sizes.same([one], [other]))

    # ---- operands

    def operands(self, expr: Expr, *, transposed: bool, scaled: bool, axes: int = 4) -> Iterator[_Operand]:
        """Yield every point to which an operand of a product can be followed back, the one that is furthest back first.

        `transposed`: its last two axes are to be swapped. `scaled`: factors are part of it. `axes`: its rank there.
        """
        points: list[_Operand] = []
        at = _Operand(expr)
        while True:
            if not transposed and len(self.shape(at.heads)) == axes and not (axes == 3 and at.flat):
                points.append(at)
            step = self._step(at, transposed, scaled)
            if step is None:
                break
            at, transposed = step
        yield from reversed(points)

    def _step(  # noqa: PLR0911, PLR0912
        self, at: _Operand, transposed: bool, scaled: bool
    ) -> tuple[_Operand, bool] | None:
        expr = at.heads
        inner = expr.inputs[0] if expr.inputs else None
        if inner is None:
            return None
        if expr.op == "cast" and expr.dtype == "float32" and inner.dtype in HALF:
            return replace(at, heads=inner), transposed
        if expr.op == "mul" and scaled and (factored := factor(expr)) is not None:
            return replace(at, heads=factored[0], scale=at.scale * factored[1]), transposed
        if expr.op == "transpose" and not at.behind:
            order = expr.attributes["order"]
            if transposed and order in ((0, 1, 3, 2), (0, 2, 1)):
                return replace(at, heads=inner), False
            if transposed and order == (0, 2, 3, 1):
                return replace(at, heads=inner, behind=True), False
            if not transposed and order == _HEADS_BEHIND:
                return replace(at, heads=inner, behind=True), False
        if at.behind:
            return None
        if (shared := self._repeated(expr)) is not None and not transposed and at.times == 1:
            return replace(at, heads=shared[0], times=shared[1]), False
        if expr.op == "reshape" and not at.flat and not at.grouped:
            before, after = self.shape(inner), self.shape(expr)
            if len(before) != 4:
                return None
            if len(after) == 3 and all(self.same(*pair) for pair in zip(before[2:], after[1:], strict=True)):
                return replace(at, heads=inner, flat=True), transposed
            if not transposed and len(after) == 4 and self._groups(before, after):
                return replace(at, heads=inner, grouped=True), transposed
        return None

    def _groups(self, before: _Shape, after: _Shape) -> bool:
        """Tell whether heads are joined that share one."""
        heads, fewer = before[1], after[1]
        divides = isinstance(heads, int) and isinstance(fewer, int) and 0 < fewer < heads and heads % fewer == 0
        return divides and self.same(before[0], after[0]) and self.same(before[3], after[3])

    def _repeated(self, expr: Expr) -> tuple[Expr, int] | None:
        """Return heads that a value holds several times, each time one behind the other, and how often."""
        if expr.op == "repeat" and expr.attributes["axis"] == -3 and isinstance(expr.attributes["count"], int):
            return expr.inputs[0], expr.attributes["count"]
        spread = expr.inputs[0] if expr.op == "reshape" else expr
        single = spread.inputs[0] if spread.op in ("broadcast", "tile") else spread
        if spread is expr or single is spread or single.op not in ("expand_dims", "reshape"):
            return None
        heads = single.inputs[0]
        shapes = [self.shape(e) for e in (heads, single, spread, expr)]
        return (heads, int(shapes[2][2])) if repeats_heads(self.sizes, *shapes) else None  # type: ignore[arg-type]


# ---- how rows of scores lie


@dataclass(frozen=True)
class _Sizes:
    """Holds the sizes of an attention: batch, heads, heads of keys, queries, keys."""

    batch: Size
    heads: Size
    shared: Size
    queries: Size
    keys: Size
    rows: Size  # queries of all heads that share a head of keys


def _form(place: _Place, shape: Sequence[Size], sizes: _Sizes, width: Size) -> str:
    """Return how the rows lie in a value of this shape that has as many elements as all rows; nothing: in no known way.

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


def _build(*, behind: bool, shared: bool, axes: int = 4) -> Callable[[Match], Fused | Skip | None]:
    def build(m: Match) -> Fused | Skip | None:
        place = _Place(m)
        if axes == 3 and len(place.shape(place.product)) != 3:
            return None
        reason: Skip | None = None
        for found in probabilities(place.product.inputs[0]):
            if isinstance(found, Skip):
                reason = reason or found
                continue
            outcome = _attention(place, found, behind=behind, shared=shared, axes=axes)
            if isinstance(outcome, Fused):
                return outcome
            reason = reason or outcome
            if len(place.shape(place.product)) > 4:
                reason = reason or Skip("its scores have more than four axes")
        return reason

    return build


def _attention(place: _Place, scores: Scores, *, behind: bool, shared: bool, axes: int = 4) -> Fused | Skip | None:
    """Build the operator for one reading of a place: with heads in front or behind, with keys before they are
    repeated.
    """
    first, second = scores.product, place.product
    if first.attributes["transpose_a"] or second.attributes["transpose_a"] or second.attributes["transpose_b"]:
        return None
    chosen: Fused | Skip | None = None
    swapped = not first.attributes["transpose_b"]
    for query in place.operands(first.inputs[0], transposed=False, scaled=True, axes=axes):
        for key in place.operands(first.inputs[1], transposed=swapped, scaled=True, axes=axes):
            for value in place.operands(second.inputs[1], transposed=False, scaled=False, axes=axes):
                repeats = key.times > 1 or value.times > 1
                if {query.behind, key.behind, value.behind} == {behind} and (shared or not repeats):
                    outcome = (_with_operands if axes == 4 else _with_joined)(place, scores, query, key, value)
                    if isinstance(outcome, Fused):
                        return outcome
                    chosen = chosen or outcome
    return chosen


def _with_joined(place: _Place, scores: Scores, query: _Operand, key: _Operand, value: _Operand) -> Fused | Skip | None:
    """Match operands (batch * heads, length, features) whose result nobody gives four axes."""
    (heads, queries, d), (key_heads, keys, _), (value_heads, _, e) = (place.shape(o.heads) for o in (query, key, value))
    if scores.passed or not place.same(heads, key_heads) or not place.same(heads, value_heads):
        return None
    if reason := _too_wide(d, e):
        return reason
    return _fused(place, scores, _Sizes(1, heads, heads, queries, keys, queries), (query, key, value))


def _too_wide(d: Size, e: Size) -> Skip | None:
    """Return why the operator does not take heads of these sizes."""
    if not (isinstance(d, int) and isinstance(e, int) and min(d, e) > 0):
        return Skip("the sizes of its heads are not known")
    most = registry.op_spec(_OP).limits["head_size"]
    return Skip(f"its heads have {max(d, e)} elements, the operator takes {most} at most") if max(d, e) > most else None


def _with_operands(  # noqa: PLR0911
    place: _Place, scores: Scores, query: _Operand, key: _Operand, value: _Operand
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
    if reason := _too_wide(d, e):
        return reason
    return _fused(place, scores, sizes, (query, key, value))


def _heads_first(shape: _Shape, *, behind: bool) -> _Shape:
    return tuple(shape[axis] for axis in _HEADS_BEHIND) if behind and len(shape) == 4 else shape


def _fits(
    place: _Place, scores: Scores, sizes: _Sizes, operands: tuple[_Operand, _Operand, _Operand], features: Size
) -> bool:
    """Tell whether operands, scores and result are those of one attention, in the way in which their rows lie."""
    query, key, value = operands
    heads, shared = sizes.heads, sizes.shared
    assert isinstance(shared, int)
    for product, operand, form in (
        (scores.product, key, "grouped" if query.grouped else "flat" if query.flat else "plain"),
        (place.product, value, _form(place, place.shape(place.product.inputs[0]), sizes, sizes.keys)),
    ):
        there = shared * operand.times
        fits = {
            # Each head of queries has its head of keys, or one for all, over which the product broadcasts.
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
    place: _Place, scores: Scores, sizes: _Sizes, operands: tuple[_Operand, _Operand, _Operand]
) -> Fused | Skip | None:
    query, key, _ = operands
    lifted = len(place.shape(query.heads)) == 3
    inputs = [operand.heads for operand in operands]
    masks: dict[int, Mask] = {}
    constant: tuple[int, ...] = ()
    known = ""
    if scores.mask is not None:
        meets = _mask_meets(place, scores, sizes, lifted=lifted)
        if meets is not True:
            return meets or None
        known = "" if scores.negative else known_mask(scores.mask, scores.hidden)
    if scores.mask is not None and not known:
        inputs.append(scores.mask)
        masks = {3: Mask(hidden=scores.hidden, negative=scores.negative)}
        constant = (3,) if scores.hidden is None else ()
    scale = typed(scores.scale * query.scale * key.scale)
    causal = known == "causal"
    attributes = {"scale": scale, "causal": causal, "window": 0, "layout": "BSND" if query.behind else "BNSD"}
    notes = [f"scale {scale:g}", str(attributes["layout"])]
    if isinstance(sizes.heads, int) and isinstance(sizes.shared, int) and sizes.shared < sizes.heads:
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
        lifted=lifted,
    )


def _mask_meets(place: _Place, scores: Scores, sizes: _Sizes, *, lifted: bool) -> Skip | bool:
    """Tell whether the mask, with ones in front, is one of (batch, heads, s, t), or why it is not."""
    assert scores.mask is not None
    assert scores.at_mask is not None
    mask, shape = scores.mask, place.shape(scores.mask)
    if not shape:
        return False if mask.shape == () else Skip("the shape of its mask is not known")
    form = _form(place, place.shape(scores.at_mask), sizes, sizes.keys)
    per_key = all(size == 1 for size in shape[:-1][-3:])
    if len(shape) > 4 or not form or (form == "grouped" and not per_key):
        return False
    if form == "flat" and not lifted and (len(shape) > 3 or (len(shape) == 3 and shape[0] != 1)):
        return Skip("its mask has an axis for batch and heads together")
    if (mask.dtype == "bool") is (scores.hidden is None):
        return False
    if not place.same(shape[-1], sizes.keys) and shape[-1] == 1:
        return Skip("its mask is the same for all keys")
    return True


def attention_rows() -> Iterator[Row]:
    """Yield the rows of the table: with the heads behind the sequence where all have them there, otherwise in front.

    Where repeated heads are needed elsewhere, or what they are made of has no name, they are taken as they are, and the
    joined axis of batch and heads where nothing has four axes.
    """
    product = Op("matmul", Any("probabilities"), Any("value"), name="product")
    result: Pattern = OneOf(Op("reshape", Optional("cast", product), name="result"), product)
    result = Optional("cast", result)
    behind = Op("transpose", result, order=_HEADS_BEHIND)
    yield Row("attention", _OP, behind, _build(behind=True, shared=True))
    yield Row("attention", _OP, result, _build(behind=False, shared=True))
    yield Row("attention", _OP, result, _build(behind=False, shared=False))
    yield Row("attention", _OP, product, _build(behind=False, shared=False, axes=3))
