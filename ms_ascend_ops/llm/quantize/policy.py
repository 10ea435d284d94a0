"""Chooses a type for each unit of a network: as few bytes as a bound on the divergence of its predictions allows.

What rounding one unit does is measured: its int4 form stands in the network while the text runs from there to the end.
The divergence goes with the square of a small change, so for the other types it is that figure times the ratio of the
squared errors of the unit's outputs, and that of several units is the sum. From there on the choice is a knapsack: all
units begin with the fewest bytes, and the step that takes away most divergence a byte comes first. The sum is an
estimate; so what was chosen is run on text that the choice did not see, and the target of the sum is moved until that
keeps the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ms_ascend_ops.llm.layer import Layer
from ms_ascend_ops.llm.linear import FloatLinear
from ms_ascend_ops.llm.quantize.divergence import Divergence, divergence
from ms_ascend_ops.llm.quantize.forward import Forward
from ms_ascend_ops.llm.quantize.rounding import TYPES, floats_of, rounded
from ms_ascend_ops.llm.quantize.scaling import Calibration, output_error
from ms_ascend_ops.llm.quantize.units import Editable, Unit

__all__ = ["Choice", "Option", "chosen", "options", "searched", "table"]

Array = np.ndarray[Any, Any]

_ROUNDS = 8  # of moving the target once the bound is kept
_CLOSE = 0.8  # of the bound: no further search for fewer bytes


@dataclass(frozen=True)
class Option:
    """Describes a type of a unit: what it takes, and what it adds to the divergence, as estimated."""

    kind: str
    nbytes: int
    adds: float


@dataclass(frozen=True)
class Choice:
    """Holds the type of each unit, and what was measured with all of them."""

    plan: Mapping[str, str]
    target: float  # that the estimates were held to
    measured: Divergence


def options(
    editable: Editable, forward: Forward, windows: Sequence[Sequence[int]], inputs: Mapping[str, Calibration],
    states: Sequence[Sequence[Array]], group: int, progress: Callable[[str], None] = lambda _: None,
) -> dict[str, list[Option]]:  # fmt: skip
    """Return the types that each unit can have, by bytes.

    Args:
        editable: the network.
        forward: runs it.
        windows: tokens to measure on.
        inputs: what goes into the units of layers.
        states: in front of each layer, and behind the last, for each window.
        group: columns with one scale.
        progress: gets the name of each unit before it is measured.
    """
    expected = [forward.logits(state) for state in states[-1]]
    result = {}
    for unit in editable.units:
        progress(unit.name)
        measured = divergence(expected, list(_with_int4(editable, forward, windows, states, unit, group))).value
        rows = inputs[unit.name].rows if unit.layer is not None else _rows(editable, unit, windows, states)
        errors = {
            kind: sum(output_error(part.weight, kind, group, rows) for part in unit.parts)
            for kind in TYPES
        }  # fmt: skip
        whole = errors["int4"]
        result[unit.name] = [
            Option(kind, unit.nbytes(kind, group), measured * errors[kind] / whole if whole else 0.0)
            for kind in sorted(TYPES, key=lambda kind: (unit.nbytes(kind, group), errors[kind]))
        ]
    return result


def _with_int4(
    editable: Editable, forward: Forward, windows: Sequence[Sequence[int]], states: Sequence[Sequence[Array]],
    unit: Unit, group: int,
) -> Iterator[Array]:  # fmt: skip
    """Yield logits of each window with a unit in 4 bits."""
    changed = {id(one): FloatLinear(np.empty_like(one.weight), one.bias) for one in unit.linears()}
    for part in unit.parts:
        changed[id(part.linear)].weight[part.rows] = floats_of(rounded(part.weight, "int4", group))
    if unit.layer is not None:
        layer = _exchanged(editable.network.layers[unit.layer], unit.kind, changed)
        for state in states[unit.layer]:
            yield forward.logits_from(state, unit.layer, {unit.layer: layer})
        return
    (weight,) = (linear.weight for linear in changed.values())
    tied = editable.network.config.tied_embedding
    for index, tokens in enumerate(windows):
        if unit.kind == "head" and not tied:
            yield forward.logits(states[-1][index], weight)
            continue
        residual = forward.embedded(tokens, weight)
        for layer in editable.network.layers:
            residual = forward.layer(layer, residual)
        yield forward.logits(residual, weight if tied else None)


def _exchanged(layer: Layer, kind: str, changed: Mapping[int, FloatLinear]) -> Layer:
    if kind == "qkv":
        return replace(layer, products=tuple(changed[id(product)] for product in layer.products))
    one = changed[id(getattr(layer, kind))]
    if kind == "output":
        return replace(layer, output=one)
    return replace(layer, gate_up=one) if kind == "gate_up" else replace(layer, down=one)


def _rows(editable: Editable, unit: Unit, windows: Sequence[Sequence[int]], states: Sequence[Sequence[Array]]) -> Array:
    """Return what the embedding or the head is multiplied with: rows that choose tokens, or the last states."""
    if unit.kind == "embedding":
        tokens = np.unique(np.concatenate([np.asarray(window) for window in windows]))
        weight = unit.parts[0].weight
        # The error of the rows of these tokens is that of a product with the identity: as many columns as there are.
        return np.eye(weight.shape[1], dtype=np.float32) * np.float32(math.sqrt(len(tokens) / len(weight)))
    last = np.concatenate([state[0] for state in states[-1]])[:: max(1, len(windows))]
    rows: Array = last / np.sqrt(np.square(last).mean(1, keepdims=True)) * editable.network.norm
    return rows


def chosen(choices: Mapping[str, Sequence[Option]], target: float) -> dict[str, Option]:
    """Choose an option for each unit whose sum of divergences is at most `target`, where there is one, at few bytes.

    The best step is always taken: the one that takes away most divergence a byte, along the convex hull of each unit's
    options. Then what is left of the target is used: later steps are undone where the sum allows it.
    """
    hulls = {name: _hull(list(one)) for name, one in choices.items()}
    steps = sorted(
        (
            (low.adds - high.adds) / (high.nbytes - low.nbytes), name, place + 1
        )
        for name, hull in hulls.items()
        for place, (low, high) in enumerate(pairwise(hull))
    )  # fmt: skip
    places = dict.fromkeys(hulls, 0)

    def total() -> float:
        return math.fsum(hulls[name][place].adds for name, place in places.items())

    taken = []
    for _, name, place in reversed(steps):
        if total() <= target:
            break
        places[name] = place
        taken.append(name)
    for name in reversed(taken[:-1]):
        places[name] -= 1
        if total() > target:
            places[name] += 1
    return {name: hulls[name][place] for name, place in places.items()}


def _hull(one: Sequence[Option]) -> list[Option]:
    """Return the options on the lower convex hull: each further byte takes away less than those before it."""
    hull: list[Option] = []
    for option in sorted(one, key=lambda option: (option.nbytes, option.adds)):
        if not math.isfinite(option.adds) or (hull and option.adds >= hull[-1].adds):
            continue
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) <= _slope(hull[-1], option):
            hull.pop()
        if hull and hull[-1].nbytes == option.nbytes:
            hull.pop()
        hull.append(option)
    return hull


def _slope(low: Option, high: Option) -> float:
    return (low.adds - high.adds) / max(high.nbytes - low.nbytes, 1)


def searched(
    choices: Mapping[str, Sequence[Option]], bound: float, measure: Callable[[Mapping[str, str]], Divergence],
    progress: Callable[[Choice], None] = lambda _: None,
) -> Choice:  # fmt: skip
    """Search for the fewest bytes whose measured divergence is at most `bound`.

    Args:
        choices: the options of each unit.
        bound: nats a token.
        measure: runs a plan on held-out text.
        progress: gets every plan that was measured.
    """
    best: Choice | None = None
    low, high = 0.0, math.inf  # targets that keep the bound, and that do not
    target = bound
    known: dict[tuple[str, ...], Divergence] = {}
    for _ in range(64):
        plan = {name: option.kind for name, option in chosen(choices, target).items()}
        key = tuple(plan.values())
        if key not in known:
            known[key] = measure(plan)
            progress(Choice(plan, target, known[key]))
        measured = known[key]
        if measured.value <= bound:
            low = target
            best = Choice(plan, target, measured)
            if measured.value >= _CLOSE * bound or len(known) >= _ROUNDS or set(plan.values()) == {"int4"}:
                break
        else:
            high = target
            if best is not None and len(known) >= _ROUNDS:
                break
        if best is not None and high < 1.05 * low:
            break
        guess = target * 0.95 * bound / measured.value if measured.value > 0 else 2 * target
        if not low < guess < high:
            guess = math.sqrt(low * high) if low > 0 and high < math.inf else (2 * low if low > 0 else high / 2)
        target = guess
        if best is None and target < 1e-9 * bound:
            target = 0.0
    if best is None:  # every unit in float32 is the network itself
        plan = dict.fromkeys(choices, "float32")
        best = Choice(plan, 0.0, measure(plan))
    return best


def table(choices: Mapping[str, Sequence[Option]], plan: Mapping[str, str], bound: float) -> list[str]:
    """Return lines that say each unit's type, its size, what it adds, and why it is none with fewer bytes."""
    lines = [f"{'unit':20}{'type':>9}{'KiB':>10}{'adds':>11}  why"]
    for name, one in choices.items():
        option = next(option for option in one if option.kind == plan[name])
        smaller = [other for other in one if other.nbytes < option.nbytes and other.adds > option.adds]
        if not smaller:
            reason = "the fewest bytes"
        else:
            other = max(smaller, key=lambda other: other.nbytes)
            share = other.adds / bound
            reason = f"{other.kind} would add {other.adds:.2g}, {share:.1%} of the bound"
        if option.kind == "bfloat16":
            reason += "; float16 is less exact here"
        lines.append(f"{name:20}{option.kind:>9}{option.nbytes / 1024:>10.0f}{option.adds:>11.2g}  {reason}")
    return lines
