"""The vendor package of this library, and another, on an emulated device, without MindSpore."""

from __future__ import annotations

import os
from pathlib import Path

from ms_ascend_ops.device.environment import Settings, environment
from tests.device.installation import run_cases


def test_operators_of_packages() -> None:
    """In one process, with the environment that `emulate` makes."""
    run_cases(Path(__file__).with_name("package_cases.py"), environment(Settings(memory_bytes=2 << 30), os.environ))
