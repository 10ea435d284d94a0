"""Compares a run with an older one, and with the other providers: what is slower than it may be.

Works on what `report.as_dict` makes and `--json` writes.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_ascend_ops.benchmarks.providers import PROVIDERS
from rich.table import Table

__all__ = ["Pair", "against_peers", "changes", "changes_table", "differences", "means", "read"]

OURS = ("library", "mindspore", "pynative")
# Each of ours must be at least as fast as the best of these others, which are called the same way.
RIVALS = {"mindspore": ("stock",), "library": ("torch", "torch_compile", "onnx", "scipy")}
# A smaller case measures the cost of a call rather than of the work.
LEAST_BYTES = 2**20


@dataclass(frozen=True)
class Pair:
    """Compares two times of one case, in microseconds."""

    case: str
    provider: str
    than: str  # what it is compared with
    before_us: float
    now_us: float

    @property
    def ratio(self) -> float:
        return self.now_us / self.before_us

    def slower(self, tolerance: float) -> bool:
        return self.ratio > 1 + tolerance

    def __str__(self) -> str:
        return (
            f"{self.case}: {PROVIDERS[self.provider].label} takes {self.now_us:,.1f} us, "
            f"{self.ratio:.2f} times the {self.before_us:,.1f} us of {self.than}"
        )


def read(path: Path) -> dict[str, Any]:
    """Return a run that `--json` wrote.

    Raises:
        ValueError: it is none.
    """
    try:
        run: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        _times(run)
        run["machine"]["cpu"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no result of `bench --json` ({type(error).__name__}: {error})") from error
    return run


def _times(run: dict[str, Any]) -> dict[tuple[str, str], float]:
    """Return the measured median of every case and provider."""
    return {
        (case["name"], provider): result["median_us"]
        for case in run["cases"]
        for provider, result in case["providers"].items()
        if "median_us" in result
    }


def means(run: dict[str, Any]) -> Iterator[str]:
    """Yield a line for each dtype: the geometric mean over its cases of the best peer's time, as a multiple of ours."""
    times, by_dtype = _times(run), {}  # type: ignore[var-annotated]
    for case in run["cases"]:
        theirs = [times[case["name"], rival] for rival in RIVALS["library"] if (case["name"], rival) in times]
        our = times.get((case["name"], "library"))
        if theirs and our is not None:
            by_dtype.setdefault(case["dtype"], []).append(min(theirs) / our)
    for dtype, ratios in by_dtype.items():
        mean, ahead = statistics.geometric_mean(ratios), sum(ratio >= 1 for ratio in ratios)
        yield f"{dtype}: the best peer takes {mean:.2f} times as long (geometric mean); {ahead} of {len(ratios)} ahead"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Say why the figures of two runs may not be comparable."""
    lines = []
    for key in ("cpu", "threads"):
        before, now = old["machine"].get(key), new["machine"].get(key)
        if before != now:
            lines.append(f"the old run has {key} {before}, this one {now}: times are hardly comparable")
    return lines


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[Pair]:
    """Return our times that both runs have."""
    before, now = _times(old), _times(new)
    return [Pair(*key, "the old run", before[key], now[key]) for key in now if key in before and key[1] in OURS]


def changes_table(pairs: list[Pair], tolerance: float) -> Table:
    """Return a table of the changes, the slowest first."""
    table = Table(title="Against the old run", title_justify="left")
    for heading in ("case", "provider"):
        table.add_column(heading)
    for heading in ("old us", "new us", "new / old", ""):
        table.add_column(heading, justify="right", no_wrap=True)
    for pair in sorted(pairs, key=lambda pair: -pair.ratio):
        verdict = "slower" if pair.slower(tolerance) else "faster" if pair.ratio < 1 / (1 + tolerance) else ""
        figures = (f"{pair.before_us:,.1f}", f"{pair.now_us:,.1f}", f"{pair.ratio:.2f}", verdict)
        table.add_row(pair.case, PROVIDERS[pair.provider].label, *figures)
    return table


def against_peers(new: dict[str, Any]) -> Iterator[Pair]:
    """Yield pairs of us with stock MindSpore, and with the fastest of PyTorch, torch.compile, ONNX Runtime and
    SciPy, in cases of at least `LEAST_BYTES`.
    """
    times = _times(new)
    for case in new["cases"]:
        for ours, rivals in RIVALS.items():
            theirs = {times[case["name"], rival]: rival for rival in rivals if (case["name"], rival) in times}
            our = times.get((case["name"], ours))
            if not theirs or our is None or case["bytes"] < LEAST_BYTES:
                continue
            yield Pair(case["name"], ours, PROVIDERS[theirs[min(theirs)]].label, min(theirs), our)
