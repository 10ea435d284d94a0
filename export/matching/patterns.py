"""Lists the places where a fused operator belongs in a table.

One row per pattern: its name, what it looks like, what is built there, and at which level. All engines use this table,
and a new pattern is a new row. Rows stand in the order in which they are tried: what covers more comes first.
"""

from __future__ import annotations

from collections.abc import Iterator

from ms_ascend_ops.export.matching import gates, norms
from ms_ascend_ops.export.matching.attention import attention_rows
from ms_ascend_ops.export.matching.convolution import (
    BATCH_NORM,
    CONVOLUTION,
    build_convolution,
    build_convolution_batch_norm,
    build_convolution_norm,
)
from ms_ascend_ops.export.matching.linear import LINEAR, build_linear
from ms_ascend_ops.export.matching.match import Any, Number, OneOf, Op, cast
from ms_ascend_ops.export.matching.rotary import COS, ROTARY, SIN, X, build_rotary
from ms_ascend_ops.export.matching.rows import LEVELS, Fused, Match, Row, Skip

__all__ = ["LEVELS", "PATTERNS", "PRESENT", "Fused", "Match", "Row", "Skip"]


# --- Softmax of scaled and masked scores --------------------------------------------------------------------------

_SCORES = OneOf(Op("mul", Any("x"), Number("scale")), Any("x"))
_MASKED_SOFTMAX = OneOf(
    Op("softmax", cast(Op("add", _SCORES, Any("mask")), "up"), axis=-1),
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
    almost = Row("RMSNorm", "rms_norm", norms.ALMOST_RMS_NORM, norms.why_no_rms_norm)
    yield Row("add + RMSNorm", "add_rms_norm", norms.rms_norm(norms.sum_of_two()), norms.build_add_rms_norm, "O3")
    yield Row("RMSNorm", "rms_norm", norms.rms_norm(Any("x")), norms.build_rms_norm)
    yield almost
    yield Row(
        "add + LayerNorm", "add_layer_norm", norms.layer_norm(norms.sum_of_two()), norms.build_add_layer_norm, "O3"
    )
    yield Row("LayerNorm + ReLU", "layer_norm", Op("relu", norms.layer_norm(Any("x"))), norms.build_layer_norm("relu"))
    yield Row("LayerNorm", "layer_norm", norms.layer_norm(Any("x")), norms.build_layer_norm("none"))
    yield Row("LayerNorm", "layer_norm", norms.plain_layer_norm(Any("x")), norms.build_plain_layer_norm)
    activated = {"silu": gates.silu(norms.GROUP_NORM), "relu": Op("relu", norms.GROUP_NORM), "none": norms.GROUP_NORM}
    for activation, pattern in activated.items():
        build = build_convolution_norm(activation)
        yield Row("convolution + GroupNorm", "conv2d_group_norm", pattern, build, "O3")
    for activation, pattern in gates.activations(BATCH_NORM).items():
        build = build_convolution_batch_norm(activation)
        yield Row("convolution + BatchNorm", "conv2d_batch_norm", pattern, build, "O3", evaluation=True)
    yield Row("GroupNorm + SiLU", "group_norm", gates.silu(norms.GROUP_NORM), norms.build_group_norm("silu"))
    yield Row("GroupNorm + ReLU", "group_norm", Op("relu", norms.GROUP_NORM), norms.build_group_norm("relu"))
    yield Row("GroupNorm", "group_norm", norms.GROUP_NORM, norms.build_group_norm("none"))
    yield Row("SwiGLU", "swiglu", gates.SILU_MUL, gates.build_swiglu)
    yield Row("SwiGLU", "swiglu", Op("swiglu", Any("x")), gates.build_swiglu_primitive)
    yield Row("SwiGLU", "silu_mul", gates.SILU_MUL, gates.build_silu_mul)
    yield Row("GeGLU", "geglu", gates.gated(gates.any_gelu), gates.build_geglu)
    yield Row("GeGLU", "gelu_mul", gates.gated(gates.any_gelu), gates.build_gelu_mul)
    yield Row("linear + activation", "matmul", gates.ACTIVATED, build_linear(gates.simple_activation), "O3")
    yield Row("linear + activation", "matmul", gates.GELU_OF_PRODUCT, build_linear(gates.gelu_activation), "O3")
    # mint.nn.Linear takes a CPU some 4 ms whatever its size; an nn.Dense with a bias is two to four operators.
    yield Row("linear layer", "matmul", LINEAR, build_linear(None), "O3")
    yield Row("convolution", "conv2d", gates.ACTIVATED, build_convolution(gates.simple_activation), "O3")
    yield Row("convolution", "conv2d", gates.GELU_OF_PRODUCT, build_convolution(gates.gelu_activation), "O3")
    yield Row("convolution", "conv2d", CONVOLUTION, build_convolution(None), "O3")
    yield Row("GELU", "gelu", gates.gelu(Any("x")), gates.build_gelu)
    yield Row("rotary embedding", "rotary_embedding", ROTARY, build_rotary)
    yield from attention_rows()
    yield Row("scale + mask + softmax", "scaled_masked_softmax", _MASKED_SOFTMAX, _build_masked_softmax)
    yield Row("softmax", "softmax", Op("softmax", Any("x")), _build_softmax)


PATTERNS: tuple[Row, ...] = tuple(_rows())


def _itself(m: Match) -> Fused:
    """Build the operator that is there."""
    return Fused(m.root.op.removeprefix("fused:"), m.root.inputs, {0: m.root}, dict(m.root.attributes))


# Operators of this package that are in a graph already, and may become one with the products in front of them.
PRESENT = (
    Row("SwiGLU", "silu_mul", Op("fused:silu_mul", Any("gate"), Any("up")), _itself, "O3"),
    Row("GeGLU", "gelu_mul", Op("fused:gelu_mul", Any("gate"), Any("up")), _itself, "O3"),
    Row("rotary embedding", "rotary_embedding", Op("fused:rotary_embedding", X, COS, SIN), _itself, "O3"),
)
