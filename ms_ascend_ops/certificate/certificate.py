"""Holds all findings of some operators, as JSON and as a page."""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.certificate.finding import RULES, Finding
from ms_ascend_ops.dispatch.measurements import conditions
from ms_ascend_ops.library import library_path

__all__ = ["PARTS", "Certificate", "OfOperator", "certify"]

_log = logging.getLogger(__name__)

# These may be left out; each has rules.
PARTS = {
    "accuracy": ("tolerance", "relative", "stock"),
    "behaviour": ("determinism", "inputs", "special"),
    "checks": ("checks",),
    "mutations": ("mutations",),
    "speed": ("speed",),
    "prediction": ("prediction",),
}


@dataclass
class OfOperator:
    """Holds the findings of one operator."""

    name: str
    summary: str
    version: int
    dtypes: list[str]
    hashes: dict[str, str]
    left_out: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def failed(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.passed is False]

    @property
    def passed(self) -> bool:
        return not self.failed and any(finding.passed for finding in self.findings)

    @property
    def complete(self) -> bool:
        """Tell whether every part was judged, as far as there is something to judge."""
        not_run = any(finding.passed is None and "not run" in finding.text for finding in self.findings)
        return not self.left_out and not not_run

    @property
    def verdict(self) -> str:
        if not self.passed:
            return "not accepted"
        return "accepted" if self.complete else "accepted in part"

    @property
    def counts(self) -> Counter[str]:
        """Return how many findings there are of each result."""
        return Counter(finding.word for finding in self.findings)

    def by_rule(self) -> Iterator[tuple[str, str, list[Finding]]]:
        """Yield each rule, its text and its findings, failed ones first."""
        for rule, text in RULES.items():
            own = [finding for finding in self.findings if finding.rule == rule]
            if own:
                yield rule, text, sorted(own, key=lambda finding: (finding.passed is not False, finding.passed is None))

    def as_dict(self) -> dict[str, Any]:
        return {
            "operator": self.name,
            "summary": self.summary,
            "version": self.version,
            "dtypes": self.dtypes,
            "hashes": self.hashes,
            "accepted": self.passed,
            "counts": dict(self.counts),
            "findings": [finding.as_dict() for finding in self.findings],
        }


@dataclass
class Certificate:
    """Holds the findings of some operators, on one machine."""

    operators: list[OfOperator]
    left_out: list[str]
    where: dict[str, Any]

    @property
    def passed(self) -> bool:
        return bool(self.operators) and all(one.passed for one in self.operators)

    @property
    def complete(self) -> bool:
        """Tell whether every part was judged for every operator, as far as there is something to judge."""
        return all(one.complete for one in self.operators)

    @property
    def verdict(self) -> str:
        if not self.passed:
            return "not accepted"
        return "accepted" if self.complete else "accepted in part"

    def as_dict(self) -> dict[str, Any]:
        return {
            "certificate": 1,
            "verdict": self.verdict,
            "complete": self.complete,
            "left_out": self.left_out,
            "rules": RULES,
            **self.where,
            "operators": [one.as_dict() for one in self.operators],
        }

    def write(self, path: Path) -> None:
        """Write it as JSON; a figure that is no number is null."""
        text = json.dumps(_numbers(self.as_dict()), indent=1, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")


def certify(
    names: list[str],
    root: Path,
    left_out: list[str],
    run: list[str],
    quick: bool = False,
    chip: str = "ascend910b2",
    tolerance: float = 0.1,
    tell: Callable[[str], None] = lambda text: None,
) -> Certificate:
    """Examine operators.

    Args:
        names: of operators.
        root: the source tree.
        left_out: keys of PARTS.
        run: "checks" and "mutations" are run now, and not taken from a run before.
        quick: small shapes, and one case of speed and of prediction.
        chip: of the prediction.
        tolerance: by which share a time may be longer than that of stock MindSpore.
        tell: is told what goes on.

    Raises:
        ValueError: there is no such operator or part.
    """
    if unknown := [part for part in (*left_out, *run) if part not in PARTS]:
        raise ValueError(f"certify: a part must be of {', '.join(PARTS)}, got {', '.join(unknown)}")
    specs = [registry.op_spec(name) for name in names]
    if str(root) not in sys.path:  # for tests.reference, which is not installed
        sys.path.insert(0, str(root))
    from ms_ascend_ops.certificate import behaviour
    from ms_ascend_ops.certificate.accuracy import dtypes_of

    behaviour.synchronous()
    found = []
    for spec in specs:
        one = OfOperator(spec.name, spec.summary, spec.version, dtypes_of(spec.name), _hashes(root, spec), left_out)
        for part in PARTS:
            if part not in left_out:
                tell(f"{spec.name}: {part}")
                try:
                    one.findings += _part(part, one, root, part in run, quick, chip, tolerance, tell)
                except Exception as error:  # of one operator: the others are examined, too
                    _log.debug("%s: %s", spec.name, part, exc_info=True)
                    text = f"could not be examined: {type(error).__name__}: {error}"[:300]
                    one.findings.append(Finding(PARTS[part][0], spec.name, False, text))
        found.append(one)
    return Certificate(found, left_out, _where(root))


def _part(
    part: str,
    one: OfOperator,
    root: Path,
    run: bool,
    quick: bool,
    chip: str,
    tolerance: float,
    tell: Callable[[str], None],
) -> Iterator[Finding]:
    from ms_ascend_ops.certificate import accuracy, behaviour, evidence, speed

    if part == "accuracy":
        for case in accuracy.cases_of(one.name, one.dtypes, quick):
            yield from accuracy.accuracy_findings(case)
    elif part == "behaviour":
        cases = [case for case in accuracy.cases_of(one.name, one.dtypes, True) if not case.gradient]
        seen: set[tuple[str, str]] = set()
        for case in cases:
            if (case.dtype, case.variant) in seen:
                continue
            seen.add((case.dtype, case.variant))
            yield behaviour.determinism(case)
            yield from behaviour.special_values(case)
        yield from behaviour.wrong_inputs(one.name, cases[0])
    elif part == "checks":
        yield from evidence.checks(root, one.name, run, tell)
    elif part == "mutations":
        yield from evidence.mutations(root, one.name, run, tell)
    elif part == "speed":
        yield from speed.speed(one.name, one.dtypes, tolerance, quick, tell)
    else:
        yield from speed.predictions(one.name, one.dtypes, chip, quick, tell)


def _hashes(root: Path, spec: registry.OpSpec) -> dict[str, str]:
    from ms_ascend_ops.certificate.evidence import file_hash, source_hash

    kernel = list((root / "kernels" / spec.name).glob("*.h"))
    return {
        "definition": spec.forward.fingerprint,
        "kernel": file_hash(*kernel),
        "sources": source_hash(root, spec.name),
        "reference": file_hash(root / f"tests/reference/{spec.name}.py"),
    }


def _where(root: Path) -> dict[str, Any]:
    from ms_ascend_ops.certificate.evidence import file_hash

    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=False)
    found = conditions()
    found["machine"] |= {"system": platform.platform(), "load": round(os.getloadavg()[0], 2)}
    found["versions"]["python"] = platform.python_version()
    return found | {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() + ("+changes" if changed.stdout.strip() else ""),
        "library": file_hash(Path(library_path())),
    }


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _numbers(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_numbers(one) for one in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value.item() if hasattr(value, "item") else value
