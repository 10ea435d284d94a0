"""Says when a result is accurate enough: the rules of CANN's operator libraries, as figures.

Golden values are computed in float64 from the same, already rounded inputs. Three rules: a mixed tolerance for 99 % of
the elements with a cap for the rest; mean and maximum relative error (MERE, MARE); and the error of the same
computation written with stock operators in the same dtype. The tests, the guard of dispatch, the debugger and the
certificate share them. Needs no MindSpore.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["EPSILON", "LARGEST", "RULES", "SMALLEST", "WITHIN", "Accuracy", "Rule", "accuracy", "ulps"]


@dataclass(frozen=True)
class Rule:
    """Holds the bounds for one dtype."""

    tolerance: tuple[float, float]  # relative, absolute
    cap: float  # absolute, or 32 ULP
    mere: float  # MARE is ten times as much


RULES = {
    "float16": Rule((2.0**-9, 2.0**-9), 0.1, 2.0**-10),
    "bfloat16": Rule((2.0**-6, 2.0**-6), 1.0, 2.0**-7),
    "float32": Rule((2.0**-10, 2.0**-16), 1e-2, 2.0**-13),
    # Rounded quotients: a neighbour where the quotient lies between two numbers.
    "int8": Rule((0.0, 0.0), 1.0, 0.1),
}
WITHIN = 0.99

# The largest finite and the smallest normal number, and the distance of 1 to the next one.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": float(np.float32(3.3895314e38)),
    "float32": float(np.finfo(np.float32).max),
    "int8": 127.0,
}
SMALLEST = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "int8": 1.0}
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "int8": 2.0**-7}


@dataclass(frozen=True)
class Accuracy:
    """Says how far values are from the golden ones where both are finite; `specials` says whether NaN and Inf agree."""

    dtype: str
    elements: int
    within: float  # share within the mixed tolerance
    largest: float  # absolute error
    excess: float  # of the largest error over the cap: at most 0
    mere: float
    mare: float
    ulps: float  # the largest error in units of the last place of the golden value
    specials: bool  # NaN and Inf stand where the golden values have them
    worst: tuple[int, ...]  # where the relative error is largest

    @property
    def reasons(self) -> list[str]:
        """Return the rules that are broken, in words; none: accurate."""
        rule, broken = RULES[self.dtype], []
        if not self.specials:
            broken.append("NaN or Inf stands elsewhere than in the golden values")
        if self.within < WITHIN:
            broken.append(f"only {self.within:.4%} of the elements are within the tolerance")
        if self.excess > 0:
            broken.append(f"the largest error, {self.largest:.3g}, is above the cap")
        if self.mere >= rule.mere:
            broken.append(f"MERE is {self.mere:.3g}, the bound {rule.mere:.3g}")
        if self.mare >= 10 * rule.mere:
            broken.append(f"MARE is {self.mare:.3g}, the bound {10 * rule.mere:.3g}")
        return broken


def ulps(actual: ArrayLike, golden: ArrayLike, dtype: str) -> NDArray[np.float64]:
    """Return errors in units of the last place of the golden values, of which subnormal ones count as the
    smallest normal.
    """
    actual, golden = np.asarray(actual, np.float64), np.asarray(golden, np.float64)
    magnitude = np.maximum(np.abs(golden), SMALLEST[dtype])
    place = np.exp2(np.floor(np.log2(magnitude))) * EPSILON[dtype]
    result: NDArray[np.float64] = np.abs(actual - golden) / place
    return result


def accuracy(actual: ArrayLike, golden: ArrayLike, dtype: str, terms: Any = None) -> Accuracy:
    """Measure values, decoded to float64, by the rules of a dtype.

    Args:
        actual: the values.
        golden: those in float64.
        dtype: in which `actual` was computed: float16, bfloat16 or float32.
        terms: for results that cancel, as gradients do: the sum of the magnitudes of what is added up. MERE and MARE
            count the error beyond 2 ULP of the terms then.

    Raises:
        ValueError: another shape.
    """
    actual, golden = np.asarray(actual, np.float64), np.asarray(golden, np.float64)
    if actual.shape != golden.shape:
        raise ValueError(f"accuracy: the shapes must be equal, got {actual.shape} and {golden.shape}")
    # A golden value at the edge of the range may round to the largest number or to Inf.
    with np.errstate(invalid="ignore"):
        edge = np.abs(golden) > LARGEST[dtype] * (1 - RULES[dtype].tolerance[0])
        specials = (
            np.array_equal(np.isnan(actual), np.isnan(golden))
            and bool(np.all(np.sign(actual[edge]) == np.sign(golden[edge])))
            and bool(np.all(np.abs(actual[edge]) >= LARGEST[dtype] * (1 - 2 * RULES[dtype].tolerance[0])))
        )
    finite = np.isfinite(actual) & np.isfinite(golden) & ~edge
    specials = specials and bool(np.all(np.isfinite(actual[~edge & ~np.isnan(golden)])))
    if not finite.any():
        return Accuracy(dtype, actual.size, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, specials, ())
    rule = RULES[dtype]
    error, magnitude = np.abs(actual[finite] - golden[finite]), np.abs(golden[finite])
    within = float(np.mean(error <= rule.tolerance[1] + rule.tolerance[0] * magnitude))
    excess = float(np.max(error - np.maximum(rule.cap, 32 * EPSILON[dtype] * magnitude)))
    beyond = error
    if terms is not None:
        beyond = np.maximum(error - 2 * EPSILON["float32"] * np.broadcast_to(terms, golden.shape)[finite], 0)
    # Below the smallest normal number a dtype has no relative precision; 1e-7 is the rule's own floor.
    relative = beyond / (magnitude + max(1e-7, SMALLEST[dtype]))
    flat = int(np.flatnonzero(finite)[int(np.argmax(relative))])
    worst = tuple(int(i) for i in np.unravel_index(flat, golden.shape)) if golden.ndim else ()
    largest_ulps = float(np.max(ulps(actual[finite], golden[finite], dtype)))
    figures = float(np.max(error)), excess, float(relative.mean()), float(np.max(relative)), largest_ulps
    return Accuracy(dtype, actual.size, within, *figures, specials, worst)
