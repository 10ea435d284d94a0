"""What an installation of the package goes through, by MindSpore's Ascend backend on an emulated device."""

from __future__ import annotations

import os
from pathlib import Path

from ms_ascend_ops.device.environment import Settings, environment
from tests.device.installation import run_cases


def test_an_installation() -> None:
    """In one process, with the environment that `emulate` makes."""
    given = {key: value for key, value in os.environ.items() if key != "MS_ASCEND_OPS_PREFER"}
    variables = environment(Settings(memory_bytes=2 << 30), given)
    run_cases(Path(__file__).with_name("installation_cases.py"), variables | {"GLOG_v": "4"})
