"""Calls of kernels: they go to a kernel library, here one that tests made."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.device.acl import ROOT, program

CODE = """
from tests.device.device_calls import kernel_call
x = np.arange(5, dtype=np.float32)
stream, source, target, empty = acl.stream(), acl.put(x), acl.malloc(20), acl.malloc(20)
def kernel(name, address=source):
    data = kernel_call(name, 1, 2, 3, b"M\\0\\0\\0", 0, 5, (address, 5), None, (target, 5))
    acl.MsAscendDeviceCall(stream, data, c_size_t(len(data)))
    acl.SynchronizeStream(stream)
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that kernels.c makes."""
    return build(tmp_path_factory.mktemp("kernels") / "libkernels.so")


def build(path: Path, *options: str) -> Path:
    source = Path(__file__).with_name("kernels.c")
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler
    subprocess.run([compiler, "-shared", "-fPIC", *options, "-I", ROOT / "kernels", source, "-o", path], check=True)
    return path


def run(library: Path, code: str, **variables: str) -> list[str]:
    done = program(CODE + code, MS_ASCEND_EMULATED_KERNELS=str(library), **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_ends_of_kernels(library: Path):
    code = """
kernel("AddOne")
print(acl.get(target, x))
tell(lambda: kernel("Trap"))
kernel("AddOne")
tell(lambda: kernel("Break"))
acl.ResetDevice(0)
acl.SetDevice(0)
stream, source = acl.stream(), acl.put(x)
tell(lambda: kernel("Abort", source))
"""
    values, trap, violation, fault = run(library, code)
    assert values == "[1. 2. 3. 4. 5.]"
    assert trap == "aclrtSynchronizeStream returned 507035: Trap: trap at kernel line 12"
    assert violation == (
        "aclrtSynchronizeStream returned 507035: device 0: Break: kernels.c:12: breaks the rule gm-bounds"
    )
    assert fault == "aclrtSynchronizeStream returned 507035: device 0: Abort ended in Aborted"


def test_a_launch_whose_time_is_known_runs_in_the_fast_build(tmp_path: Path):
    """The installed library is the fast build. It has no kernel of this name, and says so."""
    code = """
kernel("AddOne")
print(acl.get(target, x))
tell(lambda: kernel("AddOne"))
"""
    traced = build(tmp_path / "libtraced.so", "-DTRACED")
    first, again = run(traced, code, MS_ASCEND_EMULATED_TRACE=str(tmp_path / "trace.json"))
    assert first == "[1. 2. 3. 4. 5.]"
    assert again == "aclrtSynchronizeStream returned 507035: AddOne: the library has no kernel AddOne"


def test_kernel_reads_memory_that_nobody_wrote(library: Path):
    code = """
tell(lambda: acl.get(target, x))
kernel("AddOne")
print(acl.get(target, x))
acl.copy(empty, x, 12)
tell(lambda: kernel("AddOne", empty))
"""
    before, values, fault = run(library, code, MS_ASCEND_EMULATED_CHECK="1")
    assert "which nobody has written" in before
    assert values == "[1. 2. 3. 4. 5.]"
    assert fault.endswith("AddOne: byte 12 has not been written")


def test_library_without_kernels():
    done = program("acl.malloc(8)", MS_ASCEND_EMULATED_KERNELS="/nowhere/libkernels.so")
    assert "device 0 cannot start: /nowhere/libkernels.so: cannot open shared object file" in done.stderr
