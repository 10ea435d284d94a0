"""Compares two records layer by layer, and finds the first place that differs by more than rounding explains.

A place is explained if the difference of its outputs, beside their magnitude, is at most `FACTOR` times

    the precision of the less precise dtype of the two, plus the difference of its inputs,

or, where both layers are at hand, if layer A on the inputs of B gives what B gave but for `FACTOR` times how far A
moves when these inputs move by a rounding. So a difference that came in is not blamed on who passes it on, nor one that
a cancellation enlarges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ms_ascend_ops.acceptance import EPSILON, LARGEST, ulps
from ms_ascend_ops.debug.dump import Layer, Record, Value
from ms_ascend_ops.debug.pairs import pairs

__all__ = ["FACTOR", "Comparison", "Place", "Worst", "compare"]

FACTOR = 16.0
_ACROSS = 0.95  # of the largest number of a dtype


@dataclass(frozen=True)
class Worst:
    """Names the element that differs most."""

    index: tuple[int, ...]
    a: float
    b: float
    ulps: float
    relative: float


@dataclass
class Place:
    """Describes one layer of both networks, and how its outputs differ.

    Args:
        name: that of the layer.
        kind: its class, or both.
        dtypes: of the first output on both sides.
        shape: of the first output.
    """

    name: str
    kind: str
    dtypes: tuple[str, str]
    shape: tuple[int, ...]
    difference: float = 0.0  # root of the mean square, beside that of B
    incoming: float = 0.0  # the same of the inputs
    bound: float = 0.0  # what is explained
    largest: float = 0.0  # absolute
    cosine: float = 1.0  # similarity of both sides
    worst: Worst | None = None  # the element that differs most
    isolated: float | None = None  # difference of A on the inputs of B
    problem: str = ""  # why they cannot be compared: another shape, another number of outputs
    overflow: str = ""  # NaN, Inf or close to it on one side, where the inputs had none
    values: bool = True  # False: statistics alone were compared

    @property
    def explained(self) -> bool:
        """Tell whether rounding explains the difference."""
        found = self.difference if self.isolated is None else self.isolated
        return not self.problem and found <= self.bound

    def __str__(self) -> str:
        text = f"{self.name} ({self.kind}): differs by {self.difference:.2e}, explained {self.bound:.2e}"
        if self.worst is not None:
            worst = self.worst
            text += f"; worst at {worst.index}: {worst.a:.8g} and {worst.b:.8g}, {worst.ulps:.3g} ULP"
        return f"{self.name} ({self.kind}): {self.problem}" if self.problem else text


@dataclass
class Comparison:
    """Says how two records differ.

    Args:
        a, b: titles of the records.
        places: the layers that both have, in their order.
        only_a, only_b: layers that one side alone has.
        blame_text: what `blame` found, in words.
    """

    a: str
    b: str
    places: list[Place] = field(default_factory=list)
    only_a: list[str] = field(default_factory=list)
    only_b: list[str] = field(default_factory=list)
    blamed: list[str] | None = None  # fused operators whose replacement takes the difference away
    blame_text: str = ""

    @property
    def first(self) -> Place | None:
        """Return the first place that rounding does not explain; None: there is none."""
        return next((place for place in self.places if not place.explained), None)

    @property
    def first_overflow(self) -> Place | None:
        """Return the first place where one side alone overflows; None: there is none."""
        return next((place for place in self.places if place.overflow), None)

    @property
    def equal(self) -> bool:
        """Tell whether rounding explains every place, and nothing overflows on one side alone."""
        return bool(self.places) and self.first is None and not any(place.overflow for place in self.places)


def compare(a: Record, b: Record) -> Comparison:
    """Compare two records: pair their layers, and compare what they gave.

    Layers of the same name and call are pairs; of MindIRs, values that mean the same (pairs.py). Those that only one
    has are listed.

    Args:
        a: the record of one network.
        b: that of the other, beside whose magnitudes differences are taken.
    """
    found = Comparison(a.title, b.title)
    found_pairs = list(pairs(a, b))
    taken_a, taken_b = {id(one) for one, _ in found_pairs}, {id(other) for _, other in found_pairs}
    found.only_a = [layer.label for layer in a.layers if id(layer) not in taken_a]
    found.only_b = [layer.label for layer in b.layers if id(layer) not in taken_b]
    so_far = 0.0
    for one, other in found_pairs:
        place = _compared(one, other, so_far)
        so_far = max(so_far, 0.0 if place.problem else min(place.difference, 1.0))
        found.places.append(place)
    return found


def _compared(a: Layer, b: Layer, so_far: float) -> Place:
    shape = b.outputs[0].shape if b.outputs else ()
    dtypes = (a.outputs[0].dtype if a.outputs else "", b.outputs[0].dtype if b.outputs else "")
    place = Place(b.label, a.kind if a.kind == b.kind else f"{a.kind} / {b.kind}", dtypes, shape)
    if len(a.outputs) != len(b.outputs):
        place.problem = f"{len(a.outputs)} and {len(b.outputs)} outputs"
        return place
    if any(one.shape != other.shape for one, other in zip(a.outputs, b.outputs, strict=True)):
        place.problem = f"shapes {[one.shape for one in a.outputs]} and {[one.shape for one in b.outputs]}"
        return place
    precision = max((EPSILON.get(value.dtype, 0.0) for value in (*a.outputs, *b.outputs)), default=0.0)
    if a.inputs and b.inputs and len(a.inputs) == len(b.inputs):
        same = [one.shape == other.shape for one, other in zip(a.inputs, b.inputs, strict=True)]
        place.incoming = max(map(_difference, a.inputs, b.inputs)) if all(same) else so_far
        precision = max([precision, *(EPSILON.get(value.dtype, 0.0) for value in (*a.inputs, *b.inputs))])
    else:
        place.incoming = so_far
    place.bound = FACTOR * (precision + min(place.incoming, 1.0))
    place.values = all(value.values is not None for value in (*a.outputs, *b.outputs))
    place.difference = max(map(_difference, a.outputs, b.outputs), default=0.0)
    place.overflow = _overflow(a, b)
    _describe(place, a.outputs, b.outputs)
    if not place.explained:
        _isolate(place, a, b, precision)
    return place


def _difference(a: Value, b: Value) -> float:
    """Return the root of the mean square of the difference beside that of B; of
    statistics, where there are no values.
    """
    if a.values is None or b.values is None:
        return _of_statistics(a, b)
    x, y = a.values.astype(np.float64), b.values.astype(np.float64)
    if not x.size:
        return 0.0
    both = np.isfinite(x) & np.isfinite(y)
    special = ~both & ~((x == y) | (np.isnan(x) & np.isnan(y)))
    if special.any():
        return float("inf")
    if not both.any():
        return 0.0
    scale = _root(y[both]) or _root(x[both])
    return _root(x[both] - y[both]) / scale if scale else 0.0


def _root(values: NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _of_statistics(a: Value, b: Value) -> float:
    found = 0.0
    norm = b.statistics.get("Norm") or 0.0
    for key in ("Max", "Min", "Mean", "Norm"):
        x, y = a.statistics.get(key), b.statistics.get(key)
        if x is None or y is None:
            continue
        if not np.isfinite(x) or not np.isfinite(y):
            found = max(found, 0.0 if x == y or (np.isnan(x) and np.isnan(y)) else float("inf"))
            continue
        count = float(np.prod(b.shape)) or 1.0
        scale = norm if key == "Norm" else max(abs(b.statistics.get("Max") or 0), abs(b.statistics.get("Min") or 0))
        scale = scale or norm / count**0.5
        found = max(found, abs(x - y) / scale if scale else float(x != y))
    return found


def _describe(place: Place, a: Sequence[Value], b: Sequence[Value]) -> None:
    """Describe the worst element of the output that differs most."""
    known = [(x, y) for x, y in zip(a, b, strict=True) if x.values is not None and y.values is not None]
    if not known:
        return
    x, y = max(known, key=lambda pair: _difference(*pair))
    left, right = x.values.astype(np.float64), y.values.astype(np.float64)  # type: ignore[union-attr]
    if not left.size:
        return
    with np.errstate(all="ignore"):
        apart = np.abs(left - right)
        apart = np.where(np.isnan(apart), np.where(np.isnan(left) & np.isnan(right), 0.0, np.inf), apart)
        apart = np.where(left == right, 0.0, apart)
        index = np.unravel_index(int(np.argmax(apart)), left.shape)
        one, other, off = float(left[index]), float(right[index]), float(apart[index])
        dtype = max((x.dtype, y.dtype), key=lambda name: EPSILON.get(name, 0.0))
        units = float(ulps(one, other, dtype)) if dtype in EPSILON else float("nan")
        norms = float(np.linalg.norm(left) * np.linalg.norm(right))
        place.cosine = float(np.vdot(left, right) / norms) if norms else 1.0
    place.largest = off
    relative = off / abs(other) if other else (0.0 if off == 0 else float("inf"))
    place.worst = Worst(tuple(int(i) for i in index), one, other, units, relative)


def _overflow(a: Layer, b: Layer) -> str:
    """Return what overflows on one side alone: what both have, as the -inf of a mask, is meant."""
    found = {side: _overflow_of(layer) for side, layer in (("A", a), ("B", b))}
    return next((f"{side}: {text}" for side, text in found.items() if text), "") if not all(found.values()) else ""


def _overflow_of(layer: Layer) -> str:
    if any(_is_special(value) for value in layer.inputs):
        return ""
    for i, value in enumerate(layer.outputs):
        if _is_special(value):
            return f"output {i} holds NaN or Inf" + (", and no input does" if layer.inputs else "")
        limit = LARGEST.get(value.dtype)
        largest = max(abs(value.statistics.get(key) or 0.0) for key in ("Max", "Min"))
        if limit is not None and largest > _ACROSS * limit:
            return f"output {i} reaches {largest:.4g}, the largest {value.dtype} is {limit:.4g}"
    return ""


def _is_special(value: Value) -> bool:
    if value.values is not None:
        return value.values.dtype.kind == "f" and not bool(np.all(np.isfinite(value.values)))
    return any(one is not None and not np.isfinite(one) for one in value.statistics.values())


def _isolate(place: Place, a: Layer, b: Layer, precision: float) -> None:
    """Call layer A with what B was called with, and with that moved by a rounding."""
    if a.cell is None or not b.arguments:
        return
    from ms_ascend_ops.debug.again import moved_outputs, outputs_on  # noqa: PLC0415 - needs MindSpore

    again = outputs_on(a.cell, b.arguments)
    if again is None or [value.shape for value in again] != [value.shape for value in b.outputs]:
        return
    moved = moved_outputs(a.cell, b.arguments, precision)
    reach = max(map(_difference, moved, again)) if moved is not None else 0.0
    place.isolated = max(map(_difference, again, b.outputs))
    place.bound = FACTOR * max(precision, reach)
