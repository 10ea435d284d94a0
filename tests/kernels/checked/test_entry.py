"""Entries of the CANN package in the checked build, which names operator, argument, kernel line and rule."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ms_ascend_ops.library import library_path

pytestmark = pytest.mark.skipif(
    "MS_ASCEND_OPS_WRONG_KERNELS" not in os.environ, reason="needs the checked build: bash build.sh check"
)
VIOLATION_STATUS = 99
ROOT = Path(__file__).resolve().parents[3]


def run(*wrong):
    command = [sys.executable, "-m", "tests.kernels.checked.entry", str(library_path()), *wrong]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def test_an_entry():
    done = run()
    assert done.returncode == 0, done.stderr


def test_an_entry_that_reads_too_much():
    done = run("rows=9")
    assert done.returncode == VIOLATION_STATUS
    assert "primitives/tile.h:" in done.stderr
    assert "DataCopyPad on core 0 breaks the rule gm-bounds" in done.stderr
    assert "found: bytes 4800 to 9600 of x, which has 4800" in done.stderr
    assert "launch: rms_norm on 1 cores" in done.stderr
    assert "output rstd: float, 16 bytes" in done.stderr


def test_an_entry_that_takes_too_much_of_the_unified_buffer():
    done = run("tileRows=400")
    assert done.returncode == VIOLATION_STATUS
    assert "breaks the rule ub-capacity" in done.stderr
