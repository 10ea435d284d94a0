"""Writes the results as tables, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ms_ascend_ops.benchmarks.networks.measure import Row
from ms_ascend_ops.benchmarks.networks.variants import ABLATED, JOINED, STOCK, VARIANTS
from rich.table import Table

__all__ = ["as_dict", "line", "markdown", "profile_tables", "tables"]

HEADINGS = (
    "network, phase", "stock ms", "O2", "O3", "ceiling", "worst to best", "rounds", "reached O2", "reached O3",
    "items/s", "MiB",
)  # fmt: skip
LEGEND = (
    "Medians on this CPU; no figure of an NPU. O2, O3, ceiling: by how much the network is faster than stock, with "
    "fused operators at these levels, and without what O2 replaces. worst to best: the ratios of the better of O2 and "
    "O3 in the rounds, in each of which every variant has its turn. reached: the time saved, as a share of what the "
    "ceiling saves. items/s: tokens or images a second, stock and the better level. MiB: peak of the "
    "resident set above that of MindSpore alone, the same two."
)


def _best(row: Row) -> str:
    levels = [name for name in VARIANTS if name not in (STOCK, ABLATED) and name in row.series]
    return min(levels, key=lambda name: row.series[name].median)


def _cells(row: Row) -> list[str]:
    best = _best(row)
    ratios = row.ratios(best)
    shares = [row.reached(name) for name in ("fused", JOINED)]
    rates = [row.items / row.series[name].median for name in (STOCK, best)]
    sizes = [row.series[name].memory for name in (STOCK, best)]
    return [
        row.name,
        f"{row.series[STOCK].median * 1e3:,.2f}",
        *(f"{row.speedup(name):.2f}" for name in ("fused", JOINED, ABLATED)),
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        str(row.rounds),
        *("-" if share is None else f"{100 * share:.0f} %" for share in shares),
        f"{rates[0]:,.0f} → {rates[1]:,.0f}",
        " → ".join(f"{(m['peak'] - m['before']) / 2**20:,.0f}" for m in sizes) if all(sizes) else "",
    ]


def line(row: Row) -> str:
    """Return the line that shows the times of a phase while others are still measured."""
    others = (name for name in row.series if name != STOCK)
    ratios = ", ".join(f"{VARIANTS[n].label if n in VARIANTS else n} {row.speedup(n):.2f}" for n in others)
    return f"{row.name}: {row.series[STOCK].median * 1e3:,.2f} ms stock; times as fast: {ratios} (rounds: {row.rounds})"


def tables(rows: Sequence[Row], where: dict[str, Any]) -> Iterator[Table | str]:
    """Yield the tables, with a row for each phase."""
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    yield f"{where['cpu']}, {where['threads']} threads; {versions}"
    made = Table(padding=(0, 0))
    for index, heading in enumerate(HEADINGS):
        made.add_column(heading, justify="right" if index else "left", no_wrap=not index)
    for row in rows:
        made.add_row(*_cells(row))
    yield made
    yield LEGEND
    yield from _threads(rows)
    yield from profile_tables(rows)


def _threads(rows: Sequence[Row]) -> Iterator[Table]:
    extra = {name: None for row in rows for name in row.series if name not in VARIANTS}
    if not extra:
        return
    made = Table(title="Threads of ours, at level O2", title_justify="left")
    made.add_column("network, phase")
    for heading in ("all ms", *(f"{name.rpartition(' ')[2]} ms" for name in extra)):
        made.add_column(heading, justify="right")
    for row in rows:
        times = [row.series["fused"], *(row.series[name] for name in extra if name in row.series)]
        made.add_row(row.name, *(f"{series.median * 1e3:,.2f}" for series in times))
    yield made


def profile_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Print where the time goes: a table for each phase that has been profiled."""
    for row in rows:
        if not _profiled(row):
            continue
        made = Table(title=f"{row.name}: ms in one call, by operator (calls)", title_justify="left")
        for index, heading in enumerate(_profile_headings(row)):
            made.add_column(heading, justify="right" if index else "left")
        for cells in profile_rows(row):
            made.add_row(*cells)
        yield made


def _profiled(row: Row) -> list[str]:
    return [name for name in VARIANTS if name in row.series and row.series[name].profile]


def _profile_headings(row: Row) -> list[str]:
    return ["operator", *(VARIANTS[name].label for name in _profiled(row))]


def profile_rows(row: Row) -> list[list[str]]:
    """Return a row for each operator, the longest first, then the remainder: launches, shapes, memory, Python."""
    profiles = {name: row.series[name].profile for name in _profiled(row)}
    operators = {op for profile in profiles.values() for op in profile}
    longest = sorted(operators, key=lambda op: -max(profile.get(op, (0.0, 0.0))[0] for profile in profiles.values()))
    lines = []
    for op in longest:
        cells = (f"{p[op][0] * 1e3:.2f} ({p[op][1]:.0f})" if op in p else "" for p in profiles.values())
        lines.append([op, *cells])
    inside = {name: sum(seconds for seconds, _ in profile.values()) for name, profile in profiles.items()}
    calls = {name: sum(count for _, count in profile.values()) for name, profile in profiles.items()}
    lines.append(["all operators", *(f"{inside[name] * 1e3:.2f} ({calls[name]:.0f})" for name in profiles)])
    lines.append(["the call", *(f"{row.series[name].median * 1e3:.2f}" for name in profiles)])
    return lines


def markdown(rows: Sequence[Row], where: dict[str, Any], missing: Sequence[str] = ()) -> str:
    """Return the same as a Markdown page. missing: what was to be measured and is not here."""
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    lines = [f"{where['cpu']}, {where['threads']} threads; {versions}.", "", *_table(HEADINGS, map(_cells, rows))]
    for row in rows:
        if _profiled(row):
            lines += ["", f"{row.name}:", "", *_table(_profile_headings(row), profile_rows(row))]
    if missing:
        lines += ["", f"Not measured: {', '.join(missing)}."]
    return "\n".join([*lines, "", LEGEND, ""])


def _table(headings: Sequence[str], rows: Any) -> list[str]:
    return [f"| {' | '.join(headings)} |", f"|{' --- |' * len(headings)}", *(f"| {' | '.join(r)} |" for r in rows)]


def as_dict(rows: Sequence[Row], where: dict[str, Any], missing: Sequence[str] = ()) -> dict[str, Any]:
    """Return everything, for a JSON file. missing: what was to be measured and is not here."""
    made = []
    for row in rows:
        series = {
            name: {
                "median_us": s.median * 1e6,
                "calls": sum(map(len, s.rounds)),
                "speedup": row.speedup(name),
                "worst": min(row.ratios(name)),
                "best": max(row.ratios(name)),
                "reached": row.reached(name),
                "memory_bytes": s.memory,
                "profile": {op: {"us": us * 1e6, "calls": calls} for op, (us, calls) in s.profile.items()},
            }
            for name, s in row.series.items()
        }
        names = ("network", "size", "dtype", "phase", "items", "unit", "rounds", "omitted")
        fields = {name: getattr(row, name) for name in names}
        made.append({**fields, "variants": series})
    return {"machine": where, "missing": list(missing), "rows": made}
