"""Checks whether the parts of an installation fit together: one function for each part. Imports none of them itself."""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ms_ascend_ops import ascend, extras, loop_compiler, registry
from ms_ascend_ops.cann import cann_home, cann_version, driver_version
from ms_ascend_ops.library import LIBRARY
from ms_ascend_ops.version import __version__

__all__ = ["Check", "examine"]

_REBUILD = "run `pip install .` (or `bash build.sh host`) in the source tree"
_BUILD_PACKAGE = "run `bash build.sh ascend --soc CHIP --install PATH` in the source tree, then source its set_env.bash"
_INSTALL_LLVM = "pip install 'llvmlite>=0.45,<0.51'"
_NPU_DEVICES = "/dev/davinci[0-9]*"

# A new process finds this out about the library: a crash of it is a finding, not the end of the examination.
_TRY_LIBRARY = """
import json
import numpy as np
from ms_ascend_ops import _C
x = np.arange(1, 65, dtype=np.float32).reshape(4, 16)
y, rstd = np.full_like(x, np.nan), np.full((4, 1), np.nan, np.float32)
_C.launch("rms_norm", [x, np.ones(16, np.float32)], [y, rstd], {"epsilon": 1e-6, "scheme": "round_then_scale"})
error = float(np.abs(y - x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-6)).max())
print(json.dumps({"version": _C.version(), "path": _C.library_path(), "threads": _C.get_thread_num(), "error": error,
                  "vector_unit": _C.vector_unit(), "products": _C.product_library(),
                  "signatures": [signature["name"] for signature in _C.signatures()]}))
"""

# Not `from ms_ascend_ops import _C`: that starts the thread which compiles.
_TRY_LOOPS = """
import importlib
import json
import numpy as np
from ms_ascend_ops.loop_compiler import LoopCompiler
_C = importlib.import_module("ms_ascend_ops._C")
_C.set_loop_threshold(0)
x = np.linspace(-9, 9, 4 * 4096, dtype=np.float32).reshape(4, 4096)
interpreted, compiled = np.full_like(x, np.nan), np.full_like(x, np.nan)
_C.launch("silu_mul", [x, x], [interpreted], {})
found = {"vector_unit": _C.vector_unit()}
try:
    found["count"] = LoopCompiler(_C).compile_waiting()
    if found["count"]:
        import llvmlite
        found["llvm"] = ".".join(map(str, llvmlite.binding.llvm_version_info)) + f" (llvmlite {llvmlite.__version__})"
        _C.launch("silu_mul", [x, x], [compiled], {})
        found["same"] = interpreted.tobytes() == compiled.tobytes()
except Exception as error:
    found["failure"] = " ".join(f"{type(error).__name__}: {error}".split())
print(json.dumps(found))
"""

_TRY_MINDSPORE = """
import json
import mindspore as ms
import numpy as np
from ms_ascend_ops import ops
from ms_ascend_ops import _C
x = ms.Tensor(np.arange(1, 65, dtype=np.float32).reshape(4, 16)) + 1.0
y = ops.rms_norm(x, ms.Tensor(np.ones(16, np.float32)))[0].asnumpy()
x = x.asnumpy().astype(np.float64)
error = float(np.abs(y - x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6)).max())
print(json.dumps({"target": ms.get_context("device_target"), "error": error, "products": _C.product_library()}))
"""


@dataclass(frozen=True)
class Check:
    """Says what was found of one part, and what to do about it if that does not fit."""

    part: str
    status: Literal["ok", "warning", "error", "absent"]  # absent: not here, and not needed here
    found: str
    remedy: str = ""


def examine() -> Iterator[Check]:
    """Yield the findings of every part, one after the other."""
    _run.cache_clear()
    for part, check in _CHECKS.items():
        try:
            yield check(part)
        except Exception as error:
            yield Check(part, "error", f"cannot be examined: {type(error).__name__}: {error}")


def _python(part: str) -> Check:
    found = f"{platform.python_version()} at {sys.executable}, {platform.machine()}"
    if (3, 10) <= sys.version_info[:2] <= (3, 12):
        return Check(part, "ok", found)
    return Check(part, "error", found, "use Python 3.10, 3.11 or 3.12: MindSpore has wheels for no other that fit")


def _package(part: str) -> Check:
    operators = registry.names()
    return Check(part, "ok", f"{__version__} at {Path(__file__).parent}, {len(operators)} operators")


_MINDSPORE = "mindspore>=2.7,<2.11"
_LIMIT_S = 120  # for a process that imports MindSpore on a machine with much else to do


# Packages that all bring the folder `mindspore`: the files of the last that was installed are there.
_OF_MINDSPORE = ("mindspore", "mindspore-dev", "mindspore-ascend", "mindspore-gpu")


def _mindspore(part: str) -> Check:
    distributions = [d for name in _OF_MINDSPORE for d in importlib.metadata.distributions(name=name)]
    found = sorted({f"{d.metadata['Name']} {d.version}" for d in distributions})
    if len(found) > 1:
        names = " ".join(sorted({text.partition(" ")[0] for text in found}))
        remedy = f"they overwrite each other's files: pip uninstall {names}, then pip install '{_MINDSPORE}'"
        return Check(part, "error", " and ".join(found), remedy)
    version = _installed("mindspore")
    if version is None and found:
        remedy = f"not a release of MindSpore, nobody tried it; if it fails: pip uninstall, pip install '{_MINDSPORE}'"
        return Check(part, "warning", found[0], remedy)
    if version is None:
        return Check(part, "error", "not installed", f"pip install '{_MINDSPORE}'")
    if not (2, 7) <= _numbers(version)[:2] <= (2, 10):
        return Check(part, "error", version, f"this package was tried with 2.7 to 2.10: pip install '{_MINDSPORE}'")
    return Check(part, "ok", version)


def _numpy(part: str) -> Check:
    version = _installed("numpy")
    if version is None:
        return Check(part, "error", "not installed", "pip install 'numpy>=1.25,<2'")
    if _numbers(version) >= (2,):
        remedy = "MindSpore is compiled against NumPy 1 and fails with 2: pip install 'numpy>=1.25,<2'"
        return Check(part, "error", version, remedy)
    if _numbers(version) < (1, 25):
        return Check(part, "error", version, "pip install 'numpy>=1.25,<2'")
    return Check(part, "ok", version)


def _library(part: str) -> Check:
    if not LIBRARY.is_file():
        return Check(part, "error", f"{LIBRARY} is missing", _REBUILD)
    found, failure = _run(_TRY_LIBRARY)
    if found is None:
        if failure == f"killed by {signal.SIGILL.name}":
            remedy = f"it was built for another CPU: {_REBUILD} on this machine, or with MS_ASCEND_OPS_PORTABLE=1"
            return Check(part, "error", f"{LIBRARY} holds instructions that this CPU does not have", remedy)
        return Check(part, "error", f"{LIBRARY} does not run: {failure}", _REBUILD)
    text = f"{found['version']} at {found['path']}, {found['threads']} threads, built for {_cpu(found)}"
    if found["version"] != __version__:
        return Check(part, "error", f"{text}, but the package has {__version__}", _REBUILD)
    defined = {signature.name for op in registry.names() for signature in registry.op_spec(op).signatures}
    if odd := sorted(defined ^ set(found["signatures"])):
        return Check(part, "error", f"{text}, which does not have the operators of the package ({odd[0]})", _REBUILD)
    if not found["error"] < 1e-5:
        return Check(part, "error", f"{text}, which computes wrong values (error {found['error']:.2g})", _REBUILD)
    return Check(part, "ok", text)


def _loops(part: str) -> Check:
    if os.environ.get(loop_compiler.VARIABLE) == "0":
        return Check(part, "absent", f"interpreted, which is slower: {loop_compiler.why_not()}")
    if reason := loop_compiler.why_not():
        return Check(part, "warning", f"interpreted, which is slower: {reason}", _INSTALL_LLVM)
    found, failure = _run(_TRY_LOOPS)
    if found is None:
        return Check(part, "error", f"the code of one does not run: {failure}", f"set {loop_compiler.VARIABLE}=0")
    if "failure" in found:
        return Check(part, "warning", f"interpreted, which is slower: {found['failure']}", _INSTALL_LLVM)
    if not found["count"]:
        return Check(part, "absent", f"interpreted: for the vector unit {found['vector_unit']} none is compiled")
    text = f"compiled by LLVM {found['llvm']}"
    if not found["same"]:
        return Check(part, "error", f"{text}, to code that computes wrong values", f"set {loop_compiler.VARIABLE}=0")
    return Check(part, "ok", text)


def _operators(part: str) -> Check:
    found, failure = _run(_TRY_MINDSPORE)
    if found is None:
        return Check(part, "error", f"an operator does not run: {failure}", "first what the other parts say")
    text = f"rms_norm runs on {found['target']}"
    if not found["error"] < 1e-5:
        return Check(part, "error", f"{text} with wrong values (error {found['error']:.2g})", _REBUILD)
    return Check(part, "ok", text)


def _products(part: str) -> Check:
    """Return the findings on products, by the library that MindSpore brings, once MindSpore is imported."""
    found, failure = _run(_TRY_MINDSPORE if _installed("mindspore") else _TRY_LIBRARY)
    if found is None:
        return Check(part, "error", f"an operator does not run: {failure}", "first what the other parts say")
    library, path = found["products"]
    if not path.startswith("/"):
        return Check(part, "warning", f"{library}, which are slower: {path}", "MindSpore's wheel brings libdnnl.so")
    return Check(part, "ok", f"{library} at {path}")


def _devices(part: str) -> Check:
    devices = sorted(path.name for path in Path("/dev").glob(_NPU_DEVICES.rpartition("/")[2]))
    version = driver_version()
    if not devices:
        where = "no NPU: operators run on the CPU" + (f" (driver {version} is installed)" if version else "")
        return Check(part, "absent", where)
    if version is None:
        return Check(part, "error", f"{', '.join(devices)}, no driver", "install the NPU driver and firmware")
    return Check(part, "ok", f"driver {version}, {', '.join(devices)}")


def _cann(part: str) -> Check:
    home, version = cann_home(), cann_version()
    if home is None:
        if _has_npu():
            return Check(part, "error", "not in the environment", "source set_env.sh of the CANN toolkit")
        return Check(part, "absent", "not installed; needed on an NPU only")
    if version is None:
        return Check(part, "error", f"{home} holds no toolkit", "source set_env.sh of the CANN toolkit that is there")
    supported = _cann_supported()
    if supported and ".".join(version.split(".")[:2]) not in supported:
        remedy = f"MindSpore {_installed('mindspore')} is for CANN {', '.join(supported)}"
        return Check(part, "warning", f"{version} at {home}", remedy)
    return Check(part, "ok", f"{version} at {home}")


def _custom_package(part: str) -> Check:
    found = [(package, package.chips()) for package in ascend.packages()]
    ours = [(package, chips) for package, chips in found if any(package.operators(chip) for chip in chips)]
    needed = {signature.cann_type for op in registry.names() for signature in registry.op_spec(op).signatures}
    if not ours:
        if not _has_npu():
            return Check(part, "absent", "not installed; needed on an NPU only")
        return Check(part, "error", "not installed", _BUILD_PACKAGE)
    package, chips = ours[0]
    text = f"{package.folder} for {', '.join(chips)}"
    for chip in chips:
        if missing := sorted(needed - package.operators(chip)):
            return Check(part, "error", f"{text} lacks {', '.join(missing)} for {chip}", _BUILD_PACKAGE)
    versions = {package.version(operator) for operator in needed}
    if versions != {__version__}:
        others = ", ".join(sorted(version or "(unknown)" for version in versions))
        return Check(part, "error", f"{text} has version {others}, the package {__version__}", _BUILD_PACKAGE)
    return Check(part, "ok", f"{text}, {len(needed)} operators")


def _compiler(part: str) -> Check:
    path = shutil.which("g++")
    if path is None:
        return Check(
            part, "absent", "no g++", "install g++ if `emulate`, or custom operators of others on an NPU, need it"
        )
    return Check(part, "ok", path)


def _emulated_device(part: str) -> Check:
    missing = [name for name in _DEVICE_FILES if not (LIBRARY.parent / name).exists()]
    if missing:
        return Check(part, "error", f"{LIBRARY.parent / missing[0]} is missing", _REBUILD)
    home, inside = cann_home(), os.environ.get("MS_ASCEND_EMULATED_CHIP", "")
    if inside and home is not None and not home.resolve().is_relative_to(LIBRARY.parent.resolve()):
        remedy = "eval the lines of `emulate --print-environment` behind set_env.sh, or leave that out"
        return Check(part, "error", f"its variables are set, but CANN is {home}", remedy)
    used = f"used here ({inside.partition(';')[0].removeprefix('soc=')})" if inside else "`emulate` runs programs on it"
    if shutil.which("g++") is None:
        return Check(part, "absent", f"{used}, once there is g++", "install g++")
    return Check(part, "ok", used)


def _commands(part: str) -> Check:
    found, remedies = [], []
    for command in sorted(extras.EXTRA_OF):
        if packages := extras.missing(command):
            found.append(f"{command:<20} needs {', '.join(packages)}")
            remedies.append(extras.advice(command))
    if extras.source_tree() is None:
        found.append(f"{'profile':<20} needs the sources of the kernels")
        remedies.append("pip install -e '.[profile]' in a clone of the repository, for profile")
    if not found:
        return Check(part, "ok", "all of them can run")
    return Check(part, "absent", "\n".join(found), "\n".join(dict.fromkeys(remedies)))


def _environment(part: str) -> Check:
    found, wrong = [], []
    for name, rule in _VARIABLES.items():
        value = os.environ.get(name)
        if value is None:
            continue
        found.append(f"{name}={value}")
        if reason := rule(value):
            wrong.append(f"{name}: {reason}")
    text = ", ".join(found) or "nothing set that matters"
    return Check(part, "error" if wrong else "ok", text, "; ".join(wrong))


def _threads_are_wrong(value: str) -> str:
    right = value.isascii() and value.isdecimal() and 1 <= int(value) <= 256
    return "" if right else "it must be 1 to 256; it is ignored"


def _stream_bytes_are_wrong(value: str) -> str:
    right = value.isascii() and value.isdecimal() and int(value) > 0
    return "" if right else "it must be 1 or more; it is ignored"


def _white_list_is_wrong(value: str) -> str:
    inside = LIBRARY.resolve().is_relative_to(Path(value).resolve())
    return "" if inside else f"it must hold {LIBRARY}, or MindSpore refuses every operator"


def _folders_are_wrong(value: str) -> str:
    missing = [folder for folder in value.split(":") if folder and not Path(folder).is_dir()]
    return f"{', '.join(missing)} does not exist: source set_env.sh again" if missing else ""


_DEVICE_FILES = (
    "libms_ascend_device.so",
    "cann/lib64/libascendcl.so",
    "cann/lib64/libopapi.so",
    "cann/opp/vendors/ms_ascend_ops/op_api/lib/libcust_opapi.so",
)

_VARIABLES: dict[str, Callable[[str], str]] = {
    "MS_ASCEND_OPS_NUM_THREADS": _threads_are_wrong,
    "MS_ASCEND_OPS_STREAM_BYTES": _stream_bytes_are_wrong,
    loop_compiler.VARIABLE: loop_compiler.is_wrong,
    "MS_CUSTOM_AOT_WHITE_LIST": _white_list_is_wrong,
    "ASCEND_HOME_PATH": _folders_are_wrong,
    "ASCEND_OPP_PATH": _folders_are_wrong,
    "ASCEND_CUSTOM_OPP_PATH": _folders_are_wrong,
}

_CHECKS: dict[str, Callable[[str], Check]] = {
    "Python": _python,
    "ms_ascend_ops": _package,
    "MindSpore": _mindspore,
    "NumPy": _numpy,
    "kernel library": _library,
    "loops": _loops,
    "an operator": _operators,
    "products": _products,
    "NPU and driver": _devices,
    "CANN toolkit": _cann,
    "CANN package of ours": _custom_package,
    "C++ compiler": _compiler,
    "emulated device": _emulated_device,
    "commands": _commands,
    "environment": _environment,
}


def _cpu(found: dict[str, Any]) -> str:
    unit = found["vector_unit"]
    return "this CPU" if unit == "native" else f"any CPU ({unit} chosen)"


def _installed(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _has_npu() -> bool:
    return any(Path("/dev").glob(_NPU_DEVICES.rpartition("/")[2]))


def _cann_supported() -> list[str]:
    """Return the versions that the installed MindSpore says it is for."""
    try:
        from ms_ascend_ops.mindspore_versions import private  # noqa: PLC0415 - imports MindSpore

        return [str(version) for version in private("AscendEnvChecker")("").version]
    except Exception:
        return []


@functools.cache
def _run(code: str) -> tuple[dict[str, Any] | None, str]:
    """Run code in a new process: the JSON that it prints, or what went wrong. Once for checks that need the same."""
    environment = {**os.environ, "GLOG_v": "3"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:  # its text is all of the code
        busy, cpus = os.getloadavg()[0], len(os.sched_getaffinity(0))
        reason = (
            f", as some {busy:.0f} processes share {cpus} CPUs: try again when they are done" if busy > 2 * cpus else ""
        )
        return None, f"no answer within {_LIMIT_S} s{reason}"
    if done.returncode < 0:
        return None, f"killed by {signal.Signals(-done.returncode).name}"
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return None, (done.stderr.strip().splitlines() or ["no message"])[-1]
    found: dict[str, Any] = json.loads(lines[-1])
    return found, ""
