"""Writes a certificate as one web page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from ms_ascend_ops.certificate.certificate import Certificate, OfOperator
from ms_ascend_ops.certificate.finding import RULES, Finding
from ms_ascend_ops.pages import Bar, bars, render

__all__ = ["write_page"]

_MOST_BARS = 24
_PEERS = {
    "mindspore": ("ours, in a graph", "ours"),
    "stock": ("stock MindSpore", "other"),
    "torch": ("PyTorch", "other"),
}


def write_page(certificate: Certificate, path: Path, chip: str) -> None:
    """Write it."""
    findings = [finding for one in certificate.operators for finding in one.findings]
    words = sum((one.counts for one in certificate.operators), Counter[str]())
    counts = {"passed": words["passed"], "failed": words["FAILED"], "open": words["not judged"]}
    rules = [rule for rule in RULES if any(finding.rule == rule for finding in findings)]
    names = ", ".join(one.name for one in certificate.operators)
    text = render(
        "certificate.html",
        certificate=certificate,
        counts=counts,
        rules=rules,
        chip=chip,
        names=names if len(certificate.operators) < 4 else f"{len(certificate.operators)} operators",
        cells={one.name: {rule: _cell(one, rule) for rule in rules} for one in certificate.operators},
        drawn={one.name: _drawn(one) for one in certificate.operators},
    )
    path.write_text(text, encoding="utf-8")


def _drawn(one: OfOperator) -> list[dict[str, Any]]:
    return [plot for plot in (_errors(one), _times(one), _predicted(one)) if plot is not None]


def _cell(one: OfOperator, rule: str) -> dict[str, str]:
    own = [finding for finding in one.findings if finding.rule == rule]
    failed, passed = (sum(finding.passed is wanted for finding in own) for wanted in (False, True))
    if failed:
        return {"kind": "failed", "text": f"{failed} of {len(own)} failed"}
    if passed:
        more = len(own) - passed
        return {"kind": "passed", "text": f"{passed} passed{f', {more} not judged' if more else ''}"}
    return {"kind": "open", "text": "not judged" if own else "left out"}


def _errors(one: OfOperator) -> dict[str, Any] | None:
    """Return the worst error of each dtype and output beside that of stock operators."""
    worst: dict[tuple[str, ...], Finding] = {}
    for finding in one.findings:
        if finding.rule == "stock" and finding.figures:
            words = finding.case.split()
            key = (words[1], words[-1])
            if key not in worst or finding.figures["ours"] > worst[key].figures["ours"]:
                worst[key] = finding
    rows = []
    for (dtype, output), finding in list(worst.items())[: _MOST_BARS // 2]:
        ours, stock = finding.figures["ours"], finding.figures["stock"]
        rows.append(Bar(f"{dtype} {output}", ours, f"{ours:.2g}", "ours" if finding.passed else "bad"))
        rows.append(Bar("stock operators", stock, f"{stock:.2g}", "other"))
    return bars("Largest error against float64, of all cases (logarithmic)", rows, logarithmic=True) if rows else None


def _times(one: OfOperator) -> dict[str, Any] | None:
    rows = []
    for finding in one.findings:
        if finding.rule != "speed" or not finding.figures:
            continue
        for name, (label, kind) in _PEERS.items():
            if name in finding.figures["us"]:
                us = finding.figures["us"][name]
                title = finding.case.removeprefix(one.name).strip() if kind == "ours" else label
                rows.append(
                    Bar(title, us, f"{us:,.1f} us", "bad" if kind == "ours" and finding.passed is False else kind)
                )
    return bars("Time of a call on this CPU (logarithmic)", rows[:_MOST_BARS], logarithmic=True) if rows else None


def _predicted(one: OfOperator) -> dict[str, Any] | None:
    rows = [
        Bar(finding.case.partition(" on ")[0], finding.figures["us"], f"{finding.figures['us']:,.1f} us")
        for finding in one.findings
        if finding.rule == "prediction" and finding.figures
    ]
    return bars("Predicted time on the NPU", rows[:_MOST_BARS]) if rows else None
