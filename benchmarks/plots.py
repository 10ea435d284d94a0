"""Draws the results: bars, and a roofline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from ms_ascend_ops.benchmarks.harness import Outcome
from ms_ascend_ops.benchmarks.providers import PROVIDERS, REFERENCE
from ms_ascend_ops.benchmarks.report import COPIES, panels

matplotlib.use("Agg")
from matplotlib import pyplot

__all__ = ["bars", "peak_flops", "roofline"]

_CHARACTERS = 60  # of the labels below a panel: more would overlap
_CALCULATES = 16  # FLOP a byte, from which on a share of memcpy's speed says nothing


def bars(outcomes: list[Outcome], where: dict[str, Any], path: Path) -> None:
    """Draw a panel for each operator and dtype, a group of bars for each shape.

    A bar is the bandwidth as a share of memcpy's; of an operator that calculates in one of the cases, as products and
    attention do, it is GFLOP/s.
    """
    grouped = panels(outcomes)
    measured = {name for outcome in outcomes for name, result in outcome.results.items() if result.seconds}
    names = [name for name in outcomes[0].results if name in measured and name not in COPIES]
    columns = min(2, len(grouped))
    rows = -(-len(grouped) // columns)
    size = (6.5 * columns, 2.6 * rows + 0.8)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(grouped) :]:
        axis.remove()
    for axis, (title, group) in zip(axes.flat, grouped.items(), strict=False):
        calculates = any((outcome.case.flops or 0) >= _CALCULATES * outcome.case.bytes for outcome in group)
        for position, name in enumerate(names):
            heights = [_height(outcome, name, calculates) for outcome in group]
            places = [index + (position - (len(names) - 1) / 2) * 0.8 / len(names) for index in range(len(group))]
            axis.bar(places, heights, 0.8 / len(names), label=PROVIDERS[name].label)
        sizes = [str(o.case.size) for o in group]
        slanted = sum(map(len, sizes)) > _CHARACTERS
        axis.set_xticks(range(len(group)), sizes, rotation=20 if slanted else 0, ha="right" if slanted else "center")
        axis.set(title=title, ylabel="GFLOP / s" if calculates else "% of memcpy's speed")
        if not calculates:
            axis.axhline(100, color="0.5", linewidth=0.8)
        axis.grid(axis="y", alpha=0.3)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(names), 4))
    figure.supxlabel(f"{where['cpu']}, {where['threads']} threads. No figure of an NPU.", fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _height(outcome: Outcome, name: str, calculates: bool) -> float:
    copy, result = outcome.fastest(COPIES), outcome.results[name]
    if not result.seconds:
        return 0.0
    if calculates:
        return (outcome.case.flops or 0) / result.median / 1e9
    return 100 * copy.median / result.median if copy else 0.0


def peak_flops(size: int = 1024, seconds: float = 0.3) -> float:
    """Return the floating-point operations a second of a product of two float32 matrices: what these CPUs can
    calculate.
    """
    a = np.random.default_rng(0).standard_normal((size, size), np.float32)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        a @ a
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def roofline(outcomes: list[Outcome], where: dict[str, Any], path: Path, peak: float) -> None:
    """Draw where every case of ours stands under the roof that memory and arithmetic make.

    A roof's slope is the memcpy of the largest case, its ridge the `peak`; a dashed one is the fastest memcpy of any
    case, which runs in cache. A point is our direct call; a thin line leads to the fastest of the others. Cases without
    a number of operations have no place here: they are named below.

    Raises:
        ValueError: no case has both a time of ours and a number of operations.
    """
    drawn = [
        (outcome, outcome.results[REFERENCE])
        for outcome in outcomes
        if outcome.case.flops and REFERENCE in outcome.results and outcome.results[REFERENCE].seconds
    ]
    if not drawn:
        raise ValueError("there is nothing to draw a roofline of: it needs the provider 'library'")
    copies = [(outcome.case.bytes, outcome.fastest(COPIES)) for outcome in outcomes]
    # Use the largest case: a copy of a small one runs in cache.
    largest = max((size, copy.median) for size, copy in copies if copy is not None)
    bandwidth = largest[0] / largest[1]
    cached = max(size / copy.median for size, copy in copies if copy is not None)
    figure, axis = pyplot.subplots(figsize=(9, 6), layout="constrained")
    flops = [outcome.case.flops or 0.0 for outcome, _ in drawn]  # of those that say so
    intensities = [count / outcome.case.bytes for count, (outcome, _) in zip(flops, drawn, strict=True)]
    x = np.geomspace(min(intensities) / 3, max(*intensities, peak / bandwidth) * 3, 200)
    axis.loglog(x, np.minimum(x * bandwidth, peak) / 1e9, color="black", linewidth=1.2)
    below: dict[str, Any] = {
        "va": "top",
        "textcoords": "offset points",
        "xytext": (8, -2),
    }  # the roof rises away from it
    axis.annotate(f"memcpy {bandwidth / 1e9:.1f} GB/s", (x[0], x[0] * bandwidth / 1e9), **below)
    if cached > 1.2 * bandwidth:
        axis.loglog(x, np.minimum(x * cached, peak) / 1e9, color="black", linewidth=0.8, linestyle="--")
        # Draw it left of its ridge only: the other roof is below.
        axis.annotate(f"in cache {cached / 1e9:.1f} GB/s", (peak / cached, peak / 1e9), ha="right", va="bottom")
    axis.annotate(f"matmul {peak / 1e9:.0f} GFLOP/s", (x[-1], peak / 1e9), ha="right", va="bottom")
    titles = list(panels([outcome for outcome, _ in drawn]))
    colors = pyplot.get_cmap("tab20")
    seen: set[str] = set()
    for (outcome, ours), count, intensity in zip(drawn, flops, intensities, strict=True):
        title, rate = outcome.case.panel, count / 1e9
        others = [name for name in outcome.results if name in PROVIDERS and name not in (*COPIES, REFERENCE)]
        rival = outcome.fastest([name for name in others if name not in ("mindspore", "pynative")])
        color = colors(titles.index(title) % 20)
        if rival is not None:
            axis.plot([intensity] * 2, [rate / rival.median, rate / ours.median], color=color, linewidth=0.8)
        label = "" if title in seen else title
        axis.scatter([intensity], [rate / ours.median], 28, color=color, label=label, zorder=3)
        seen.add(title)
    axis.set(
        xlabel="FLOP / byte", ylabel="GFLOP / s", title="Our direct calls; lines lead to the fastest of the others"
    )
    axis.grid(which="both", alpha=0.2)
    axis.legend(fontsize=7, ncols=2)
    without = sorted({outcome.case.panel for outcome in outcomes} - set(titles))
    missing = f"\nNot drawn, without a number of operations or a time: {', '.join(without)}" if without else ""
    figure.supxlabel(f"{where['cpu']}, {where['threads']} threads. No figure of an NPU.{missing}", fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
