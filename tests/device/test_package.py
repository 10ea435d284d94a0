"""The vendor package of this library, and another, on an emulated device, without MindSpore."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ms_ascend_ops.device.environment import Settings, environment

ROOT = Path(__file__).parents[2]


def test_operators_of_packages() -> None:
    """In one process, with the environment that `emulate` makes."""
    variables = environment(Settings(memory_bytes=2 << 30), os.environ)
    python_path = f"{ROOT}:{ROOT / 'kernels'}:{variables.get('PYTHONPATH', '')}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, str(Path(__file__).with_name("package_cases.py"))],
        cwd=ROOT,
        env=variables | {"PYTHONPATH": python_path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
