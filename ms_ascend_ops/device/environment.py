"""Prepares what a program finds around it on an emulated device: CANN's variables, and the settings of the device.

A dynamic loader reads its path when a process starts, so that these variables have to be there before.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ms_ascend_ops.device.stubs import LIBRARY as STUBS
from ms_ascend_ops.device.stubs import make_stubs
from ms_ascend_ops.library import LIBRARY
from ms_ascend_ops.profiler.chip import Chip, load_chip

__all__ = ["HOME", "DeviceError", "Settings", "environment", "other_cann", "parse_bytes"]

HOME = LIBRARY.parent / "cann"
VENDOR = HOME / "opp/vendors/ms_ascend_ops"

MIN_MEMORY_BYTES = 1 << 20  # kernels/device/runtime/settings.cpp refuses less
PREFIX = "MS_ASCEND_EMULATED_"  # of the variables with the settings of a device

# Variables of CANN that name folders, besides those that are set here: of another CANN none may stay.
_FOLDERS = ("ASCEND_TOOLKIT_HOME", "ASCEND_AICPU_PATH", "TOOLCHAIN_HOME")
# MindSpore's inference needs the threads that a host of an NPU has: this makes it believe in as many cores as below.
_HOST_CORES = HOME / "lib64/host/libms_ascend_host_cores.so"
_MANY_CORES = 32

# The CANN that a MindSpore asks for (of a later one it warns, and waits for some seconds), and the folder's name.
_CANN = {"2.7.2": ("8.5", "cann"), "2.7.": ("8.3", "latest"), "2.8.": ("8.5", "cann"), "2.9.": ("9.0", "cann")}

_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_BYTES = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


class DeviceError(RuntimeError):
    """There is no such device here."""


# MindSpore's plugin warns, nine lines at each start, of files of a driver and of channels that no program here needs.
_QUIET = "{DEVICE:3,PROFILER:3}"


@dataclass(frozen=True)
class Settings:
    """Describes an emulated device, as the options of `emulate` ask for it."""

    chip: str = "ascend910b2"
    devices: int = 1
    memory_bytes: int | None = None  # None: as much as the chip has, or half of this machine's for all devices
    build: str = "fast"  # of the kernels: fast, checked or traced
    library: Path = LIBRARY  # that build
    trace: Path | None = None

    def memory(self) -> int:
        """Return the bytes of one device's memory.

        Raises:
            DeviceError: this machine has not as much, or it is too little for a device.
        """
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if self.memory_bytes is None:
            return min(load_chip(self.chip).hbm_bytes, machine // 2 // self.devices >> 20 << 20)
        if self.memory_bytes < MIN_MEMORY_BYTES:
            raise DeviceError(f"a device has at least 1 MiB of memory, {self.memory_bytes} bytes are requested")
        if self.memory_bytes * self.devices > machine:
            raise DeviceError(
                f"{self.devices} x {_gib(self.memory_bytes)} of device memory are requested, "
                f"but this machine has {_gib(machine)}"
            )
        return self.memory_bytes

    def describe(self) -> str:
        """Describe the device in one line for the start of a program."""
        chip = load_chip(self.chip)
        count = f"{self.devices} devices of " if self.devices > 1 else ""
        return (
            f"{count}{chip.soc}: {chip.cube.cores} cube cores, {chip.cores} vector cores, "
            f"{_gib(self.memory())}; kernels: {self.build} build"
        )


def environment(settings: Settings, given: Mapping[str, str], cache: Path | None = None) -> dict[str, str]:
    """Return the environment of a program on the device, made from the one that it would have.

    Raises:
        ChipError: there is no such chip.
        DeviceError: the libraries of the device are missing, or the machine has less memory than the settings say.
        StubsError: what the client wants beyond them cannot be made.
    """
    if not (HOME / "lib64/libascendcl.so").is_file():
        raise DeviceError(f"the libraries of the emulated device are missing in {HOME}: run `pip install .` again")
    chip = load_chip(settings.chip)
    if not (chip.soc and chip.compute_unit and chip.ub_reserved_bytes and chip.hbm_bytes):
        raise DeviceError(
            f"{settings.chip} has no soc, compute_unit, unified_buffer.reserved_bytes or memory.hbm_bytes, "
            "which a device needs"
        )
    stubs = make_stubs(sorted((HOME / "lib64").glob("*.so")), cache or _cache(given))
    result = {key: value for key, value in given.items() if key not in _FOLDERS and not key.startswith(PREFIX)}
    python_path = [str(HOME / "opp/built-in/op_impl/ai_core/tbe"), *_without_cann(given, "PYTHONPATH")]
    home = _home(stubs)
    libraries = [str(stubs), str(home / "lib64"), *_without_cann(given, "LD_LIBRARY_PATH")]
    if (os.cpu_count() or 1) < _MANY_CORES and str(_HOST_CORES) not in result.get("LD_PRELOAD", ""):
        result["LD_PRELOAD"] = f"{_HOST_CORES} {result.get('LD_PRELOAD', '')}".rstrip()
    if "GLOG_v" not in result:
        result.setdefault("MS_SUBMODULE_LOG_v", _QUIET)
    return result | {
        "LD_LIBRARY_PATH": ":".join(libraries),
        "PATH": ":".join([*_without_cann(given, "PATH"), str(home / "compiler/ccec_compiler/bin")]),
        "PYTHONPATH": ":".join(python_path),
        "ASCEND_HOME_PATH": str(home),
        "ASCEND_TOOLKIT_HOME": str(home),
        "ASCEND_OPP_PATH": str(home / "opp"),
        "ASCEND_CUSTOM_OPP_PATH": str(VENDOR),
        **{PREFIX + key: value for key, value in _settings(settings, chip).items()},
    }


def other_cann(given: Mapping[str, str]) -> list[str]:
    """Return the folders of another CANN that an environment names."""
    found = [path for path in given.get("LD_LIBRARY_PATH", "").split(":") if path and _is_cann(path)]
    homes = [given.get(name, "") for name in ("ASCEND_HOME_PATH", "ASCEND_OPP_PATH")]
    return list(dict.fromkeys(path for path in (*homes, *found) if path and not _is_ours(path)))


def parse_bytes(text: str) -> int:
    """Parse `8GiB`, `512M`, `1073741824`.

    Raises:
        ValueError: it is no size, or 0.
    """
    match = _BYTES.fullmatch(text.strip())
    size = int(float(match[1]) * 2 ** _UNITS[match[2].lower()]) if match else 0
    if size <= 0:
        raise ValueError(f"a size must be like 8GiB, 512MiB or a number of bytes, got {text!r}")
    return size


def _settings(settings: Settings, chip: Chip) -> dict[str, str]:
    """Read the variables that kernels/device/runtime/settings.h describes."""
    memory = settings.memory()
    numbers = {
        "cube": chip.cube.cores,
        "vector": chip.cores,
        "ub": chip.ub_bytes + chip.ub_reserved_bytes,
        "l1": chip.cube.l1_bytes,
        "l0a": chip.cube.l0a_bytes,
        "l0b": chip.cube.l0b_bytes,
        "l0c": chip.cube.l0c_bytes,
        "l2": chip.l2_bytes,
        "memory": memory,
    }
    text = ";".join(f"{key}={value}" for key, value in numbers.items())
    values = {
        "CHIP": f"soc={chip.soc};unit={chip.compute_unit};{text}",
        "DEVICES": str(settings.devices),
        "MEMORY": str(memory),
        "KERNELS": str(settings.library),
        "PYTHON": sys.executable,
        "CHECK": "1" if settings.build == "checked" else "",
        "TRACE": str(settings.trace or ""),
    }
    return {key: value for key, value in values.items() if value}


def _home(stubs: Path) -> Path:
    """Return CANN's folder: one that has the version which the installed MindSpore asks for.

    It is called `cann`, or `latest`, as each looks for, with `opp_kernel` beside `opp` for that.
    """
    asked = metadata.version("mindspore") if find_spec("mindspore") else ""
    cann, name = next((found for start, found in _CANN.items() if asked.startswith(start)), ("", ""))
    if not cann:
        return HOME
    home = stubs / name
    home.mkdir(exist_ok=True)
    own = {"compiler": HOME / "compiler" / cann, "opp_kernel": HOME / "opp"}
    for name, target in ({path.name: path for path in HOME.iterdir()} | own).items():
        with suppress(FileExistsError):
            (home / name).symlink_to(target)
    return home


def _cache(given: Mapping[str, str]) -> Path:
    return Path(given.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ms_ascend_ops" / "device"


def _without_cann(given: Mapping[str, str], variable: str) -> list[str]:
    """Return the entries of a path, but for those of CANN: this one, or another, which may not be mixed with it."""
    homes = [given[name] for name in ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH") if given.get(name)]
    entries = [path for path in given.get(variable, "").split(":") if path]
    return [path for path in entries if not (_is_ours(path) or _is_cann(path) or _below(path, homes))]


def _is_cann(path: str) -> bool:
    names = ("libascendcl.so", "libge_runner.so", "libnnopbase.so", "libopapi.so", "libms_ascend_ops_stubs.so")
    return any(Path(path, name).exists() for name in names)


def _is_ours(path: str) -> bool:
    return any(_below(one, [str(HOME)]) for one in (path, f"{path}/lib64")) or Path(path, STUBS).exists()


def _below(path: str, folders: list[str]) -> bool:
    return any(Path(path).resolve().is_relative_to(Path(folder).resolve()) for folder in folders)


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}".rstrip("0").rstrip(".") + " GiB" if size >= 2**30 else f"{size / 2**20:g} MiB"
