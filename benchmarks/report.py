"""Writes the results as tables and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ms_ascend_ops.benchmarks.harness import Outcome, Result
from ms_ascend_ops.benchmarks.providers import PROVIDERS, REFERENCE
from rich.table import Table

from ms_ascend_ops.version import __version__

__all__ = ["COPIES", "as_dict", "machine", "markdown", "panels", "tables"]

COPIES = [name for name, provider in PROVIDERS.items() if provider.is_copy]


def machine(threads: int) -> dict[str, Any]:
    """Return where this was measured, and with what."""
    import mindspore

    versions = {"ms_ascend_ops": __version__, "mindspore": mindspore.__version__, "python": platform.python_version()}
    for name in ("llvmlite", "torch", "onnxruntime"):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {"cpu": _cpu_name(), "threads": threads, "versions": versions}


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def tables(outcomes: list[Outcome], where: dict[str, Any]) -> Iterator[Table | str]:
    """Yield a table for each operator and dtype: for every shape the fastest memcpy, then each provider."""
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    yield f"{where['cpu']}, {where['threads']} threads; {versions}"
    for title, group in panels(outcomes).items():
        made = Table(title=title, title_justify="left")
        for heading in ("shape", "provider"):
            made.add_column(heading, no_wrap=True)
        for heading in ("us", "GB/s", "% of memcpy", "time / ours"):
            made.add_column(heading, justify="right", no_wrap=True)
        for outcome in group:
            copy = outcome.fastest(COPIES)
            ours = outcome.fastest([REFERENCE])
            shape = outcome.case.size
            for result in [*([copy] if copy else []), *_providers(outcome)]:
                made.add_row(shape, PROVIDERS[result.provider].label, *_figures(outcome, result, copy, ours))
                shape = ""
            made.add_section()
        yield made
    yield (
        "Medians on this CPU; no figure of an NPU. GB/s: the least bytes that have to move, by the time. "
        "% of memcpy: against the fastest copy of the same bytes in the same run. time / ours: against our direct call."
    )
    yield from _skipped(outcomes)


def markdown(outcomes: list[Outcome], where: dict[str, Any]) -> str:
    """Return one row a case: our direct call, and the time of every other provider as a multiple of it."""
    asked = {name for outcome in outcomes for name in outcome.results}
    others = [name for name in PROVIDERS if name in asked and name not in COPIES and name != REFERENCE]
    heading = ["case", "dtype", "us", "% of memcpy", *(PROVIDERS[name].label for name in others)]
    lines = [
        f"{where['cpu']}, {where['threads']} threads; "
        + ", ".join(f"{name} {version}" for name, version in where["versions"].items())
        + ".",
        "",
        f"| {' | '.join(heading)} |",
        f"|{' --- |' * len(heading)}",
    ]
    for outcome in outcomes:
        copy, ours = outcome.fastest(COPIES), outcome.fastest([REFERENCE])
        if ours is None:
            continue
        case = outcome.case
        name = f"{case.name.split()[0]} {case.size}"
        cells = [
            name,
            case.dtype,
            f"{ours.median * 1e6:,.1f}",
            f"{100 * copy.median / ours.median:.0f}" if copy else "",
        ]
        for other in others:
            result = outcome.fastest([other])
            ratio = result.median / ours.median if result else 0.0
            cells.append("-" if result is None else f"**{ratio:.2f}**" if ratio < 1 else f"{ratio:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def panels(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes grouped by operator, variant and dtype."""
    panels: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        panels.setdefault(outcome.case.panel, []).append(outcome)
    return panels


def _providers(outcome: Outcome) -> list[Result]:
    return [result for name, result in outcome.results.items() if name not in COPIES]


def _figures(outcome: Outcome, result: Result, copy: Result | None, ours: Result | None) -> list[str]:
    if not result.seconds:
        return ["skipped"]
    seconds = result.median
    return [
        f"{seconds * 1e6:,.1f}",
        f"{outcome.case.bytes / seconds / 1e9:.2f}",
        f"{100 * copy.median / seconds:.0f}" if copy else "",
        f"{seconds / ours.median:.2f}" if ours else "",
    ]


def _skipped(outcomes: list[Outcome]) -> list[str]:
    """Return a line for every reason why a provider was not measured, with the cases."""
    cases: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for result in outcome.results.values():
            if result.reason:
                cases.setdefault((PROVIDERS[result.provider].label, result.reason), []).append(outcome.case.name)
    lines = []
    for (label, reason), names in cases.items():
        which = "all cases" if len(names) == len(outcomes) else f"{len(names)} cases" if names[3:] else ", ".join(names)
        lines.append(f"skipped: {label}: {reason} ({which})")
    return lines


def as_dict(outcomes: list[Outcome], where: dict[str, Any]) -> dict[str, Any]:
    """Return everything, for a JSON file."""
    cases = []
    for outcome in outcomes:
        case = outcome.case
        results = {
            result.provider: {"reason": result.reason}
            if result.reason
            else {"median_us": result.median * 1e6, "calls": len(result.seconds)}
            for result in outcome.results.values()
        }
        fields = {
            name: getattr(case, name) for name in ("name", "gradient", "variant", "shape", "dtype", "bytes", "flops")
        }
        cases.append({"operator": case.operator_name, **fields, "providers": results})
    return {"machine": where, "cases": cases}
