"""Every rule of the checked build reports its wrong kernel, and lets its correct counterpart pass."""

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM = os.environ.get("MS_ASCEND_OPS_WRONG_KERNELS")
VIOLATION_STATUS = 99

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="needs the checked build: bash build.sh check")


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60)


def names():
    if PROGRAM is None:
        return ["skipped without the checked build"]
    source = Path(__file__).with_name("wrong_kernels.cpp").read_text()
    return sorted(set(re.findall(r'\bIs\("([^"]+)"\)', source)))


@pytest.mark.parametrize("name", names())
def test_wrong_kernel_is_reported(name):
    done = run(name)
    place = "" if name in ("block-dim", "tiling-size") else r"wrong_kernels\.cpp:\d+"  # no line of a kernel
    found = re.search(place + r": .+ on core \d+ breaks the rule ([a-z-]+)", done.stderr)
    assert found, done.stderr
    assert found[1] == name.split()[0]
    assert done.returncode == VIOLATION_STATUS


@pytest.mark.parametrize("name", names())
def test_correct_counterpart_passes(name):
    done = run(name, "ok")
    assert done.returncode == 0, done.stderr


def test_every_rule_has_a_wrong_kernel():
    source = Path(os.environ["MS_ASCEND_OPS_SOURCE"]) / "kernels" / "host" / "checked" / "rules.cpp"
    rules = set(re.findall(r'^    \{"([a-z-]+)",', source.read_text(), re.M))
    assert {name.split()[0] for name in names()} == {rule for rule in rules if not rule.startswith("note-")}


def test_the_documentation_has_every_rule():
    source = Path(os.environ["MS_ASCEND_OPS_SOURCE"])
    rules = (source / "kernels" / "host" / "checked" / "rules.cpp").read_text()
    page = (source / "docs" / "kernel_tools.md").read_text()
    for rule, says in re.findall(r'^    \{"([a-z-]+)",\s+"([^"]+)"', rules, re.M):
        assert f"| `{rule}` | {says} |" in page
