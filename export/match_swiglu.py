"""The SwiGLU feed-forward layer: down(silu(gate(x)) * up(x)), recognised by its data flow.

The linear layers of a candidate are replaced by stand-ins that return random numbers and write down what they were
called with. Which one is gate, up or down, and that nothing else happens in between, follows from those calls whatever
the weights are; no matrix product runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mindspore import Tensor, nn
from ms_ascend_ops.export.outcome import Match, Skip
from ms_ascend_ops.export.probe import (
    Array,
    detached,
    dtype_name,
    inputs_of,
    observe,
    read,
    relative_error,
    round_to,
    sub_cells,
    tensor,
    ulp_error,
)
from ms_ascend_ops.export.replacements import PackedSwiGLUMLP, SwiGLUMLP

from ms_ascend_ops.registry import op_spec

__all__ = ["build_swiglu_mlp", "match_swiglu_mlp"]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


# What may be applied to the gate, with the reason why it is not fused. GELU's tanh and erf forms are 5e-4 apart.
_ACTIVATIONS: tuple[tuple[Callable[[Array], Array], float, str], ...] = (
    (lambda x: x * _sigmoid(x), 1e-5, ""),
    (_gelu, 2e-3, "its gate goes through GELU, not through SiLU"),
    (lambda x: np.maximum(x, 0), 1e-5, "its gate goes through ReLU, not through SiLU"),
    (_sigmoid, 1e-5, "its gate goes through a sigmoid, not through SiLU"),
)

# Where gate and up are in the output of one projection: name, gate, up, and the reason why it is not fused.
_LAYOUTS: tuple[tuple[str, Callable[[Array], tuple[Array, Array]], str], ...] = (
    ("gate first", lambda p: (p[..., : p.shape[-1] // 2], p[..., p.shape[-1] // 2 :]), ""),
    ("up first", lambda p: (p[..., p.shape[-1] // 2 :], p[..., : p.shape[-1] // 2]), ""),
    ("alternating", lambda p: (p[..., 0::2], p[..., 1::2]), ""),
    ("alternating, up first", lambda p: (p[..., 1::2], p[..., 0::2]), "gate and up alternate in it with up first"),
)


@dataclass
class _StandIn:
    """A linear layer for a probe: remembers its inputs and returns fixed values."""

    result: Tensor
    inputs: list[tuple[Array, str]] = field(default_factory=list)

    def __call__(self, x: Tensor) -> Tensor:
        self.inputs.append((read(x), dtype_name(x.dtype)))  # an operator in front of it may fail: now, not later
        return self.result


@dataclass(frozen=True)
class _Sizes:
    """Features of the cell's input, and of the output of each of its linear layers."""

    hidden: int
    outputs: dict[str, int]


@dataclass(frozen=True)
class _Flow:
    """What the linear layers of a cell were called with, in one run."""

    first: dict[str, Array]  # outputs of the layers that took the cell's input
    last: str  # the layer whose output is the cell's
    product: Array  # the input of that layer
    product_dtype: str


def match_swiglu_mlp(cell: nn.Cell) -> Match | Skip | None:
    """Say whether `cell` is a SwiGLU feed-forward layer, and which of its sub-cells plays which part."""
    if any(p is not None for p in cell._params.values()):
        return None
    children = sub_cells(cell)
    linear = {name: weight for name, child in children.items() if (weight := _matrix(child)) is not None}
    others = [child for name, child in children.items() if name not in linear]
    if len(linear) not in (2, 3) or any(list(child.get_parameters()) for child in others):
        return None
    sizes = _sizes(linear)
    if sizes is None:
        return None

    flow = _run(cell, sizes, "float32")
    found = None if isinstance(flow, str) else _parts(flow)
    if isinstance(flow, str) or found is None:
        return None
    parts, layout, reason = found
    if reason:
        return Skip(reason)
    if len(inputs_of(cell)) > 1:
        return Skip(f"its construct takes more than one input ({', '.join(inputs_of(cell))})")
    trained = _run(cell, sizes, "float32", training=True)
    if isinstance(trained, str) or not np.array_equal(trained.product, flow.product):
        return Skip("it does something else in training (dropout?)")

    stored = dtype_name(next(iter(linear.values())).dtype)
    if stored not in [row["T"] for row in op_spec("silu_mul").forward.types]:
        return Skip(f"its weights are {stored}, which the fused operator does not take")
    rounding = "" if stored == "float32" else _rounding(cell, sizes, stored, parts, layout)
    if isinstance(rounding, Skip):
        return rounding
    notes = [f"packed projection, {layout}" if layout else "", rounding]
    return Match({"parts": parts, "layout": layout}, "; ".join(note for note in notes if note))


def build_swiglu_mlp(cell: nn.Cell, match: Match) -> nn.Cell:
    """The fused feed-forward layer around the linear layers of the stock one."""
    parts, layout = match.arguments["parts"], match.arguments["layout"]
    if not layout:
        return SwiGLUMLP(cell, **parts)
    return PackedSwiGLUMLP(cell, interleaved=layout == "alternating", gate_first=layout != "up first", **parts)


def _matrix(child: nn.Cell) -> Any:
    """The weight of a linear layer: a cell without sub-cells that has one matrix, and perhaps vectors."""
    if sub_cells(child):
        return None
    parameters = [p for p in child._params.values() if p is not None]
    matrices = [p for p in parameters if p.ndim == 2]
    return matrices[0] if len(matrices) == 1 and all(p.ndim <= 2 for p in parameters) else None


def _sizes(linear: dict[str, Any]) -> _Sizes | None:
    """The sizes of a feed-forward layer, if these are the layers of one; matrices may be stored either way round."""
    for output_axis in (0, 1):
        sizes = {name: (w.shape[1 - output_axis], w.shape[output_axis]) for name, w in linear.items()}
        for last, (inner, hidden) in sizes.items():
            first = [size for name, size in sizes.items() if name != last]
            if all(size == (hidden, inner if len(first) == 2 else 2 * inner) for size in first):
                return _Sizes(hidden, {name: size[1] for name, size in sizes.items()})
    return None


def _run(cell: nn.Cell, sizes: _Sizes, dtype: str, training: bool = False) -> _Flow | str:
    """One run with stand-ins. A text says why it shows no feed-forward layer."""
    random = np.random.default_rng(3)
    x, *outputs = (
        round_to(2 * random.standard_normal((2, 3, size)), dtype) for size in (sizes.hidden, *sizes.outputs.values())
    )
    values = dict(zip(sizes.outputs, outputs, strict=True))
    stand_ins = {name: _StandIn(tensor(value, dtype)) for name, value in values.items()}
    seen = observe(detached(cell, cells=stand_ins, training=training), tensor(x, dtype))
    if seen.values is None:
        return str(seen.error)
    if any(len(stand_in.inputs) != 1 for stand_in in stand_ins.values()):
        return "a linear layer is not used once"
    inputs = {name: stand_in.inputs[0] for name, stand_in in stand_ins.items()}
    first = {name: value for name, value in values.items() if np.array_equal(inputs[name][0], x)}
    rest = [name for name in values if name not in first]
    if len(rest) != 1 or not np.array_equal(seen.values, values[rest[0]]):
        return "the linear layers do not form a feed-forward layer"
    return _Flow(first, rest[0], *inputs[rest[0]])


def _parts(flow: _Flow) -> tuple[dict[str, str], str, str] | None:
    """The name of each part, the layout of a packed projection ("" for two), why it cannot be fused ("" if it can)."""
    names = list(flow.first)
    if len(names) == 2:
        candidates = [({"gate": g, "up": u}, "", flow.first[g], flow.first[u], "") for g, u in (names, names[::-1])]
    else:
        candidates = [({"gate_up": names[0]}, *row) for row in _split(flow.first[names[0]])]
    for parts, layout, gate, up, reason in candidates:
        for activation, tolerance, unfused in _ACTIVATIONS:
            expected = activation(gate) * up
            if expected.shape == flow.product.shape and relative_error(flow.product, expected) < tolerance:
                return {**parts, "down": flow.last}, layout, unfused or reason
    return None


def _split(packed: Array) -> list[tuple[str, Array, Array, str]]:
    return [(name, *split(packed), reason) for name, split, reason in _LAYOUTS]


def _rounding(cell: nn.Cell, sizes: _Sizes, dtype: str, parts: dict[str, str], layout: str) -> str | Skip:
    """How the product in a half-precision format differs from the fused operator's, which rounds once."""
    flow = _run(cell, sizes, dtype)
    if isinstance(flow, str) and dtype == "bfloat16":  # many CPU kernels do not have it
        like = _rounding(cell, sizes, "float16", parts, layout)
        return like if isinstance(like, Skip) else "bfloat16 judged by float16"
    if isinstance(flow, str):
        return Skip(f"it does not run in {dtype} ({flow})")
    if flow.product_dtype != dtype:
        return Skip(f"its product is {flow.product_dtype} for {dtype} layers")
    if layout:
        gate, up = next(row[1:3] for row in _split(flow.first[parts["gate_up"]]) if row[0] == layout)
    else:
        gate, up = flow.first[parts["gate"]], flow.first[parts["up"]]
    ulps = ulp_error(flow.product, round_to(gate * _sigmoid(gate) * up, dtype), dtype)
    if ulps > 4:
        return Skip(f"its {dtype} product is {ulps:.0f} ULP away from the fused operator's")
    return f"{dtype} rounds once instead of twice (up to {ulps:.0f} ULP)"
