"""`bash build.sh fresh-check [COMMAND ...]`: each command of build.sh as the first one of a fresh clone.

Not those that make environments of their own: release-check, wheel, cross-test, `test --clients`, `test --mindspore`.
The clone, of what is committed, is in build/fresh/COMMAND, with no environment: build.sh makes one. With a few tests
where a command runs tests. MS_ASCEND_OPS_TEST_BUILD=1 and ccache make it shorter.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.release.fresh import ROOT, StepError, run

WORK = ROOT / "build/fresh"


@dataclass(frozen=True)
class Try:
    """What is typed behind the command, and what has to be in its output."""

    arguments: str = ""
    said: str = ""


COMMANDS = {
    "host": Try(),
    "check": Try("--cases few -k rms_norm", "passed"),
    "compile": Try("check"),
    "types": Try(said="no issues found"),
    "test": Try("tests/kernels/test_rms_norm.py tests/examples/test_kernel_tools.py", "passed"),
    "bench": Try("--ops silu_mul --shapes 128x1024 --quick", "silu_mul"),
    "portable": Try("--cases few -k cast", "passed"),  # the oldest unit runs tests/kernels/host alone
    "sanitize": Try("--cases few -k silu_mul", "passed"),
    "ascend": Try("--generate-only"),
    "check-cann": Try(said="there is no CANN toolkit"),
    "test-npu": Try("--emulated --ops silu_mul --dtypes float32", "silu_mul"),
    "demo": Try("--train"),
    "docs": Try(said="build/docs/index.html"),
    "clean": Try(),
}


def main() -> None:
    names = sys.argv[1:] or [*COMMANDS, "two builds"]
    if unknown := [name for name in names if name not in (*COMMANDS, "two builds")]:
        sys.exit(f"fresh-check: there is no command '{unknown[0]}'; there are {', '.join(COMMANDS)}, 'two builds'")
    failed = []
    for name in names:
        try:
            two_builds() if name == "two builds" else first(name)
        except StepError as failure:
            print(f"FAILED  {failure}", flush=True)
            failed.append(name)
    sys.exit(f"fresh-check: {', '.join(failed)} failed" if failed else 0)


def fresh_clone(name: str) -> Path:
    folder = WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    run("git", "clone", "--quiet", ROOT, folder, cwd=ROOT, label=f"a fresh clone for {name}")
    return folder


def first(name: str) -> None:
    wanted, clone, began = COMMANDS[name], fresh_clone(name), time.monotonic()
    said = build(clone, name, *wanted.arguments.split())
    if wanted.said not in said:
        raise StepError(f"{name}: '{wanted.said}' is not in its output\n{said[-3000:]}")
    # What takes long says how long.
    if name != "types" and time.monotonic() - began >= 15 and not re.search(rf"{name} (took|failed after) \d+ s", said):
        raise StepError(f"{name}: the time at its end is missing\n{said[-3000:]}")
    dirty = run("git", "status", "--short", cwd=clone, label="no file is left beside those of the repository")
    if dirty:
        raise StepError(f"{name} leaves files that git sees:\n{dirty}")
    shutil.rmtree(clone)  # 3 GB, with MindSpore


def two_builds() -> None:
    """In one tree, at the same time: one waits for the other, both end well."""
    clone = fresh_clone("two builds")
    build(clone, "ascend", "--generate-only")  # makes the environment
    with ThreadPoolExecutor(2) as pool:
        said = list(pool.map(lambda _: build(clone, "host"), range(2)))
    if sum("another build" in text for text in said) != 1:
        raise StepError(f"two builds: none of them says that it waits\n{said[0][-1500:]}\n---\n{said[1][-1500:]}")
    shutil.rmtree(clone)


def build(clone: Path, command: str, *arguments: str) -> str:
    return run("bash", "build.sh", command, *arguments, cwd=clone)


if __name__ == "__main__":
    main()
