"""The worked example of docs/kernel_tools.md, step by step. Builds both observed libraries."""

import ctypes
import importlib.util
from pathlib import Path

import pytest

from ms_ascend_ops.profiler.chip import load_chip
from ms_ascend_ops.profiler.record import build

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kernel_tools.py"

pytestmark = pytest.mark.slow  # compiles the host layer twice


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("kernel_tools", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def checked():
    return build(print, "checked", "row_scale")


@pytest.fixture(scope="module")
def traced():
    return ctypes.CDLL(str(build(print, "traced", "row_scale")))


def test_the_checked_build_finds_the_missing_queue(example, checked):
    done = example.check(checked, "wrong", 96, 256)
    assert done.returncode != 0
    assert "row_scale_wrong.h:33: Muls on core 0 breaks the rule pipe-hazard" in done.stderr
    assert "nothing makes V wait for MTE2" in done.stderr


@pytest.mark.parametrize("version", ["slow", "fast"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (96, 256), (333, 257), (100, 4097)])
def test_the_others_pass_at_any_size(example, checked, version, rows, cols):
    done = example.check(checked, version, rows, cols)
    assert done.returncode == 0, done.stderr


def test_what_the_profile_says_of_them(example, traced):
    slow, fast = (example.profile(traced, version, 8192, 256, load_chip("ascend910b2")) for version in ("slow", "fast"))
    assert slow.bound_by == "latency (S at most)"  # GetValue of global memory, row by row
    assert slow.bytes_per_copy == 1024
    assert fast.bound_by == "HBM"
    assert fast.bytes_per_copy > 16 * 1024
    assert fast.kernel_hbm_share > 0.9
    assert slow.us > 5 * fast.us
