"""Recognises RMSNorm, LayerNorm and GroupNorm, by themselves and of a sum, and builds the operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any as Object

import numpy as np
from ms_ascend_ops.export.matching.expr import Expr
from ms_ascend_ops.export.matching.match import Any, Near, Number, OneOf, Op, Optional, Pattern, cast
from ms_ascend_ops.export.matching.rows import Fused, Match, Skip, same_shape, typed

__all__ = [
    "ALMOST_RMS_NORM",
    "GROUP_NORM",
    "build_add_layer_norm",
    "build_add_rms_norm",
    "build_group_norm",
    "build_layer_norm",
    "build_plain_layer_norm",
    "build_rms_norm",
    "group_arguments",
    "layer_norm",
    "plain_layer_norm",
    "rms_norm",
    "sum_of_two",
    "why_no_rms_norm",
]


def _rstd(x: Pattern) -> Pattern:
    """Return the pattern of 1 / rms(x); `mean` is what is averaged."""
    squares = Op("square", x)
    mean = OneOf(Op("mean", squares, name="mean"), Op("mul", Op("sum", squares, name="mean"), Number("share")))
    return Op("rsqrt", Op("add", mean, Number("epsilon")))


def _rms_unit(x: Pattern) -> Pattern:
    """Return the pattern of x / rms(x); `up` is the conversion to float32 in front."""
    x = cast(x, "up")
    return Op("mul", x, _rstd(x))


def rms_norm(x: Pattern) -> Pattern:
    """Return the pattern of RMSNorm: x * rsqrt(mean(x^2) + epsilon) * gamma."""
    gamma, one_plus = cast(Any("gamma")), Op("add", cast(Any("gamma")), Near(1.0), name="one_plus")
    unit = cast(_rms_unit(x), "down")
    return OneOf(
        Op("rms_norm", x, Any("gamma"), name="primitive"),
        Op("fused:rms_norm", x, Any("gamma"), name="primitive"),
        cast(Op("mul", unit, OneOf(one_plus, gamma)), "out"),
        # gamma first, or the factor of a row
        cast(Op("mul", cast(Op("mul", cast(x, "up"), gamma)), _rstd(cast(x, "up"))), "out"),
        cast(Op("mul", cast(x, "up"), Op("mul", _rstd(cast(x, "up")), gamma)), "out"),
    )


def _rms_arguments(m: Match) -> dict[str, Object] | Skip | None:
    """Return epsilon and scheme of an RMSNorm, or why the fused operator cannot compute it."""
    x, gamma = m["x"], m["gamma"]
    if gamma.node is None:
        return None
    if gamma.shape is not None and len(gamma.shape) != 1:
        whole = x.shape and gamma.shape == (1,) * (len(gamma.shape) - 1) + x.shape[-1:]
        return Skip("its weight has more than one axis, the operator takes a vector") if whole else None
    if x.shape and gamma.shape and -1 not in (x.shape[-1], gamma.shape[0]) and x.shape[-1] != gamma.shape[0]:
        return None
    if "primitive" in m:
        found = m["primitive"].attributes
        return {"epsilon": typed(found["epsilon"]), "scheme": found["scheme"]}
    mean = m["mean"].attributes
    if not mean["keep_dims"] or mean["axis"] != -1:
        return Skip("it normalizes over another axis than the last one")
    if "share" in m:
        width = x.shape[-1] if x.shape else gamma.shape[0] if gamma.shape else -1
        if abs(m.number("share") * width - 1) > 1e-6:
            return Skip("it divides by something other than the root of the mean square")
    epsilon = m.number("epsilon")
    if not epsilon > 0:
        return Skip("it has no epsilon > 0, and the fused operator needs one")
    return {"epsilon": epsilon, "scheme": "one_plus_gamma" if "one_plus" in m else "round_then_scale"}


def _rounds_like(m: Match, arguments: dict[str, Object]) -> bool:
    """Tell whether half precision rounds where the fused one does: behind x * rstd (llama) or at the end (gemma)."""
    return "primitive" in m or ("up" in m and ("down" in m) is bool(arguments["scheme"] == "round_then_scale"))


def build_rms_norm(m: Match) -> Fused | Skip | None:
    """Build `rms_norm`."""
    arguments = _rms_arguments(m)
    if not isinstance(arguments, dict):
        return arguments
    if m.root.op == "fused:rms_norm":
        return None
    note = f"eps {arguments['epsilon']:g}, {arguments['scheme']}"
    return Fused("rms_norm", (m["x"], m["gamma"]), {0: m.root}, arguments, _rounds_like(m, arguments), note)


def build_add_rms_norm(m: Match) -> Fused | Skip | None:
    """Build `add_rms_norm`, whose sum may be used on."""
    arguments = _rms_arguments(m)
    if not isinstance(arguments, dict):
        return arguments
    if not same_shape(m["x1"], m["x2"]):
        return None
    note = f"eps {arguments['epsilon']:g}, {arguments['scheme']}"
    inputs = (m["x1"], m["x2"], m["gamma"])
    return Fused("add_rms_norm", inputs, {0: m.root, 2: m["x"]}, arguments, _rounds_like(m, arguments), note)


def sum_of_two() -> Pattern:
    """Return the pattern of a sum, in front of a norm."""
    return Op("add", Any("x1"), Any("x2"), name="x")


# Norms that nearly match: recognised to report why they stay.
ALMOST_RMS_NORM = OneOf(
    Op("mul", cast(Any("x")), Op("rsqrt", Op("mean", Op("square", cast(Any("y")))), name="no_epsilon")),
    Op("mul", cast(Any("x")), Op("rsqrt", Op("add", Op("mean", Op("square", cast(Any("y")))), Number("epsilon")))),
    Op("mul", cast(Any("x")), Op("rsqrt", Op("add", Op("sum", Op("square", cast(Any("y"))), name="sum"), Number()))),
    Op("div", cast(Any("x")), Op("add", Op("sqrt", Op("mean", Op("square", cast(Any("y"))))), Number("outside"))),
)


def why_no_rms_norm(m: Match) -> Skip | None:
    """Say why a norm that is almost an RMSNorm stays."""
    if "outside" in m or "sum" in m:
        return Skip("it divides a row by something other than sqrt(mean(x^2) + epsilon)")
    if m["x"] is not m["y"]:
        parts = (m["y"].op == "half", m["y"].op == "slice")
        return Skip("it takes the mean over a part of the features only") if any(parts) else None
    if "no_epsilon" in m:
        return Skip("it has no epsilon, and the fused operator needs one > 0")
    return None


def _standardized(x: Pattern) -> Pattern:
    """Return the pattern of (x - mean(x)) * rsqrt(variance(x) + epsilon)."""
    centred = Op("sub", x, Op("mean", x, name="mean", keep_dims=True))
    squares = Op("square", centred)
    variance = OneOf(
        Op("mean", squares, name="mean2", keep_dims=True),
        Op("mul", Op("sum", squares, name="mean2", keep_dims=True), Number("share")),
        Op("variance", x, name="mean2", keep_dims=True, correction=0),
    )
    return Op("mul", centred, Op("rsqrt", Op("add", variance, Number("epsilon"))))


def layer_norm(x: Pattern) -> Pattern:
    """Return the pattern of LayerNorm, the built-in or the formula."""
    unit = cast(_standardized(cast(x, "up")), "down")
    return OneOf(
        Op("layer_norm", x, Any("gamma"), Any("beta"), name="primitive"),
        Op("fused:layer_norm", x, Any("gamma"), Any("beta"), name="primitive"),
        cast(Op("add", Op("mul", unit, cast(Any("gamma"))), cast(Any("beta"))), "out"),
    )


def plain_layer_norm(x: Pattern) -> Pattern:
    """Return the pattern of the formula without a scale and a shift."""
    return Optional("cast", _standardized(cast(x, "up")), name="out")


def build_plain_layer_norm(m: Match) -> Fused | Skip | None:
    """Build `layer_norm` with ones and zeros."""
    x = m["x"]
    axes = _normalized_axes(m, x.shape)
    # The whole tensor would be one row: its scale and its shift would be as large as the tensor itself.
    if not axes or axes != set(range(-len(axes), 0)) or (x.shape and len(axes) > 1 and len(axes) == len(x.shape)):
        return None
    return _plain(m, len(axes), {"epsilon": m.number("epsilon")}, "none", "up" in m and "out" in m)


def _normalized_axes(m: Match, shape: tuple[int, ...] | None) -> set[int]:
    """Return the axes that the formula normalizes over, from the end; none if it normalizes otherwise."""
    found = []
    for mean in (m["mean"], m["mean2"]):
        axis = mean.attributes["axis"]
        axes = axis if isinstance(axis, tuple) else (axis,)
        if not all(isinstance(a, int) and (a < 0 or shape) for a in axes):
            return set()
        found.append({a if a < 0 else a - len(shape or ()) for a in axes})
    if found[0] != found[1]:
        return set()
    if "share" in m:  # of a sum, in place of a mean
        sizes = [shape[a] for a in found[0]] if shape else [-1]
        if min(sizes) < 1 or abs(m.number("share") * math.prod(sizes) - 1) > 1e-6:
            return set()
    return found[0]


def _plain(m: Match, axes: int, arguments: dict[str, Object], activation: str, exact: bool) -> Fused | Skip | None:
    x = m["x"]
    if not x.shape or min(x.shape[-axes:]) <= 0:
        return Skip("the size of its last axis is not known")
    note = f"eps {arguments['epsilon']:g}, no scale and shift"
    attributes = {**arguments, "activation": activation}
    keywords = attributes | ({"axes": axes} if axes > 1 else {})
    filled = (1.0, 0.0)
    return Fused("layer_norm", (x,), {0: m.root}, attributes, exact, note, keywords, filled=filled, filled_axes=axes)


def _is_filled(expr: Expr, value: float) -> bool:
    """Tell whether a scale or a shift is None, or has this value everywhere, as far as it is known."""
    if expr.op == "filled":
        return bool(expr.attributes["value"] == value)
    if expr.op != "constant":
        return False
    values = expr.attributes["value"]
    if values is None:
        return expr.shape is None  # of a tensor that is not known
    return isinstance(values, np.ndarray) and values.size > 0 and bool((values == value).all())


def _layer_arguments(m: Match) -> dict[str, Object] | Skip | None:
    gamma, beta = m["gamma"], m["beta"]
    if "primitive" in m:
        attributes = m["primitive"].attributes
        if gamma.shape is not None and len(gamma.shape) != attributes.get("axes", len(gamma.shape)):
            return Skip("gamma has other axes than those that are normalized")
        return {"epsilon": typed(attributes["epsilon"])}
    if any(e.shape is not None and len(e.shape) != 1 for e in (gamma, beta)):
        return None
    if _normalized_axes(m, m["x"].shape) != {-1}:
        return Skip("it normalizes over another axis than the last one")
    return {"epsilon": m.number("epsilon")}


def _axes_of(m: Match) -> int:
    """Return how many axes a LayerNorm normalizes over."""
    return int(m["primitive"].attributes.get("axes", 1)) if "primitive" in m else 1


def build_layer_norm(activation: str) -> Callable[[Match], Fused | Skip | None]:
    """Return what builds `layer_norm` with this activation behind it."""

    def build(m: Match) -> Fused | Skip | None:
        arguments = _layer_arguments(m)
        if not isinstance(arguments, dict):
            return arguments
        if m.root.op == "fused:layer_norm":
            return None
        exact = "primitive" in m or ("up" in m and "out" in m)
        if _is_filled(m["gamma"], 1.0) and _is_filled(m["beta"], 0.0) and _axes_of(m) == 1:
            return _plain(m, 1, arguments, activation, exact)
        note = f"eps {arguments['epsilon']:g}"
        inputs = m["x"], m["gamma"], m["beta"]
        return Fused("layer_norm", inputs, {0: m.root}, {**arguments, "activation": activation}, exact, note)

    return build


def build_add_layer_norm(m: Match) -> Fused | Skip | None:
    """Build `add_layer_norm`, whose sum may be used on."""
    arguments = _layer_arguments(m)
    if not isinstance(arguments, dict):
        return arguments
    if not same_shape(m["x1"], m["x2"]):
        return None
    inputs = (m["x1"], m["x2"], m["gamma"], m["beta"])
    note = f"eps {arguments['epsilon']:g}"
    return Fused("add_layer_norm", inputs, {0: m.root, 3: m["x"]}, arguments, "primitive" in m, note)


# In the formula, the groups are an axis of their own in between: (n, c, ...) -> (n, groups, ...) -> (n, c, ...).
GROUP_NORM = OneOf(
    # nn.GroupNorm casts both to the dtype of x, of which the operator needs nothing.
    Op("group_norm", Any("x"), cast(Any("gamma"), "cast"), cast(Any("beta")), name="primitive"),
    Op(
        "add",
        Op(
            "mul",
            Op("reshape", _standardized(Op("reshape", Any("x"), name="grouped")), name="ungrouped"),
            Op("reshape", Any("gamma"), name="scale"),
        ),
        Op("reshape", Any("beta"), name="shift"),
    ),
)


def group_arguments(m: Match) -> dict[str, Object] | Skip | None:
    """Return the number of groups and the epsilon of a GroupNorm."""
    if "primitive" in m:
        found = m["primitive"].attributes
        return {"num_groups": found["groups"], "epsilon": typed(found["epsilon"])}
    x, grouped = m["x"].shape, m["grouped"].shape
    if not x or not grouped or len(x) < 3 or len(grouped) < 3 or m["ungrouped"].shape != x or grouped[0] != x[0]:
        return None
    per_channel = (x[1], *[1] * (len(x) - 2))
    if any((m[name].shape or ())[-len(per_channel) :] != per_channel for name in ("scale", "shift")):
        return None
    if _normalized_axes(m, grouped) != set(range(2 - len(grouped), 0)):
        return Skip("it normalizes over other axes than those of a group")
    return {"num_groups": grouped[1], "epsilon": m.number("epsilon")}


def build_group_norm(activation: str) -> Callable[[Match], Fused | Skip | None]:
    """Return what builds `group_norm` with this activation behind it."""

    def build(m: Match) -> Fused | Skip | None:
        arguments = group_arguments(m)
        if not isinstance(arguments, dict):
            return arguments
        note = f"{arguments['num_groups']} groups, eps {arguments['epsilon']:g}"
        inputs, exact = (m["x"], m["gamma"], m["beta"]), "primitive" in m and "cast" not in m and activation != "silu"
        return Fused("group_norm", inputs, {0: m.root}, {**arguments, "activation": activation}, exact, note)

    return build
