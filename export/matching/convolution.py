"""Recognises a convolution in two dims, and the bias and activation behind it, as one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any as Object

from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.matching.expr import Expr, is_call
from ms_ascend_ops.export.matching.match import Any, OneOf, Op
from ms_ascend_ops.export.matching.norms import group_arguments
from ms_ascend_ops.export.matching.rows import Fused, Match, Skip, typed

from ms_ascend_ops.convolution import PADDINGS, named_padding

__all__ = [
    "BATCH_NORM",
    "CONVOLUTION",
    "build_convolution",
    "build_convolution_batch_norm",
    "build_convolution_norm",
    "of_mint",
    "of_primitive",
]


def of_primitive(node: Node, inputs: list[Expr]) -> Expr | None:
    """Read Conv2D(x, weight), with what `ops.conv2d` calls its settings."""
    a = node.attributes
    if a.get("mode", 1) != 1 or a.get("format", a.get("data_format", "NCHW")) not in ("NCHW", 0):
        return None
    mode = a["pad_mode"]
    found = {
        "stride": tuple(a["stride"])[-2:],
        "padding": tuple(a["pad"]) if mode == "pad" else mode,
        "dilation": tuple(a["dilation"])[-2:],
        "groups": a.get("group", a.get("groups", 1)),
        "data_format": "NCHW",
    }
    return Expr("conv2d", tuple(inputs[:2]), found, node) if _are_settings(found) else None


def of_mint(node: Node, inputs: list[Expr]) -> Expr | None:
    """Read Conv2DExt(x, weight, bias, stride, padding, dilation, groups), or Conv2DPadding, of named paddings."""
    x, weight, bias, *values = inputs
    stride, padding, dilation, groups = (value.attributes["value"] for value in values)
    named = PADDINGS.get(padding, padding) if node.kind == "Conv2DPadding" else ""
    found = {
        "stride": tuple(stride),
        "padding": named or (padding[0], padding[0], padding[1], padding[1]),
        "dilation": tuple(dilation),
        "groups": groups,
        "data_format": "NCHW",
    }
    given = () if bias.op == "constant" and bias.attributes["value"] is None else (bias,)
    return Expr("conv2d", (x, weight, *given), found, node) if _are_settings(found) else None


def _are_settings(found: dict[str, Object]) -> bool:
    """Tell whether these are names and numbers of a convolution: a file may have anything there."""
    stride, padding, dilation = found["stride"], found["padding"], found["dilation"]
    sides = (0,) * 4 if padding in ("same", "valid") else padding
    numbers = [*stride, *sides, *dilation, found["groups"]]
    return (len(stride), len(sides), len(dilation)) == (2, 4, 2) and all(type(number) is int for number in numbers)


CONVOLUTION = OneOf(*(Op(name, Any("y")) for name in ("bias_add", "add", "conv2d")))


def build_convolution(activation: Callable[[Match], str] | None) -> Callable[[Match], Fused | Skip | None]:
    """Return what builds the operator for a convolution, or for a place whose activation has one as its input `z`."""

    def build(m: Match) -> Fused | Skip | None:
        z = m.root if activation is None else m["z"]
        found, bias = _parts(z)
        name = "none" if activation is None else activation(m)
        # A layer that was called, and has no activation behind it, is a place of its own.
        if found is None or not name or (activation is None and is_call(found)):
            return None
        x, weight = found.inputs[:2]
        if not x.shape or not weight.shape or len(x.shape) != 4 or len(weight.shape) != 4:
            return None
        keywords = {**found.attributes, "activation": name}
        attributes = _attributes(keywords, x.shape, weight.shape)
        if attributes is None:
            return Skip("its padding follows from sizes that are not known")
        note = f"{weight.shape[2]} x {weight.shape[3]}" + ("" if name == "none" else f", {name}")
        note += ", with bias" if bias else ""
        return Fused("conv2d", (x, weight, *bias), {0: m.root}, attributes, False, note, keywords, cast=(1,))

    return build


BATCH_NORM = Op("batch_norm", Any("z"), Any("gamma"), Any("beta"), Any("mean"), Any("variance"), name="norm")


def build_convolution_batch_norm(activation: str) -> Callable[[Match], Fused | Skip | None]:
    """Return what builds the operator for a batch normalization, with given statistics, of a convolution."""

    def build(m: Match) -> Fused | Skip | None:
        found, bias = _parts(m["z"])
        if found is None:
            return None
        x, weight = found.inputs[:2]
        if not x.shape or not weight.shape or len(x.shape) != 4 or len(weight.shape) != 4:
            return None
        epsilon = typed(m["norm"].attributes["epsilon"])
        keywords = {**found.attributes, "epsilon": epsilon, "activation": activation}
        attributes = _attributes(keywords, x.shape, weight.shape)
        if attributes is None:
            return Skip("its padding follows from sizes that are not known")
        inputs = (x, weight, m["gamma"], m["beta"], m["mean"], m["variance"], *bias)
        note = f"{weight.shape[2]} x {weight.shape[3]}, eps {epsilon:g}"
        note += ("" if activation == "none" else f", {activation}") + "; outside training"
        attributes["epsilon"] = epsilon
        return Fused("conv2d_batch_norm", inputs, {0: m.root}, attributes, False, note, keywords, cast=(1,))

    return build


def build_convolution_norm(activation: str) -> Callable[[Match], Fused | Skip | None]:
    """Return what builds the operator for a GroupNorm of a convolution with a bias and a value a channel and sample."""

    def build(m: Match) -> Fused | Skip | None:
        z = m["x"]
        if z.op != "add":
            return None  # without that it is no faster than two operators
        for convolution, other in (z.inputs, z.inputs[::-1]):
            (found, bias), shift = _parts(convolution), _of_channels(other, z.shape)
            if found is None or shift is None or len(bias) != 1:
                continue
            x, weight = found.inputs[:2]
            arguments = group_arguments(m)
            if not isinstance(arguments, dict) or not x.shape or not weight.shape or len(x.shape) != 4:
                return arguments if isinstance(arguments, Skip) else None
            keywords = {**found.attributes, **arguments, "activation": activation}
            attributes = _attributes(keywords, x.shape, weight.shape)
            if attributes is None:
                return Skip("its padding follows from sizes that are not known")
            inputs = (x, weight, m["gamma"], m["beta"], *bias, shift)
            note = f"{weight.shape[2]} x {weight.shape[3]}, {arguments['num_groups']} groups"
            note += f", eps {arguments['epsilon']:g}" + ("" if activation == "none" else f", {activation}")
            outputs = {0: m.root, 1: z}
            return Fused("conv2d_group_norm", inputs, outputs, attributes | arguments, False, note, keywords, cast=(1,))
        return None

    return build


def _of_channels(values: Expr, z: tuple[int, ...] | None) -> Expr | None:
    """Return the tensor (n, c) of what is added to (n, c, h, w) at all positions."""
    channels = tuple(z[:2]) if z and len(z) == 4 else ()
    if not channels or values.shape != (*channels, 1, 1):
        return None
    while values.op in ("expand_dims", "reshape") and values.inputs and values.shape != channels:
        values = values.inputs[0]
    return values if values.shape == channels else None


def _parts(z: Expr) -> tuple[Expr | None, tuple[Expr, ...]]:
    """Return the convolution in an expression, and the vector that is added to it."""
    bias: tuple[Expr, ...] = ()
    if z.op == "bias_add":
        z, *bias = z.inputs  # type: ignore[assignment]
    elif z.op == "add":
        z, other = z.inputs if z.inputs[0].op == "conv2d" else z.inputs[::-1]
        vector = other.inputs[0] if other.op == "reshape" and other.inputs else other
        if vector.shape is None or len(vector.shape) != 1 or other.shape != (1, *vector.shape, 1, 1):
            return None, ()
        bias = (vector,)
    if z.op != "conv2d" or (bias and len(z.inputs) > 2):
        return None, ()
    return z, (*z.inputs[2:], *bias)


def _attributes(keywords: dict[str, Object], x: tuple[int, ...], weight: tuple[int, ...]) -> dict[str, Object] | None:
    """Return the attributes of the operator; None where a padding follows from sizes that are not known."""
    a, padding = keywords, keywords["padding"]
    if isinstance(padding, str):
        try:
            padding = named_padding(padding, x[2:], weight[2:], a["stride"], a["dilation"])
        except ValueError:
            return None
    names = ("pad_top", "pad_bottom", "pad_left", "pad_right")
    return {
        **{f"{name}_{dim}": a[name][i] for name in ("stride", "dilation") for i, dim in enumerate("hw")},
        **dict(zip(names, padding, strict=True)),
        **{name: a[name] for name in ("groups", "activation", "data_format")},
    }
