"""Recognises rotary position embedding, x * cos + rotated(x) * sin, and builds the operator."""

from __future__ import annotations

from typing import Any as Object

import numpy as np
from ms_ascend_ops.export.matching.expr import Expr
from ms_ascend_ops.export.matching.match import Any, OneOf, Op, Pattern
from ms_ascend_ops.export.matching.rows import Fused, Match, Skip

__all__ = ["COS", "ROTARY", "SIN", "X", "build_rotary", "repeats"]


def _half(which: str, x: Pattern) -> Pattern:
    return Op("half", x, axis=-1, which=which)


X, COS, SIN = Any("x"), Any("cos"), Any("sin")
_ROTATED_HALVES = Op("concat", Op("neg", _half("second", X)), _half("first", X), axis=-1, name="half_mode")


def _neighbours(index: int, which: str) -> Pattern:
    pairs = Op("pick", Op("reshape", X), axis=-1, index=index)
    return OneOf(pairs, _half(which, X))


_ROTATED_PAIRS = Op(
    "reshape", Op("stack", Op("neg", _neighbours(1, "odd")), _neighbours(0, "even"), axis=-1), name="interleave_mode"
)
_BY_MATRIX = Op("rotated_pairs", X, name="rotated")
ROTARY = OneOf(
    Op("add", Op("mul", X, COS), Op("mul", OneOf(_ROTATED_HALVES, _ROTATED_PAIRS, _BY_MATRIX), SIN)),
    # the same by neighbours
    Op(
        "reshape",
        Op(
            "stack",
            Op("sub", Op("mul", _half("even", X), COS), Op("mul", _half("odd", X), SIN)),
            Op("add", Op("mul", _half("odd", X), COS), Op("mul", _half("even", X), SIN)),
            axis=-1,
        ),
        name="pairs_mode",
    ),
    # the two halves by themselves, with tables of half the width
    Op(
        "concat",
        Op("sub", Op("mul", _half("first", X), COS), Op("mul", _half("second", X), SIN)),
        Op("add", Op("mul", _half("second", X), COS), Op("mul", _half("first", X), SIN)),
        axis=-1,
        name="half_mode",
    ),
)


# These leave the last axis as it is.
_ALONG_ROWS = frozenset({"cos", "sin", "cast", "mul", "expand_dims", "slice", "other:StridedSlice", "other:Gather"})


def _holds_angles_twice(table: Expr, mode: str) -> bool:
    """Tell whether each angle is known to stand twice in a table of full width, of which the operator reads one."""
    while table.op in _ALONG_ROWS and table.shape and table.inputs[0].shape:
        if table.shape[-1] != table.inputs[0].shape[-1]:
            return False
        table = table.inputs[0]
    if table.op == "concat":
        parts = table.inputs
        return mode == "half" and table.attributes["axis"] == -1 and len(parts) == 2 and parts[0] is parts[1]
    if table.op == "reshape" and table.inputs[0].op == "stack":
        parts = table.inputs[0].inputs
        return mode == "interleave" and table.inputs[0].attributes["axis"] == -1 and parts[0] is parts[1]
    if table.op == "reshape" and table.inputs[0].op == "tile":  # repeat_interleave: (..., n, 1) to (..., n, 2)
        pairs = table.inputs[0]
        single = pairs.inputs[0].shape
        return mode == "interleave" and _doubled(pairs) and single is not None and single[-1] == 1
    if table.op == "tile":
        return mode == "half" and _doubled(table)
    if table.op == "repeat":
        return mode == "interleave" and table.attributes == {"axis": -1, "count": 2}
    if table.node is None:
        return False
    value = table.node.value
    if isinstance(value, np.ndarray) and value.ndim:
        return repeats(value) in (mode, "both")
    return table.node.attributes.get("repeats") in (mode, "both")


def _doubled(tile: Expr) -> bool:
    """Tell whether a tensor is repeated twice along its last axis, and nowhere else."""
    *others, last = tile.attributes["multiples"] or (0,)
    return last == 2 and all(m == 1 for m in others)


def repeats(values: Object) -> str:
    """Tell which mode of the rotary embedding a table of full width is for: equal halves, neighbours, or both."""
    if values.ndim == 0 or values.shape[-1] % 2 or not values.size:
        return ""
    half = values.shape[-1] // 2
    halves = np.array_equal(values[..., :half], values[..., half:])
    pairs = np.array_equal(values[..., 0::2], values[..., 1::2])
    return "both" if halves and pairs else "half" if halves else "interleave" if pairs else ""


def _layout(x: tuple[int, ...], cos: Expr, sin: Expr) -> tuple[str, tuple[Expr, Expr]]:
    """Return where the heads of x are, and the tables as the operator takes them for that; or nothing."""
    shape = cos.shape or ()
    inner = cos.inputs[0].shape if cos.op == sin.op == "expand_dims" else None
    if len(x) == 3:
        # Packed images, as vision encoders have them: the tables have an axis of one element for the heads.
        packed = inner is not None and len(inner) == 2 and cos.attributes["to"] in (1, -2)
        return ("SND", (cos.inputs[0], sin.inputs[0])) if packed else ("", (cos, sin))
    if len(shape) == 2:
        return "BNSD", (cos, sin)
    # The axis of the sequence is where the tables follow x, besides the axis of the angles.
    table = (1,) * (4 - len(shape)) + shape
    if len(shape) == 4 and table[1] == 1 != table[2]:
        return "BNSD", (cos, sin)
    if table[2] == 1 and inner is not None and len(inner) in (2, 3) and cos.attributes["to"] in (2, -2, len(inner) - 1):
        return "BSND", (cos.inputs[0], sin.inputs[0])
    # With one position, as in decoding, the tables do not tell the axis, but x does.
    if len(shape) == 4 and table[1] == table[2] == x[2] == 1:
        return "BNSD", (cos, sin)
    return "", (cos, sin)


def build_rotary(m: Match) -> Fused | Skip | None:
    """Build `rotary_embedding`."""
    x, cos, sin = m["x"], m["cos"], m["sin"]
    if x.shape is None or len(x.shape) not in (3, 4):
        return Skip("the operator takes queries and keys of three or four dims") if x.shape else None
    if cos.shape is None or cos.shape != sin.shape:
        return None
    mode = "half" if "half_mode" in m else m["rotated"].attributes["mode"] if "rotated" in m else "interleave"
    layout, tables = _layout(x.shape, cos, sin)
    if not layout:
        return Skip("cos and sin lie in another way than the operator takes")
    if cos.shape[-1] != (x.shape[-1] // 2 if "pairs_mode" in m else x.shape[-1]) and mode == "interleave":
        return None
    twice = cos.shape[-1] == x.shape[-1]
    own = twice and not all(_holds_angles_twice(t, mode) for t in (cos, sin))
    attributes = {"seq_axis": layout.index("S"), "mode": mode, "rotary_dim": 0, "separate_halves": own}
    keywords = {"mode": mode, "layout": layout, **({"separate_halves": True} if own else {})}
    inputs = (x, *tables)
    constant = (
        (1, 2) if twice and not own else ()
    )  # a learned table would get the gradients of both halves in the first
    note = f"{mode}, {layout}{', tables as they are' if own else ''}"
    return Fused("rotary_embedding", inputs, {0: m.root}, attributes, False, note, keywords, constant)
