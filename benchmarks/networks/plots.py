"""Draws the results: time of each variant, as a share of stock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from ms_ascend_ops.benchmarks.networks.measure import Row
from ms_ascend_ops.benchmarks.networks.variants import STOCK, VARIANTS

__all__ = ["bars"]


def bars(rows: Sequence[Row], where: dict[str, Any], path: Path) -> None:
    """Draw a group of bars for each phase: its time as a share of stock's; a thin line spans the rounds."""
    names = [name for name in VARIANTS if name != STOCK]
    figure = Figure(figsize=(9, 0.7 * len(rows) + 1.9), layout="constrained")
    axis = figure.subplots()
    height = 0.8 / len(names)
    longest = 100.0
    for position, name in enumerate(names):
        places = [index + (position - (len(names) - 1) / 2) * height for index in range(len(rows))]
        shares = [100 / row.speedup(name) for row in rows]
        spans = [[100 / ratio for ratio in row.ratios(name)] for row in rows]
        low = [max(0.0, share - min(span)) for share, span in zip(shares, spans, strict=True)]
        high = [max(0.0, max(span) - share) for share, span in zip(shares, spans, strict=True)]
        axis.barh(places, shares, height, xerr=(low, high), label=VARIANTS[name].label, error_kw={"linewidth": 0.7})
        longest = max([longest, *shares, *(max(span) for span in spans)])
    axis.set_yticks(range(len(rows)), [row.name.replace(": ", ":\n", 1) for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.axvline(100, color="0.4", linewidth=0.8)
    axis.set(title="Networks with fused operators", xlabel="time, % of the stock network", xlim=(0, 1.05 * longest))
    axis.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=len(names))
    figure.supxlabel(f"{where['cpu']}, {where['threads']} threads. No figure of an NPU.", fontsize=8)
    figure.savefig(path, dpi=100)
