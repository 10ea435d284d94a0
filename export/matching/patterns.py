"""The places where a fused operator belongs, as a table.

One row per pattern: its name, what it looks like, what is built there, and at which level. All engines use this table,
and a new pattern is a new row. Rows stand in the order in which they are tried: what covers more comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any as Object

import numpy as np
from ms_ascend_ops.export.matching.attention import attention_rows
from ms_ascend_ops.export.matching.convolution import build_convolution
from ms_ascend_ops.export.matching.expr import Expr
from ms_ascend_ops.export.matching.linear import build_linear
from ms_ascend_ops.export.matching.match import Any, Near, Number, OneOf, Op, Optional, Pattern
from ms_ascend_ops.export.matching.rows import LEVELS, Fused, Match, Row, Skip, typed

__all__ = ["LEVELS", "PATTERNS", "PRESENT", "Fused", "Match", "Row", "Skip", "repeats"]


def _cast(inner: Pattern, name: str = "") -> Pattern:
    return Optional("cast", inner, name)


def _product(*factors: Pattern) -> Pattern:
    """A product of three, in any order of multiplying."""
    a, b, c = factors
    return OneOf(*(Op("mul", Op("mul", *pair), rest) for *pair, rest in ((a, b, c), (a, c, b), (b, c, a))))


# --- RMSNorm: x * rsqrt(mean(x^2) + epsilon) * gamma --------------------------------------------------------------


def _rstd(x: Pattern) -> Pattern:
    """1 / rms(x); `mean` is what is averaged."""
    squares = Op("square", x)
    mean = OneOf(Op("mean", squares, name="mean"), Op("mul", Op("sum", squares, name="mean"), Number("share")))
    return Op("rsqrt", Op("add", mean, Number("epsilon")))


def _rms_unit(x: Pattern) -> Pattern:
    """x / rms(x); `up` is the conversion to float32 in front."""
    x = _cast(x, "up")
    return Op("mul", x, _rstd(x))


def _rms_norm(x: Pattern) -> Pattern:
    gamma, one_plus = _cast(Any("gamma")), Op("add", _cast(Any("gamma")), Near(1.0), name="one_plus")
    unit = _cast(_rms_unit(x), "down")
    return OneOf(
        Op("rms_norm", x, Any("gamma"), name="primitive"),
        Op("fused:rms_norm", x, Any("gamma"), name="primitive"),
        _cast(Op("mul", unit, OneOf(one_plus, gamma)), "out"),
        # gamma first, or the factor of a row
        _cast(Op("mul", _cast(Op("mul", _cast(x, "up"), gamma)), _rstd(_cast(x, "up"))), "out"),
        _cast(Op("mul", _cast(x, "up"), Op("mul", _rstd(_cast(x, "up")), gamma)), "out"),
    )


def _rms_arguments(m: Match) -> dict[str, Object] | Skip | None:
    """epsilon and scheme of an RMSNorm, or why the fused operator cannot compute it."""
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
    return {"epsilon": epsilon, "scheme": "gemma" if "one_plus" in m else "llama"}


def _rounds_like(m: Match, arguments: dict[str, Object]) -> bool:
    """Whether half precision rounds where the fused one does: float32 up to x * rstd (llama) or the end (gemma)."""
    return "primitive" in m or ("up" in m and ("down" in m) is bool(arguments["scheme"] == "llama"))


def _build_rms_norm(m: Match) -> Fused | Skip | None:
    arguments = _rms_arguments(m)
    if not isinstance(arguments, dict):
        return arguments
    if m.root.op == "fused:rms_norm":
        return None
    note = f"eps {arguments['epsilon']:g}, {arguments['scheme']}"
    return Fused("rms_norm", (m["x"], m["gamma"]), {0: m.root}, arguments, _rounds_like(m, arguments), note)


def _build_add_rms_norm(m: Match) -> Fused | Skip | None:
    arguments = _rms_arguments(m)
    if not isinstance(arguments, dict):
        return arguments
    if not _same_shape(m["x1"], m["x2"]):
        return None
    note = f"eps {arguments['epsilon']:g}, {arguments['scheme']}"
    inputs = (m["x1"], m["x2"], m["gamma"])
    return Fused("add_rms_norm", inputs, {0: m.root, 2: m["x"]}, arguments, _rounds_like(m, arguments), note)


def _sum() -> Pattern:
    return Op("add", Any("x1"), Any("x2"), name="x")


def _same_shape(a: Expr, b: Expr) -> bool:
    """Known to be the same; a dim that is unknown in both counts as the same where the rest agrees."""
    return bool(a.shape == b.shape)


# Norms that are almost one: recognised to say why they stay.
_ALMOST_RMS_NORM = OneOf(
    Op("mul", _cast(Any("x")), Op("rsqrt", Op("mean", Op("square", _cast(Any("y")))), name="no_epsilon")),
    Op("mul", _cast(Any("x")), Op("rsqrt", Op("add", Op("mean", Op("square", _cast(Any("y")))), Number("epsilon")))),
    Op("mul", _cast(Any("x")), Op("rsqrt", Op("add", Op("sum", Op("square", _cast(Any("y"))), name="sum"), Number()))),
    Op("div", _cast(Any("x")), Op("add", Op("sqrt", Op("mean", Op("square", _cast(Any("y"))))), Number("outside"))),
)


def _why_no_rms_norm(m: Match) -> Skip | None:
    if "outside" in m or "sum" in m:
        return Skip("it divides a row by something other than sqrt(mean(x^2) + epsilon)")
    if m["x"] is not m["y"]:
        parts = (m["y"].op == "half", m["y"].op == "slice")
        return Skip("it takes the mean over a part of the features only") if any(parts) else None
    if "no_epsilon" in m:
        return Skip("it has no epsilon, and the fused operator needs one > 0")
    return None


# --- LayerNorm and GroupNorm --------------------------------------------------------------------------------------


def _standardized(x: Pattern) -> Pattern:
    """(x - mean(x)) * rsqrt(variance(x) + epsilon)."""
    centred = Op("sub", x, Op("mean", x, name="mean", keep_dims=True))
    variance = OneOf(
        Op("mean", Op("square", centred), name="mean2", keep_dims=True),
        Op("variance", x, name="mean2", keep_dims=True, correction=0),
    )
    return Op("mul", centred, Op("rsqrt", Op("add", variance, Number("epsilon"))))


def _layer_norm(x: Pattern) -> Pattern:
    unit = _cast(_standardized(_cast(x, "up")), "down")
    return OneOf(
        Op("layer_norm", x, Any("gamma"), Any("beta"), name="primitive"),
        Op("fused:layer_norm", x, Any("gamma"), Any("beta"), name="primitive"),
        _cast(Op("add", Op("mul", unit, _cast(Any("gamma"))), _cast(Any("beta"))), "out"),
    )


def _layer_arguments(m: Match) -> dict[str, Object] | Skip | None:
    gamma, beta = m["gamma"], m["beta"]
    if "primitive" in m:
        attributes = m["primitive"].attributes
        if gamma.shape is not None and len(gamma.shape) != attributes.get("axes", len(gamma.shape)):
            return Skip("gamma has other axes than those that are normalized")
        return {"epsilon": typed(attributes["epsilon"])}
    if any(e.shape is not None and len(e.shape) != 1 for e in (gamma, beta)):
        return None
    if m["mean"].attributes["axis"] != -1 or m["mean2"].attributes["axis"] != -1:
        return Skip("it normalizes over another axis than the last one")
    return {"epsilon": m.number("epsilon")}


def _build_layer_norm(activation: str) -> Callable[[Match], Fused | Skip | None]:
    def build(m: Match) -> Fused | Skip | None:
        arguments = _layer_arguments(m)
        if not isinstance(arguments, dict):
            return arguments
        if m.root.op == "fused:layer_norm":
            return None
        exact = "primitive" in m or ("up" in m and "out" in m)
        note = f"eps {arguments['epsilon']:g}"
        inputs = m["x"], m["gamma"], m["beta"]
        return Fused("layer_norm", inputs, {0: m.root}, {**arguments, "activation": activation}, exact, note)

    return build


def _build_add_layer_norm(m: Match) -> Fused | Skip | None:
    arguments = _layer_arguments(m)
    if not isinstance(arguments, dict):
        return arguments
    if not _same_shape(m["x1"], m["x2"]):
        return None
    inputs = (m["x1"], m["x2"], m["gamma"], m["beta"])
    note = f"eps {arguments['epsilon']:g}"
    return Fused("add_layer_norm", inputs, {0: m.root, 3: m["x"]}, arguments, "primitive" in m, note)


# In the formula, the groups are an axis of their own in between: (n, c, ...) -> (n, groups, ...) -> (n, c, ...).
_GROUP_NORM = OneOf(
    Op("group_norm", Any("x"), Any("gamma"), Any("beta"), name="primitive"),
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


def _group_arguments(m: Match) -> dict[str, Object] | Skip | None:
    """Number of groups and epsilon of a GroupNorm."""
    if "primitive" in m:
        found = m["primitive"].attributes
        return {"num_groups": found["groups"], "epsilon": typed(found["epsilon"])}
    x, grouped = m["x"].shape, m["grouped"].shape
    if not x or not grouped or len(x) < 3 or len(grouped) < 3 or m["ungrouped"].shape != x or grouped[0] != x[0]:
        return None
    per_channel = (x[1], *[1] * (len(x) - 2))
    if any((m[name].shape or ())[-len(per_channel) :] != per_channel for name in ("scale", "shift")):
        return None
    for mean in (m["mean"], m["mean2"]):
        axis = mean.attributes["axis"]
        axes = axis if isinstance(axis, tuple) else (axis,)
        if {a % len(grouped) for a in axes if isinstance(a, int)} != set(range(2, len(grouped))):
            return Skip("it normalizes over other axes than those of a group")
    return {"num_groups": grouped[1], "epsilon": m.number("epsilon")}


def _build_group_norm(activation: str) -> Callable[[Match], Fused | Skip | None]:
    def build(m: Match) -> Fused | Skip | None:
        arguments = _group_arguments(m)
        if not isinstance(arguments, dict):
            return arguments
        note = f"{arguments['num_groups']} groups, eps {arguments['epsilon']:g}"
        inputs, exact = (m["x"], m["gamma"], m["beta"]), "primitive" in m and activation != "silu"
        return Fused("group_norm", inputs, {0: m.root}, {**arguments, "activation": activation}, exact, note)

    return build


# --- Activations and what they gate -------------------------------------------------------------------------------


def _silu(x: Pattern) -> Pattern:
    return OneOf(Op("silu", x, name="builtin"), Op("mul", x, Op("sigmoid", x)))


_ROOT = math.sqrt(2 / math.pi)


def _gelu(x: Pattern) -> Pattern:
    cube = OneOf(Op("cube", x), Op("mul", x, Op("square", x)))
    polynomial = OneOf(
        Op("mul", Op("add", x, Op("mul", cube, Near(0.044715))), Near(_ROOT, 2e-4)),
        _product(x, Near(_ROOT, 2e-4), Op("add", Op("mul", Op("square", x), Near(0.044715)), Near(1.0))),
        # k * x * (1 + c * x * x), multiplied from the left
        _product(x, Near(_ROOT, 2e-4), Op("add", Op("mul", Op("mul", x, Near(0.044715)), x), Near(1.0))),
    )
    tanh = Op("tanh", polynomial, name="tanh")
    erf = Op("erf", Op("mul", x, Near(math.sqrt(0.5), 1e-5)), name="erf")
    plus = OneOf(*(Op("add", f, Near(1.0)) for f in (tanh, erf)))
    half_plus = OneOf(*(Op("add", Op("mul", f, Near(0.5)), Near(0.5)) for f in (tanh, erf)))
    return OneOf(
        Op("gelu", x, name="builtin"),
        _product(x, Near(0.5), plus),
        Op("mul", x, half_plus),
    )


def _approximate(m: Match) -> str:
    if "builtin" in m:
        return str(m["builtin"].attributes["approximate"])
    return "tanh" if "tanh" in m else "none"


def _build_gelu(m: Match) -> Fused | Skip | None:
    approximate = _approximate(m)
    if approximate not in ("none", "tanh"):
        return None
    return Fused("gelu", (m["x"],), {0: m.root}, {"approximate": approximate}, "builtin" in m, approximate)


def _simple_activation(m: Match) -> str:
    return "relu" if m.root.op == "relu" else "silu"


def _gelu_activation(m: Match) -> str:
    """What the operator calls a GELU; nothing if it has not that one."""
    return {"none": "gelu", "tanh": "gelu_tanh"}.get(_approximate(m), "")


_PRODUCT = Any("z")
_ACTIVATED = OneOf(Op("relu", _PRODUCT), _silu(_PRODUCT))
_CONVOLUTION = OneOf(*(Op(name, Any("y")) for name in ("bias_add", "add", "conv2d")))
_GELU_OF_PRODUCT = OneOf(_gelu(_PRODUCT), Op("fused:gelu", _PRODUCT, name="builtin"))


def _gated(activation: Callable[[Pattern], Pattern]) -> Pattern:
    """activation(gate) * up."""
    gate, up = Any("gate"), Any("up")
    return Op("mul", activation(gate), up)


_SILU_MUL = OneOf(
    _gated(_silu),
    _product(Any("gate"), Op("sigmoid", Any("gate")), Any("up")),
)


def _halves(m: Match) -> dict[str, Object] | None:
    """How gate and up lie in one tensor, if they do: as arguments of swiglu."""
    gate, up = m["gate"], m["up"]
    if gate.op != "half" or up.op != "half" or gate.inputs[0] is not up.inputs[0]:
        return None
    if gate.attributes["axis"] != up.attributes["axis"]:
        return None
    order = gate.attributes["which"], up.attributes["which"]
    return {
        ("first", "second"): {"axis": gate.attributes["axis"], "interleaved": False},
        ("even", "odd"): {"axis": gate.attributes["axis"], "interleaved": True},
    }.get(order)  # type: ignore[return-value]


def _build_silu_mul(m: Match) -> Fused | Skip | None:
    if not _same_shape(m["gate"], m["up"]):
        return None
    return Fused("silu_mul", (m["gate"], m["up"]), {0: m.root}, exact=False)


def _build_swiglu(m: Match) -> Fused | Skip | None:
    arguments = _halves(m)
    if arguments is None:
        return None
    note = "alternating" if arguments["interleaved"] else "gate first"
    return Fused("swiglu", m["gate"].inputs, {0: m.root}, arguments, False, note)


def _build_swiglu_primitive(m: Match) -> Fused | Skip | None:
    return Fused("swiglu", (m["x"],), {0: m.root}, {"axis": m.root.attributes["axis"], "interleaved": False})


def _build_gelu_mul(m: Match) -> Fused | Skip | None:
    if not _same_shape(m["gate"], m["up"]) or _approximate(m) not in ("none", "tanh"):
        return None
    note = _approximate(m)
    return Fused("gelu_mul", (m["gate"], m["up"]), {0: m.root}, {"approximate": note}, False, note)


def _build_geglu(m: Match) -> Fused | Skip | None:
    gate, up = m["gate"], m["up"]
    if gate.op != "half" or up.op != "half" or gate.inputs[0] is not up.inputs[0]:
        return None
    order = gate.attributes["which"], up.attributes["which"]
    if gate.attributes["axis"] != up.attributes["axis"] or order not in (("first", "second"), ("second", "first")):
        return None
    arguments = {
        "axis": gate.attributes["axis"],
        "activate_left": order[0] == "first",
        "approximate": _approximate(m),
    }
    return Fused("geglu", gate.inputs, {0: m.root}, arguments, False, arguments["approximate"])


# --- Rotary position embedding: x * cos + rotated(x) * sin ---------------------------------------------------------


def _half(which: str, x: Pattern) -> Pattern:
    return Op("half", x, axis=-1, which=which)


_X, _COS, _SIN = Any("x"), Any("cos"), Any("sin")
_ROTATED_HALVES = Op("concat", Op("neg", _half("second", _X)), _half("first", _X), axis=-1, name="half_mode")


def _neighbours(index: int, which: str) -> Pattern:
    pairs = Op("pick", Op("reshape", _X), axis=-1, index=index)
    return OneOf(pairs, _half(which, _X))


_ROTATED_PAIRS = Op(
    "reshape", Op("stack", Op("neg", _neighbours(1, "odd")), _neighbours(0, "even"), axis=-1), name="interleave_mode"
)
_BY_MATRIX = Op("turned_pairs", _X, name="turned")
_ROTARY = OneOf(
    Op("add", Op("mul", _X, _COS), Op("mul", OneOf(_ROTATED_HALVES, _ROTATED_PAIRS, _BY_MATRIX), _SIN)),
    # the same by neighbours
    Op(
        "reshape",
        Op(
            "stack",
            Op("sub", Op("mul", _half("even", _X), _COS), Op("mul", _half("odd", _X), _SIN)),
            Op("add", Op("mul", _half("odd", _X), _COS), Op("mul", _half("even", _X), _SIN)),
            axis=-1,
        ),
        name="pairs_mode",
    ),
    # the two halves by themselves, with tables of half the width
    Op(
        "concat",
        Op("sub", Op("mul", _half("first", _X), _COS), Op("mul", _half("second", _X), _SIN)),
        Op("add", Op("mul", _half("second", _X), _COS), Op("mul", _half("first", _X), _SIN)),
        axis=-1,
        name="half_mode",
    ),
)


# What leaves the last axis as it is.
_ALONG_ROWS = frozenset({"cos", "sin", "cast", "mul", "expand_dims", "slice", "other:StridedSlice", "other:Gather"})


def _holds_angles_twice(table: Expr, mode: str) -> bool:
    """Whether each angle is known to stand twice in a table of full width, of which the operator reads one."""
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
    """Whether a tensor is repeated twice along its last axis, and nowhere else."""
    *others, last = tile.attributes["multiples"] or (0,)
    return last == 2 and all(m == 1 for m in others)


def repeats(values: Object) -> str:
    """Which mode of the rotary embedding a table of full width is for: equal halves, equal neighbours, or both."""
    if values.ndim == 0 or values.shape[-1] % 2 or not values.size:
        return ""
    half = values.shape[-1] // 2
    halves = np.array_equal(values[..., :half], values[..., half:])
    pairs = np.array_equal(values[..., 0::2], values[..., 1::2])
    return "both" if halves and pairs else "half" if halves else "interleave" if pairs else ""


def _layout(x: tuple[int, ...], cos: Expr, sin: Expr) -> tuple[str, tuple[Expr, Expr]]:
    """Where the heads of x are, and the tables as the operator takes them for that; or nothing."""
    shape = cos.shape or ()
    inner = cos.inputs[0].shape if cos.op == sin.op == "expand_dims" else None
    if len(x) == 3:
        # Packed images, as vision encoders have them: the tables have an axis of one element for the heads.
        packed = inner is not None and len(inner) == 2 and cos.attributes["to"] in (1, -2)
        return ("SND", (cos.inputs[0], sin.inputs[0])) if packed else ("", (cos, sin))
    if len(shape) == 2:
        return "BNSD", (cos, sin)
    # The axis of the sequence is the one where the tables follow x, besides that of the angles.
    table = (1,) * (4 - len(shape)) + shape
    if len(shape) == 4 and table[1] == 1 != table[2]:
        return "BNSD", (cos, sin)
    if table[2] == 1 and inner is not None and len(inner) in (2, 3) and cos.attributes["to"] in (2, -2, len(inner) - 1):
        return "BSND", (cos.inputs[0], sin.inputs[0])
    # One position, as in decoding: the tables do not tell, but x does.
    if len(shape) == 4 and table[1] == table[2] == x[2] == 1:
        return "BNSD", (cos, sin)
    return "", (cos, sin)


def _build_rotary(m: Match) -> Fused | Skip | None:
    x, cos, sin = m["x"], m["cos"], m["sin"]
    if x.shape is None or len(x.shape) not in (3, 4):
        return Skip("the operator takes queries and keys of three or four dims") if x.shape else None
    if cos.shape is None or cos.shape != sin.shape:
        return None
    mode = "half" if "half_mode" in m else m["turned"].attributes["mode"] if "turned" in m else "interleave"
    layout, tables = _layout(x.shape, cos, sin)
    if not layout:
        return Skip("cos and sin lie in another way than the operator takes")
    if cos.shape[-1] != (x.shape[-1] // 2 if "pairs_mode" in m else x.shape[-1]) and mode == "interleave":
        return None
    twice = cos.shape[-1] == x.shape[-1]
    own = twice and not all(_holds_angles_twice(t, mode) for t in (cos, sin))
    attributes = {"seq_axis": layout.index("S"), "mode": mode, "rotary_dim": 0, "own_angles": own}
    keywords = {"mode": mode, "layout": layout, **({"own_angles": True} if own else {})}
    inputs = (x, *tables)
    constant = (
        (1, 2) if twice and not own else ()
    )  # a learned table would get the gradients of both halves in the first
    note = f"{mode}, {layout}{', tables as they are' if own else ''}"
    return Fused("rotary_embedding", inputs, {0: m.root}, attributes, False, note, keywords, constant)


# --- Softmax of scaled and masked scores --------------------------------------------------------------------------

_SCORES = OneOf(Op("mul", Any("x"), Number("scale")), Any("x"))
_MASKED_SOFTMAX = OneOf(
    Op("softmax", _cast(Op("add", _SCORES, Any("mask")), "up"), axis=-1),
    Op("fused:scaled_masked_softmax", Op("mul", Any("x"), Number("scale")), Any("mask")),
)


def _build_masked_softmax(m: Match) -> Fused | Skip | None:
    if m["x"].shape is None or m["mask"].shape is None or len(m["mask"].shape) > len(m["x"].shape):
        return None
    if m.root.op.startswith("fused:") and m.root.attributes.get("scale") != 1.0:
        return None  # the product of two factors is rounded
    scale = m.number("scale") if "scale" in m else 1.0
    if not m["mask"].shape or any(
        s not in (1, w) for s, w in zip(m["mask"].shape[::-1], m["x"].shape[::-1], strict=False)
    ):
        return None
    note = f"scale {scale:g}; a row that is masked as a whole gives zeros"
    return Fused("scaled_masked_softmax", (m["x"], m["mask"]), {0: m.root}, {"scale": scale}, False, note)


def _build_softmax(m: Match) -> Fused | Skip | None:
    axis = m.root.attributes["axis"]
    return Fused("softmax", (m["x"],), {0: m.root}, {"axis": axis}) if isinstance(axis, int) else None


def _rows() -> Iterator[Row]:
    almost = Row("RMSNorm", "rms_norm", _ALMOST_RMS_NORM, _why_no_rms_norm)
    yield Row("add + RMSNorm", "add_rms_norm", _rms_norm(_sum()), _build_add_rms_norm, "O3")
    yield Row("RMSNorm", "rms_norm", _rms_norm(Any("x")), _build_rms_norm)
    yield almost
    yield Row("add + LayerNorm", "add_layer_norm", _layer_norm(_sum()), _build_add_layer_norm, "O3")
    yield Row("LayerNorm + ReLU", "layer_norm", Op("relu", _layer_norm(Any("x"))), _build_layer_norm("relu"))
    yield Row("LayerNorm", "layer_norm", _layer_norm(Any("x")), _build_layer_norm("none"))
    yield Row("GroupNorm + SiLU", "group_norm", _silu(_GROUP_NORM), _build_group_norm("silu"))
    yield Row("GroupNorm + ReLU", "group_norm", Op("relu", _GROUP_NORM), _build_group_norm("relu"))
    yield Row("GroupNorm", "group_norm", _GROUP_NORM, _build_group_norm("none"))
    yield Row("SwiGLU", "swiglu", _SILU_MUL, _build_swiglu)
    yield Row("SwiGLU", "swiglu", Op("swiglu", Any("x")), _build_swiglu_primitive)
    yield Row("SwiGLU", "silu_mul", _SILU_MUL, _build_silu_mul)
    yield Row("GeGLU", "geglu", _gated(_gelu), _build_geglu)
    yield Row("GeGLU", "gelu_mul", _gated(_gelu), _build_gelu_mul)
    yield Row("linear + activation", "matmul", _ACTIVATED, build_linear(_simple_activation), "O3")
    yield Row("linear + activation", "matmul", _GELU_OF_PRODUCT, build_linear(_gelu_activation), "O3")
    # What mint.nn.Linear executes takes a CPU some 4 ms whatever its size; nn.Dense is products and sums.
    yield Row("linear layer", "matmul", Op("linear", Any("y")), build_linear(None), "O3")
    yield Row("convolution", "conv2d", _ACTIVATED, build_convolution(_simple_activation), "O3")
    yield Row("convolution", "conv2d", _GELU_OF_PRODUCT, build_convolution(_gelu_activation), "O3")
    yield Row("convolution", "conv2d", _CONVOLUTION, build_convolution(None), "O3")
    yield Row("GELU", "gelu", _gelu(Any("x")), _build_gelu)
    yield Row("rotary embedding", "rotary_embedding", _ROTARY, _build_rotary)
    yield from attention_rows()
    yield Row("scale + mask + softmax", "scaled_masked_softmax", _MASKED_SOFTMAX, _build_masked_softmax)
    yield Row("softmax", "softmax", Op("softmax", Any("x")), _build_softmax)


PATTERNS: tuple[Row, ...] = tuple(_rows())


def _itself(m: Match) -> Fused:
    """The operator that is there."""
    return Fused(m.root.op.removeprefix("fused:"), m.root.inputs, {0: m.root}, dict(m.root.attributes))


# Operators of this package that are in a graph already, and may become one with the products in front of them.
PRESENT = (
    Row("SwiGLU", "silu_mul", Op("fused:silu_mul", Any("gate"), Any("up")), _itself, "O3"),
    Row("GeGLU", "gelu_mul", Op("fused:gelu_mul", Any("gate"), Any("up")), _itself, "O3"),
    Row("rotary embedding", "rotary_embedding", Op("fused:rotary_embedding", _X, _COS, _SIN), _itself, "O3"),
)
