"""RMSNorm: y = x / sqrt(mean(x^2, -1) + epsilon) * weight, recognised by what a cell computes.

A candidate is a cell without sub-cells that has one vector as its only parameter. It runs on inputs of known values,
first in float32 to learn the formula and epsilon, then in every dtype that the fused operator takes together with the
dtype of the weight, to learn where it rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.cells import RMSNorm
from ms_ascend_ops.export.outcome import Match, Skip
from ms_ascend_ops.export.probe import (
    Array,
    Observation,
    detached,
    dtype_name,
    inputs_of,
    observe,
    relative_error,
    round_to,
    sub_cells,
    tensor,
    ulp_error,
)

from ms_ascend_ops.registry import op_spec

__all__ = ["build_rms_norm", "match_rms_norm"]

# Root mean squares of the rows of a probe. The small ones show epsilon and where it stands; different rows in one
# tensor show a mean that is taken over more than a row.
_SCALES = (1e-4, 1e-3, 3e-3, 0.1, 1.0, 30.0)
_HALF_SCALES = (0.05, 0.3, 1.0, 2.0, 4.0, 8.0)  # squares and their sums stay far from float16's largest number


def _rms_unit(x: Array, epsilon: float) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon))


def _layer_unit(x: Array, epsilon: float) -> Array:
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon))


@dataclass(frozen=True)
class _Formula:
    """y = unit(x, epsilon) * (weight + offset), in float64."""

    unit: Callable[[Array, float], Array]
    offset: float
    scheme: str  # of the fused operator; "" for a norm that it does not compute
    reason: str = ""


_FORMULAS = (
    _Formula(_rms_unit, 0.0, "llama"),
    _Formula(_rms_unit, 1.0, "gemma"),
    _Formula(_layer_unit, 0.0, "", "it subtracts the mean, as LayerNorm does"),
    _Formula(_layer_unit, 1.0, "", "it subtracts the mean, as LayerNorm does"),
)


@dataclass(frozen=True)
class _Found:
    scheme: str
    epsilon: float


@dataclass(frozen=True)
class _Rounding:
    """Where a cell rounds in one dtype: as the fused operator (empty), nearly so (a note), or not (a problem)."""

    note: str = ""
    problem: str = ""


def match_rms_norm(cell: nn.Cell) -> Match | Skip | None:
    """Say whether `cell` computes an RMSNorm, with which epsilon and in which half-precision scheme."""
    parameters = [(name, p) for name, p in cell._params.items() if p is not None]
    if sub_cells(cell) or len(parameters) != 1 or parameters[0][1].ndim != 1 or parameters[0][1].size < 2:
        return None
    name, weight = parameters[0]
    random = np.random.default_rng(0)
    w = random.choice([-0.75, -0.5, 0.25, 0.75, 1.25, 1.75], weight.size) + random.uniform(-0.1, 0.1, weight.size)

    found = _formula(cell, name, round_to(w, "float32"))
    if not isinstance(found, _Found):
        return found
    if len(inputs_of(cell)) > 1:
        return Skip(f"its construct takes more than one input ({', '.join(inputs_of(cell))})")
    if not found.epsilon > 0:
        return Skip("it has no epsilon, and the fused operator needs one > 0")

    stored = dtype_name(weight.dtype)
    dtypes = [row["T"] for row in op_spec("rms_norm").forward.types if row["G"] == stored]
    if stored not in dtypes:
        return Skip(f"its weight is {stored}, which the fused operator does not take")
    rounding = {dtype: _rounding(cell, name, round_to(w, stored), stored, dtype, found) for dtype in dtypes}
    if rounding[stored].problem:
        return Skip(rounding[stored].problem)
    refused = {dtype: r.problem for dtype, r in rounding.items() if r.problem}
    arguments = {"parameter": name, "epsilon": found.epsilon, "scheme": found.scheme, "refused": refused}
    notes = [f"eps {found.epsilon:g}, {found.scheme}", *(r.note for r in rounding.values() if r.note)]
    if refused:
        notes.append(f"refuses {' and '.join(refused)} input")
    return Match(arguments, "; ".join(notes))


def build_rms_norm(cell: nn.Cell, match: Match) -> nn.Cell:
    """The fused cell, with the parameter of the stock one under the attribute name that it has there."""
    name = match.arguments["parameter"]
    weight = cell._params[name]
    new = _SubstitutedRMSNorm(weight, *(match.arguments[key] for key in ("epsilon", "scheme", "refused")))
    if name != "weight":
        # Both names: users read the first (`net.norm.gamma`), the fused cell's construct the second.
        new._params = type(new._params)([(name, weight), ("weight", weight)])
    return new


class _SubstitutedRMSNorm(RMSNorm):  # type: ignore[misc]
    """The fused RMSNorm in the place of a cell that gave other results for some input dtypes: those are refused."""

    def __init__(self, weight: Parameter, epsilon: float, scheme: str, refused: Mapping[str, str]) -> None:
        super().__init__(weight.size, eps=epsilon, scheme=scheme, param_init=weight)
        self.refusal_float16 = _refusal(refused, "float16")
        self.refusal_bfloat16 = _refusal(refused, "bfloat16")

    def construct(self, x: Tensor) -> Tensor:
        if self.refusal_float16 and x.dtype == ms.float16:
            raise TypeError(self.refusal_float16)
        if self.refusal_bfloat16 and x.dtype == ms.bfloat16:
            raise TypeError(self.refusal_bfloat16)
        return super().construct(x)


def _refusal(refused: Mapping[str, str], dtype: str) -> str:
    if dtype not in refused:
        return ""
    return (
        f"RMSNorm: x must not be {dtype} here, because optimize() found about the cell that stood in this place that "
        f"{refused[dtype]}. Convert the parameters to {dtype} before optimize()"
    )


def _formula(cell: nn.Cell, name: str, w: Array) -> _Found | Skip | None:
    """Learn the formula from float32 inputs of rank 2, 3 and 4, at least one of which `construct` must accept."""
    d = w.size
    rows = _rows(d, _SCALES, "float32")
    probes = [rows.reshape(shape) for shape in ((2, 3, d), (6, d), (1, 2, 3, d))]
    observed = [(x, y) for x in probes if (y := _observe(cell, name, x, w).values) is not None and y.shape == x.shape]
    # What swaps the last two axes does nothing to a matrix: a rank that fails needs a look at another axis.
    if len(observed) < len(probes) and (axis := _other_axis(cell, name, w, taken=bool(observed))):
        return axis
    if not observed:
        return None

    # In a row of constant |x|, x * weight / y is sqrt(x^2 + epsilon).
    tiny = round_to(np.where(np.arange(d) % 2, -1e-6, 1e-6), "float32")
    tiny = np.broadcast_to(tiny, (*observed[0][0].shape[:-1], d))
    y_tiny = _observe(cell, name, tiny, w).values
    for formula in _FORMULAS:
        epsilon = 0.0 if y_tiny is None else _epsilon(cell, tiny, y_tiny, w + formula.offset)
        if all(relative_error(y, formula.unit(x, epsilon) * (w + formula.offset)) < 1e-5 for x, y in observed):
            return _Found(formula.scheme, epsilon) if formula.scheme else Skip(formula.reason)
    return _other_statistic(observed[0], w)


def _epsilon(cell: nn.Cell, x: Array, y: Array, gain: Array) -> float:
    with np.errstate(all="ignore"):
        estimate = float(np.median((x * gain / y) ** 2 - x**2))
    if not estimate > 1e-14:
        return 0.0
    # float32 shows six digits of it; the attribute that the cell took it from, if there is one, has all of them.
    floats = [value for value in cell.__dict__.values() if isinstance(value, float)]
    near = [value for value in floats if abs(value - estimate) <= 1e-4 * estimate]
    return near[0] if near else float(f"{estimate:.4g}")


def _rounding(cell: nn.Cell, name: str, w: Array, stored: str, dtype: str, found: _Found) -> _Rounding:
    if dtype == stored == "float32":
        return _Rounding()  # _formula has looked
    x = _rows(w.size, _HALF_SCALES, dtype).reshape(2, 3, -1)
    seen = _observe(cell, name, x, w, dtype, stored)
    if seen.values is None and dtype == "bfloat16":  # many CPU kernels do not have it
        like = _rounding(cell, name, w, stored.replace("bfloat16", "float16"), "float16", found)
        return _Rounding("bfloat16 judged by float16", like.problem)
    if seen.values is None:
        return _Rounding(problem=f"it does not run in {dtype} ({seen.error})")
    if seen.dtype != dtype:
        return _Rounding(problem=f"it returns {seen.dtype} for {dtype} input")
    unit = _rms_unit(x, found.epsilon)
    expected = round_to(round_to(unit, dtype) * w if found.scheme == "llama" else unit * (1 + w), dtype)
    if np.mean(seen.values == expected) > 0.98:
        return _Rounding()
    ulps = ulp_error(seen.values, expected, dtype)
    if ulps > 4:
        return _Rounding(problem=f"its {dtype} result is {ulps:.0f} ULP away from the fused operator's")
    return _Rounding(note=f"{dtype} rounds elsewhere (up to {ulps:.0f} ULP)")


def _other_axis(cell: nn.Cell, name: str, w: Array, taken: bool) -> Skip | None:
    """A cell that takes its features from axis 1. `taken`: there are inputs that have them in the last axis, too."""
    for shape in ((2, w.size, 5), (2, w.size, 3, 4)):
        x = round_to(np.random.default_rng(2).standard_normal(shape) + 0.5, "float32")
        y = _observe(cell, name, x, w).values
        if y is None or y.shape != x.shape:
            continue
        x, y = np.moveaxis(x, 1, -1), np.moveaxis(y, 1, -1)
        gains = [(formula, w + formula.offset) for formula in _FORMULAS]
        if taken or any(relative_error(y, formula.unit(x, 0.0) * gain) < 1e-3 for formula, gain in gains):
            return Skip(f"it normalizes over axis 1 of {len(shape)}, not over the last one")
    return None


def _other_statistic(observed: tuple[Array, Array], w: Array) -> Skip | None:
    """A cell that scales every row by one number which is not its reciprocal root mean square."""
    x, y = (array.reshape(-1, w.size)[-2:] for array in observed)
    for gain in (w, 1 + w):
        with np.errstate(all="ignore"):
            factors = y / (x * gain)
        if not np.all(np.ptp(factors, axis=-1) < 1e-4 * np.abs(factors).max(-1)):
            continue
        if relative_error(factors, np.broadcast_to(factors[:1], factors.shape)) < 1e-4:
            return None  # the same number for rows of different size: this is no norm
        partial = np.cumsum(x**2, -1) / np.arange(1, w.size + 1)
        share = np.abs(partial * factors**2 - 1).max(0)
        if share.argmin() + 1 < w.size and share.min() < 1e-3:
            return Skip(f"it takes the mean over the first {share.argmin() + 1} of {w.size} features only")
        return Skip("it divides a row by something other than sqrt(mean(x^2) + epsilon)")
    return None


def _rows(d: int, scales: tuple[float, ...], dtype: str) -> Array:
    rows = np.random.default_rng(1).standard_normal((len(scales), d)) + 0.5
    rms = np.sqrt(np.mean(rows**2, -1, keepdims=True))
    return round_to(rows / rms * np.array(scales)[:, None], dtype)


def _observe(
    cell: nn.Cell, name: str, x: Array, w: Array, dtype: str = "float32", stored: str = "float32"
) -> Observation:
    return observe(detached(cell, parameters={name: tensor(w, stored)}), tensor(x, dtype))
