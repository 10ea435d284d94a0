"""Reads the findings that take minutes from runs that are kept: kernel tests on the checked build, and seeded bugs.

`bash build.sh check` and `bash build.sh check --mutations` run them. What they said is kept in `build/certify/` under a
hash of all sources that it depends on, and is of no use for other sources.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ms_ascend_ops.certificate.finding import Finding

__all__ = ["checks", "file_hash", "mutations", "source_hash"]

_LAST_LINES = 15
_MUTANT = re.compile(r"^(caught|MISSED)\s+(.+?)\s+(\S+): (.*)$", re.MULTILINE)


def file_hash(*paths: Path) -> str:
    """Hash the contents of files, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def source_hash(root: Path, name: str) -> str:
    """Hash the kernel of an operator, what kernels share and stand on, its reference and its tests."""
    folders = [root / "kernels" / part for part in (name, "primitives", "interface", "host", "codegen", "binding")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".h", ".cpp", ".py")]
    files += [root / f"ms_ascend_ops/ops/{name}.yaml", root / f"tests/reference/{name}.py"]
    files += [root / f"tests/kernels/test_{name}.py", root / "tests/kernels/checked/mutations.yaml"]
    return file_hash(*[path for path in files if path.is_file()])


def checks(root: Path, name: str, run: bool, tell: Callable[[str], None]) -> Iterator[Finding]:
    """Run the kernel tests of an operator on the checked build."""
    test = root / f"tests/kernels/test_{name}.py"
    if not test.is_file():
        yield Finding("checks", name, False, f"there is no {test.relative_to(root)}")
        return
    kept = _kept(root, name, "checks", run, lambda: _run_checks(root, name, tell))
    if kept is None:
        yield Finding("checks", name, None, "not run for these sources: certify --run checks")
        return
    passed = kept["failed"] == 0 and kept["passed"] > 0
    text = f"{kept['passed']} passed, {kept['failed']} failed, {kept['skipped']} skipped ({kept['date']})"
    yield Finding("checks", name, passed, "; ".join([text, *kept["messages"]]), kept)


def mutations(root: Path, name: str, run: bool, tell: Callable[[str], None]) -> Iterator[Finding]:
    """Yield those of `tests/kernels/checked/mutations.yaml` in the kernels of an operator."""
    import yaml

    listed = yaml.safe_load((root / "tests/kernels/checked/mutations.yaml").read_text(encoding="utf-8"))["mutations"]
    own = [entry["bug"] for entry in listed if entry.get("op") == name]
    if not own:
        yield Finding("mutations", name, None, "the list has no bug for this operator")
        return
    kept = _kept(root, name, "mutations", run, lambda: _run_mutations(root, name, own, tell))
    if kept is None:
        yield Finding("mutations", name, None, f"{len(own)} bugs, not run for these sources: certify --run mutations")
        return
    for bug in kept["bugs"]:
        yield Finding("mutations", f"{name}: {bug['bug']}", bug["caught"], f"by {bug['by']}", {"date": kept["date"]})
    if len(kept["bugs"]) < len(own):
        yield Finding("mutations", name, False, f"only {len(kept['bugs'])} of {len(own)} bugs were run: {kept['said']}")


def _kept(root: Path, name: str, what: str, run: bool, make: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    path = root / "build" / "certify" / f"{name}-{what}-{source_hash(root, name)}.json"
    if run:
        result = {"date": datetime.now(timezone.utc).isoformat(timespec="seconds"), **make()}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _run_checks(root: Path, name: str, tell: Callable[[str], None]) -> dict[str, Any]:
    report = root / "build" / "certify" / f"{name}-junit.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    tell(f"{name}: kernel tests on the checked build")
    command = ["bash", "build.sh", "check", "-k", f"test_{name}.py", f"--junitxml={report}"]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if not report.is_file():  # a broken rule ends the process
        return {"passed": 0, "failed": 1, "skipped": 0, "messages": [_end(said.stderr or said.stdout)]}
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    count = {key: sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    messages = [_end(said.stdout + said.stderr)] if said.returncode not in (0, 5) else []
    passed = count["tests"] - failed - count["skipped"]
    return {"passed": passed, "failed": failed, "skipped": count["skipped"], "messages": messages}


def _run_mutations(root: Path, name: str, own: list[str], tell: Callable[[str], None]) -> dict[str, Any]:
    tell(f"{name}: seeded bugs")
    command = ["bash", "build.sh", "check", "--mutations", "--only", name]
    said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    bugs = [
        {"caught": caught == "caught", "by": by.strip(), "file": file, "bug": bug}
        for caught, by, file, bug in _MUTANT.findall(said.stdout)
        if re.sub(r" \(expected .*\)$", "", bug) in own
    ]
    return {"bugs": bugs, "said": _end(said.stdout + said.stderr) if not bugs else ""}


def _end(text: str) -> str:
    return " | ".join(line.strip() for line in text.strip().splitlines()[-_LAST_LINES:] if line.strip())[-1500:]
