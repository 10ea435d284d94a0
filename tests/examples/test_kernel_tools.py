"""The worked example of docs/kernel_tools.md, on the traced build; tests/kernels/checked has the checked one."""

import ctypes
import importlib.util
from pathlib import Path

import pytest

from ms_ascend_ops.profiler.chip import load_chip
from tests import traced

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kernel_tools.py"


@pytest.mark.slow  # builds the traced library
def test_what_the_profile_says_of_them():
    spec = importlib.util.spec_from_file_location("kernel_tools", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    library = ctypes.CDLL(str(traced.build("row_scale")))
    chip = load_chip("ascend910b2")
    slow, fast = (example.profile(library, version, 8192, 256, chip) for version in ("slow", "fast"))
    assert slow.bound_by == "latency (S at most)"  # GetValue of global memory, row by row
    assert slow.bytes_per_copy == 1024
    assert fast.bound_by == "HBM"
    assert fast.bytes_per_copy > 16 * 1024
    assert fast.kernel_hbm_share > 0.9
    assert slow.us > 5 * fast.us
