"""Recognises activations and what they gate, and builds the operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any as Object

from ms_ascend_ops.export.matching.match import Any, Near, OneOf, Op, Pattern
from ms_ascend_ops.export.matching.rows import Fused, Match, Skip, same_shape

__all__ = [
    "ACTIVATED",
    "GELU_OF_PRODUCT",
    "SILU_MUL",
    "activations",
    "any_gelu",
    "build_geglu",
    "build_gelu",
    "build_gelu_mul",
    "build_silu_mul",
    "build_swiglu",
    "build_swiglu_primitive",
    "gated",
    "gelu",
    "gelu_activation",
    "silu",
    "simple_activation",
]


def _product(*factors: Pattern) -> Pattern:
    """Return the pattern of a product of three, in any order of multiplying."""
    a, b, c = factors
    return OneOf(*(Op("mul", Op("mul", *pair), third) for *pair, third in ((a, b, c), (a, c, b), (b, c, a))))


def silu(x: Pattern) -> Pattern:
    """Return the pattern of SiLU: x * sigmoid(x)."""
    return OneOf(Op("silu", x, name="builtin"), Op("mul", x, Op("sigmoid", x)))


_ROOT = math.sqrt(2 / math.pi)


def gelu(x: Pattern) -> Pattern:
    """Return the pattern of GELU, by tanh or by the error function."""
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


def any_gelu(x: Pattern) -> Pattern:
    """Return the pattern of GELU, or of the operator that is there in its place already, as under `cpu_builtins`."""
    return OneOf(gelu(x), Op("fused:gelu", x, name="builtin"))


def _approximate(m: Match) -> str:
    if "builtin" in m:
        return str(m["builtin"].attributes["approximate"])
    return "tanh" if "tanh" in m else "none"


def _note(approximate: str) -> str:
    return "erf" if approximate == "none" else approximate


def build_gelu(m: Match) -> Fused | Skip | None:
    """Build `gelu`."""
    approximate = _approximate(m)
    if approximate not in ("none", "tanh"):
        return None
    return Fused("gelu", (m["x"],), {0: m.root}, {"approximate": approximate}, "builtin" in m, _note(approximate))


def simple_activation(m: Match) -> str:
    """Return what the operator calls an activation that is no GELU."""
    return "relu" if m.root.op == "relu" else "silu"


def gelu_activation(m: Match) -> str:
    """Return what the operator calls a GELU; nothing if it has not that one."""
    return {"none": "gelu", "tanh": "gelu_tanh"}.get(_approximate(m), "")


_PRODUCT = Any("z")
ACTIVATED = OneOf(Op("relu", _PRODUCT), silu(_PRODUCT))
GELU_OF_PRODUCT = any_gelu(_PRODUCT)


def activations(x: Pattern) -> dict[str, Pattern]:
    """Return the activations that an operator behind a convolution may have, by the names of its attribute."""
    plain = {name: Op(name, x) for name in ("relu", "relu6", "hard_swish")}
    return {**plain, "silu": silu(x), "none": x}


def gated(activation: Callable[[Pattern], Pattern]) -> Pattern:
    """Return the pattern of activation(gate) * up."""
    gate, up = Any("gate"), Any("up")
    return Op("mul", activation(gate), up)


SILU_MUL = OneOf(
    gated(silu),
    _product(Any("gate"), Op("sigmoid", Any("gate")), Any("up")),
)


def _halves(m: Match) -> dict[str, Object] | None:
    """Return how gate and up lie in one tensor, if they do: as arguments of swiglu."""
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


def build_silu_mul(m: Match) -> Fused | Skip | None:
    """Build `silu_mul`, of gate and up in two tensors."""
    if not same_shape(m["gate"], m["up"]):
        return None
    return Fused("silu_mul", (m["gate"], m["up"]), {0: m.root}, exact=False)


def build_swiglu(m: Match) -> Fused | Skip | None:
    """Build `swiglu`, of gate and up in one tensor."""
    arguments = _halves(m)
    if arguments is None:
        return None
    note = "alternating" if arguments["interleaved"] else "gate first"
    return Fused("swiglu", m["gate"].inputs, {0: m.root}, arguments, False, note)


def build_swiglu_primitive(m: Match) -> Fused | Skip | None:
    """Build `swiglu`, in the place of MindSpore's own."""
    return Fused("swiglu", (m["x"],), {0: m.root}, {"axis": m.root.attributes["axis"], "interleaved": False})


def build_gelu_mul(m: Match) -> Fused | Skip | None:
    """Build `gelu_mul`, of gate and up in two tensors."""
    if not same_shape(m["gate"], m["up"]) or _approximate(m) not in ("none", "tanh"):
        return None
    approximate = _approximate(m)
    inputs = m["gate"], m["up"]
    return Fused("gelu_mul", inputs, {0: m.root}, {"approximate": approximate}, False, _note(approximate))


def build_geglu(m: Match) -> Fused | Skip | None:
    """Build `geglu`, of gate and up in one tensor."""
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
