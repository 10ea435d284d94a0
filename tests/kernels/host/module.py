"""Builds and loads host_calls, the module of single Ascend C calls (host_calls.cpp)."""

import fcntl
import functools
import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PORTABLE = os.environ.get("MS_ASCEND_OPS_PORTABLE", "0") not in ("", "0")
# Where setup.py builds, so that most is there already.
BUILD = ROOT / "build" / f"cmake-{sys.implementation.cache_tag}{'-portable' if PORTABLE else ''}"


def build():
    """Bring the module up to date, one process at a time, and return its path."""
    path = BUILD / f"host_calls{sysconfig.get_config_var('EXT_SUFFIX')}"
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        portable = "ON" if PORTABLE else "OFF"
        # Each time: an installation left the path of a CMake there that is gone with its build environment.
        _cmake("-S", ROOT, "-B", BUILD, f"-DPython_EXECUTABLE={sys.executable}", f"-DMS_ASCEND_OPS_PORTABLE={portable}")
        _cmake("--build", BUILD, "--target", "host_calls", "--parallel", "2")
    return path


def host_objects():
    """The object files of the host layer, as the installation built them."""
    return _objects("host_objects.txt")


def library_objects():
    """Those of a kernel library but for its kernels."""
    return _objects("library_objects.txt")


def _objects(names):
    """CMake writes their names."""
    assert (BUILD / names).is_file(), f"there is no {BUILD / names}: install the package first"
    return [Path(line) for line in (BUILD / names).read_text().splitlines()]


def _cmake(*arguments):
    done = subprocess.run(["cmake", *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"host_calls does not build:\n{done.stdout}{done.stderr}")


@functools.cache
def host_calls():
    """The module; MS_ASCEND_OPS_HOST_CALLS names one that is built already (build.sh sanitize)."""
    path = os.environ.get("MS_ASCEND_OPS_HOST_CALLS") or build()
    spec = importlib.util.spec_from_file_location("host_calls", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program(calls):
    """A Program of (name, arguments...) tuples."""
    result = host_calls().Program()
    for name, *arguments in calls:
        getattr(result, name)(*arguments)
    return result


def writes_loops() -> bool:
    """Whether loops can be compiled: the oldest vector unit has none."""
    return host_calls().VECTOR_UNIT != "x86-64-v2"
