"""The vector unit that is chosen for a CPU that qemu emulates, and what a library of a portable build holds."""

import os
import platform
import subprocess
import sys

import pytest

from ms_ascend_ops.library import native

pytestmark = pytest.mark.skipif(platform.machine() != "aarch64", reason="of build.sh cross-test aarch64")

LEVELS = {"cortex-a57": "armv8", "cortex-a76": "armv8-dotprod", "max": "armv8-bf16"}


def test_the_best_that_the_cpu_has():
    assert native().vector_unit() == LEVELS[os.environ.get("QEMU_CPU", "max")]


def test_a_lower_one_by_name():
    code = "from ms_ascend_ops.library import native; print(native().vector_unit())"
    environment = {**os.environ, "MS_ASCEND_OPS_VECTOR_UNIT": "armv8"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("armv8\n", "", 0)
