"""The worked example of docs/kernel_tools.md, on the checked build; tests/examples has the traced one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIBRARY = os.environ.get("MS_ASCEND_OPS_ROW_SCALE")

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="needs the checked build: bash build.sh check")


def check(version, rows, cols):
    """In a process of its own, as the example does it."""
    example = Path(os.environ["MS_ASCEND_OPS_SOURCE"]) / "examples" / "kernel_tools.py"
    command = [sys.executable, example, "--in-checked", LIBRARY, version, rows, cols]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


def test_the_checked_build_finds_the_missing_queue():
    done = check("wrong", 96, 256)
    assert done.returncode != 0
    assert "row_scale_wrong.h:33: Muls on core 0 breaks the rule pipe-hazard" in done.stderr
    assert "nothing makes V wait for MTE2" in done.stderr


@pytest.mark.parametrize("version", ["slow", "fast"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (96, 256), (333, 257), (100, 4097)])
def test_the_others_pass_at_any_size(version, rows, cols):
    done = check(version, rows, cols)
    assert done.returncode == 0, done.stderr
