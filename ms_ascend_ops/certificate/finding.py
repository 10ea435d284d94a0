"""Defines one line of a certificate."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = ["RULES", "Finding"]

# The rules, in the order of the page, and what each says.
RULES = {
    "tolerance": "99 % of the elements within the mixed tolerance of the dtype, the rest below its cap; NaN and Inf "
    "where float64 has them",
    "relative": "mean and maximum relative error (MERE, MARE) within the bounds of the dtype; an error is not counted "
    "that float32 rounding of the inputs explains",
    "stock": "largest error at most twice that of the composition of stock operators in the same dtype, + 1e-6",
    "determinism": "equal bits in every run, with one thread and with all, before and after loops are compiled",
    "inputs": "wrong tensors and attributes are refused by TypeError or ValueError that names the operator",
    "special": "NaN, infinities and empty tensors give what float64 gives",
    "checks": "the kernel tests pass on the checked build: every rule of Ascend C",
    "mutations": "bugs seeded into the kernel are caught",
    "speed": "not slower than stock MindSpore by more than the tolerance, from 1 MiB on",
    "prediction": "the timing model of the chip runs the kernel: its Unified Buffer and queues suffice",
}


@dataclass(frozen=True)
class Finding:
    """Says what one rule finds in one case. `passed` None: it was not judged, for the reason in `text`."""

    rule: str
    case: str
    passed: bool | None
    text: str
    figures: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.passed is not None:  # of NumPy, a comparison is neither True nor False
            object.__setattr__(self, "passed", bool(self.passed))

    @property
    def word(self) -> str:
        return {True: "passed", False: "FAILED", None: "not judged"}[self.passed]

    def as_dict(self) -> dict[str, Any]:
        return {"rule": self.rule, "case": self.case, "result": self.word, "text": self.text, "figures": self.figures}
