"""Writes predictions as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.launches import Profile
from ms_ascend_ops.profiler.prediction import CUBE, Prediction
from ms_ascend_ops.profiler.sweep import Attempt

__all__ = ["assumptions", "comparison", "console", "prediction", "show", "sweep_table"]

_WIDTH = 160
_HOTSPOTS = 10
_WAITS = 3
_LEAST_SHARE = 0.005


def prediction(found: Profile) -> RenderableType:
    """Write all of one prediction."""
    p, chip = found.prediction, found.chip
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    facts.add_column(style="bold")
    facts.add_column()
    facts.add_row("predicted time", f"{p.us:.1f} us: launch {chip.launch_us:.1f} us, kernel {p.kernel_us:.1f} us")
    facts.add_row(
        "range",
        f"{p.low_us:.1f} to {p.high_us:.1f} us: published times of CANN's kernels are mostly {chip.low_ratio:g} to "
        f"{chip.high_ratio:g} of what the model says of ours",
    )
    facts.add_row(
        "HBM bound",
        f"{p.bound_us:.1f} us for {_bytes(p.minimal_bytes)} at {chip.hbm_gb_per_s:.0f} GB/s: {_percent(p.hbm_share)} "
        f"of it reached, {_percent(p.kernel_hbm_share)} without the launch",
    )
    facts.add_row(
        "HBM traffic", f"{_bytes(p.hbm_bytes)} moved, {p.hbm_bytes / max(1, p.minimal_bytes):.2f} of the least possible"
    )
    if p.cube is not None:
        facts.add_row(
            "cube bound",
            f"{p.cube.bound_us:.1f} us for {p.cube.flops / 1e9:.2f} GFLOP on {p.cube.chip_cores} cube cores: "
            f"{_percent(p.cube.share)} of it reached ({p.cube.tflops:.1f} TFLOPS), "
            f"{_percent(p.cube.kernel_share)} without the launch",
        )
    facts.add_row("bounded by", p.bound_by)
    vector = {name: share for name, share in p.busy.items() if not name.startswith(CUBE)}
    facts.add_row("pipes busy", ", ".join(f"{name} {_percent(share)}" for name, share in vector.items()))
    if p.cube is not None:
        facts.add_row(
            "cube pipes busy",
            ", ".join(f"{name.removeprefix(CUBE)} {_percent(p.busy[name])}" for name in p.busy if name not in vector),
        )
        facts.add_row(
            "products",
            f"{p.cube.products} on {p.cube.cores} cube cores, {_percent(p.cube.block_efficiency)} of blocks of 16 x 16",
        )
        facts.add_row("S waits for", _waits(p.waits["S"]))
    for pipe in ("MTE2", "V", "MTE3"):
        facts.add_row(f"{pipe} waits for", _waits(p.waits[pipe]))
    facts.add_row("vector lanes", f"{_percent(p.lane_efficiency)} of the lanes in {p.instructions} instructions used")
    facts.add_row("copies", f"{p.copies}, {_bytes(p.bytes_per_copy)} each on average")
    facts.add_row(
        "Unified Buffer",
        f"{_bytes(p.ub_used_bytes)} of {_bytes(p.ub_bytes)} ({_percent(p.ub_used_bytes / p.ub_bytes)})",
    )
    facts.add_row("cores", f"{p.cores} of {p.chip_cores}; the slowest takes {p.imbalance:.2f} times the mean")
    facts.add_row("tiling", ", ".join(f"{name} {value:g}" for name, value in p.tiling.items()))
    title = Text(f"{found.case} on {p.chip}: a prediction of the timing model, nothing was measured", style="bold")
    return Group(title, facts, Text(), _hotspots(p))


def _hotspots(p: Prediction) -> Table:
    table = Table(title="dearest instructions", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name, justify in (
        ("pipe", "left"),
        ("instruction", "left"),
        ("in the kernel", "left"),
        ("us per core", "right"),
        ("of the kernel", "right"),
        ("calls", "right"),
        ("", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for spot in p.hotspots[:_HOTSPOTS]:
        detail = ""
        if spot.lane_efficiency is not None:
            detail = f"{_percent(spot.lane_efficiency)} of the lanes"
        elif spot.tensor is not None:
            detail = f"{spot.tensor}, {_bytes(spot.bytes_per_call or 0)} a call"
        table.add_row(
            spot.pipe, spot.instruction, spot.place, f"{spot.us:.2f}", _percent(spot.share), str(spot.calls), detail
        )
    return table


def comparison(first: Prediction, others: Sequence[tuple[str, Prediction]], title: str) -> Table:
    """Write predictions side by side; the first is what the others are compared with."""
    table = Table(title="predicted", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("", style="bold")
    for name, _ in [(title, first), *others]:
        table.add_column(name, justify="right")
    everything = [first, *[p for _, p in others]]

    def row(name: str, show: Any) -> None:
        table.add_row(name, *[show(p) for p in everything])

    row("time, us", lambda p: f"{p.us:.1f}")
    row("range, us", lambda p: f"{p.low_us:.1f} to {p.high_us:.1f}")
    row("times the first", lambda p: f"{p.us / first.us:.2f}")
    row("kernel, us", lambda p: f"{p.kernel_us:.1f}")
    row("of the HBM bound", lambda p: _percent(p.hbm_share))
    row("without the launch", lambda p: _percent(p.kernel_hbm_share))
    row("HBM traffic", lambda p: _bytes(p.hbm_bytes))
    row("bounded by", lambda p: p.bound_by)
    for pipe in ("S", "V", "MTE2", "MTE3"):
        row(f"{pipe} busy", lambda p, pipe=pipe: _percent(p.busy[pipe]))
    if any(p.cube is not None for p in everything):
        row("cube bound", lambda p: _percent(p.cube.share) if p.cube else "")
        row("TFLOPS", lambda p: f"{p.cube.tflops:.1f}" if p.cube else "")
        for pipe in dict.fromkeys(name for p in everything for name in p.busy if name.startswith(CUBE)):
            row(f"{pipe} busy", lambda p, pipe=pipe: _percent(p.busy[pipe]) if pipe in p.busy else "")
    row("instructions", lambda p: str(p.instructions))
    row("lanes used", lambda p: _percent(p.lane_efficiency))
    row("bytes a copy", lambda p: _bytes(p.bytes_per_copy))
    row("Unified Buffer", lambda p: _bytes(p.ub_used_bytes))
    row("cores", lambda p: str(p.cores))
    return table


def sweep_table(base: Profile, attempts: Sequence[Attempt], rows: int = 12) -> RenderableType:
    """Write the best of a sweep, and what came of the others."""
    table = Table(title="predicted", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for name in ("us", "of the bound", "Unified Buffer", "bounded by", "tiling"):
        table.add_column(name, justify="left" if name in ("tiling", "bounded by") else "right")
    done = [attempt for attempt in attempts if attempt.profile is not None]
    for attempt in done[:rows]:
        assert attempt.profile is not None
        p = attempt.profile.prediction
        table.add_row(f"{p.us:.1f}", _percent(p.hbm_share), _bytes(p.ub_used_bytes), p.bound_by, attempt.case.changes)
    failed = [attempt for attempt in attempts if attempt.profile is None]
    lines = [Text(f"{attempt.case.changes}: {attempt.problem}", style="dim") for attempt in failed[:rows]]
    now = base.prediction.us
    if not done:
        verdict = "none of these tilings runs"
    elif done[0].profile is not None and done[0].profile.prediction.us < 0.99 * now:
        best = done[0].profile.prediction.us
        verdict = f"the model finds {done[0].case.changes} best: {best:.1f} us instead of {now:.1f} us"
    else:
        verdict = f"the model finds nothing that is 1 % faster than the kernel's own tiling ({now:.1f} us)"
    return Group(table, *lines, Text(verdict, style="bold"))


def assumptions(chip: Chip) -> RenderableType:
    """Return which numbers of a chip are guesses."""
    table = Table(title=f"{chip.name}: what the model assumes", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("number", style="bold")
    table.add_column("because")
    for name, text in chip.assumptions.items():
        table.add_row(name, text.removeprefix("assumption").lstrip(": ") or "no source")
    return table


def console() -> Console:
    """Return the terminal; what goes into a file or a pipe is as wide as the tables need."""
    found = Console()
    return found if found.is_terminal else Console(width=_WIDTH)


def show(where: Console, part: RenderableType) -> None:
    """Print, without guessing at numbers and brackets."""
    where.print(part, highlight=False, markup=False)


def _waits(waits: dict[str, float]) -> str:
    large = [(name, share) for name, share in waits.items() if share > _LEAST_SHARE][:_WAITS]
    return ", ".join(f"{name} {_percent(share)}" for name, share in large) or "nothing"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _bytes(count: float) -> str:
    for unit, size in (("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"
