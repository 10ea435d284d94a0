"""Recognises a linear layer and the activation behind it, if any: activation(x @ weight + bias), in one pass."""

from __future__ import annotations

from collections.abc import Callable

from ms_ascend_ops.export.matching.expr import Expr, is_call
from ms_ascend_ops.export.matching.match import Any, OneOf, Op
from ms_ascend_ops.export.matching.rows import Fused, Match, Skip

__all__ = ["LINEAR", "build_linear"]

_BIASED = Op("bias_add", Op("matmul", Any("x"), Any("w")), Any("b"))
# mint.nn.Linear is the first form; an nn.Dense with a bias is one of the others.
LINEAR = OneOf(Op("linear", Any("y")), _BIASED, Op("reshape", _BIASED))


def build_linear(activation: Callable[[Match], str] | None) -> Callable[[Match], Fused | Skip | None]:
    """Return what builds the operator for a place whose activation has `z` as its input; `activation` gives its name.

    With None, for a linear layer without one.
    """

    def build(m: Match) -> Fused | Skip | None:
        found = _layer(m, m.root if activation is None else m["z"])
        name = "none" if activation is None else activation(m)
        # A layer that was called, and has no activation behind it, is a place of its own.
        if found is None or not name or (activation is None and is_call(m.root)):
            return None
        inputs, transposed = found
        keywords = {"transpose_weight": transposed, "activation": name}
        note = ", ".join([*([name] if activation else []), *(["with bias"] if len(inputs) > 2 else [])])
        return Fused("matmul", inputs, {0: m.root}, keywords, False, note, keywords, cast=(1,))

    return build


def _layer(m: Match, z: Expr) -> tuple[tuple[Expr, ...], bool] | None:
    """Return x, weight and perhaps bias of a linear layer, and whether its weight is transposed."""
    reshaped = z.op == "reshape"
    if reshaped:
        z = z.inputs[0]
    if z.op == "linear":
        return None if reshaped or not _fits(z.inputs) else (z.inputs, True)
    bias: tuple[Expr, ...] = ()
    if z.op == "bias_add":
        z, *bias = z.inputs  # type: ignore[assignment]
    elif z.op == "add":
        z, *bias = z.inputs if z.inputs[0].op == "matmul" else z.inputs[::-1]  # type: ignore[assignment]
    if z.op != "matmul" or z.attributes["transpose_a"]:
        return None
    x, weight = z.inputs
    if reshaped:  # rows of x, as nn.Dense has them
        x = x.inputs[0] if x.op == "reshape" else x
        before, after = (m.sizes().shape(e.node) if e.node is not None else None for e in (x, m.root))
        if before is None or after is None or len(before) < 2 or not m.sizes().same(before[:-1], after[:-1]):
            return None
    inputs = (x, weight, *bias)
    return (inputs, bool(z.attributes["transpose_b"])) if _fits(inputs) else None


def _fits(inputs: tuple[Expr, ...]) -> bool:
    """Tell whether these are a tensor of rows, a matrix, and a vector if there is one more."""
    ranks = [len(e.shape or ()) for e in inputs]
    return ranks[0] >= 2 and ranks[1:] in ([2], [2, 1])
