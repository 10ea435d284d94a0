"""Finds the kernel library and the Python module that calls it, and says what to do when they are not there."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ms_ascend_ops import loop_compiler
from ms_ascend_ops.registry import Signature
from ms_ascend_ops.version import __version__

__all__ = [
    "LIBRARY",
    "LibraryVersion",
    "check_built",
    "count_launches",
    "get_num_threads",
    "library_path",
    "load_products",
    "native",
    "open_library",
    "opened",
    "set_num_threads",
]

LIBRARY = Path(__file__).resolve().parent / "lib" / "libms_ascend_ops.so"

_MAX_THREADS = 256  # MAX_THREADS of kernels/host/runtime/thread_pool.h, which takes no more
_REMEDY = "Build it with `pip install .` (or `bash build.sh host`) in the source tree of ms_ascend_ops."


@cache
def native() -> Any:
    """Return the module `ms_ascend_ops._C`, checked to belong to this version of the package.

    Raises:
        RuntimeError: the library is missing, cannot be loaded, or has another version.
    """
    if not LIBRARY.is_file():
        raise RuntimeError(f"ms_ascend_ops: the kernel library is missing: {LIBRARY}. {_REMEDY}")
    try:
        module = import_module("ms_ascend_ops._C")
    except ImportError as error:
        reason = _other_python() or error
        raise RuntimeError(f"ms_ascend_ops: cannot load the kernel library {LIBRARY}: {reason}. {_REMEDY}") from error
    if module.version() != __version__:
        raise RuntimeError(
            f"ms_ascend_ops: the kernel library {module.library_path()} has version {module.version()}, "
            f"but the package has {__version__}. {_REMEDY}"
        )
    loop_compiler.start(module)
    return module


def _other_python() -> str:
    """Return which Python the module was built for, if that is not this one."""
    built = sorted(path.name.split(".")[1] for path in LIBRARY.parent.parent.glob("_C.*.so"))
    if not built or any(name.startswith(str(sys.implementation.cache_tag)) or name == "abi3" for name in built):
        return ""
    here = sys.implementation.cache_tag
    return f"its module _C was built for {', '.join(built)}, and this Python is {here} (any MindSpore will do for it)"


class LibraryVersion:
    """Stands for a kernel library that was built from another state of the kernels. `open_library` makes it."""

    def __init__(self, path: Path, module: Any):
        self.path = str(path)
        self.module = module

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        return _fingerprints_of(self.module.signatures())


def check_built(signature: Signature, version: LibraryVersion | None = None) -> None:
    """Check that the library, or another version of it, was built from this definition of the kernel.

    Raises:
        RuntimeError: it was built from another one, or has no such kernel.
    """
    built = (_fingerprints() if version is None else version.fingerprints).get(signature.name)
    if built != signature.fingerprint:
        difference = "is not the one that the library was built from" if built else "is not in the library"
        path = library_path() if version is None else version.path
        raise RuntimeError(
            f"{signature.name}: the definition of this kernel {difference}, {path}. Run `bash build.sh host` "
            "in the source tree of ms_ascend_ops, or `pip install .` again."
        )


@cache
def _fingerprints() -> dict[str, str]:
    return _fingerprints_of(native().signatures())


def _fingerprints_of(signatures: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {signature["name"]: signature["fingerprint"] for signature in signatures}


@cache
def open_library(path: Path) -> LibraryVersion:
    """Open a kernel library beside the package's own. It stays open.

    It is loaded in a process of its own first: one that ends the process does not end this one.

    Raises:
        RuntimeError: it does not load, crashes there, or is no kernel library.
    """
    command = [sys.executable, "-I", "-S", "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1], 2)", str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{path} does not load within {error.timeout:.0f} s") from error
    if done.returncode < 0:
        raise RuntimeError(f"{path} ends a process that loads it, by {signal.Signals(-done.returncode).name}")
    if done.returncode > 0:
        raise RuntimeError(f"{path} does not load: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    module = native().KernelLibrary(str(path))
    module.set_thread_num(native().get_thread_num())
    module.set_counting(_counting)
    loop_compiler.start(module)
    version = LibraryVersion(path, module)
    _versions.append(version)
    return version


_versions: list[LibraryVersion] = []
_counting = False


def opened() -> list[tuple[str | None, Any]]:
    """Return the kernel libraries of this process, as path and module; the path of the package's own is None."""
    return [(None, native()), *((version.path, version.module) for version in list(_versions))]


def count_launches(on: bool) -> None:
    """Count launches of kernels in all libraries, also in those that are opened later; or no more."""
    global _counting  # noqa: PLW0603 - a switch of the process
    _counting = on
    for _, module in opened():
        module.set_counting(on)


@cache
def library_path() -> str:
    """Return the absolute path of the kernel library, which was checked to load and to have the right version."""
    return str(Path(native().library_path()).resolve())


@cache
def load_products() -> None:
    """Load oneDNN, whose products of matrices the kernels use. It lies beside MindSpore, which is not imported."""
    spec = find_spec("mindspore")
    for folder in spec.submodule_search_locations or () if spec else ():
        for name in ("libdnnl.so.3", "libdnnl.so.2"):
            library = Path(folder) / "lib" / name
            if library.is_file():
                ctypes.CDLL(str(library))


def set_num_threads(count: int) -> None:
    """Sets how many threads a kernel may use on a CPU, in this process, from the next call on.

    Small inputs stay on one thread whatever is set.

    Args:
        count: 1 to 256; or 0, the default: the environment variable `MS_ASCEND_OPS_NUM_THREADS`, and without that the
            CPUs that the process may run on.

    Raises:
        TypeError: `count` is not an int.
        ValueError: `count` is negative or larger than 256.
    """
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"set_num_threads: count must be an int, got {type(count).__name__}")
    if not 0 <= count <= _MAX_THREADS:
        raise ValueError(f"set_num_threads: count must be 0 to {_MAX_THREADS}, got {count}")
    for _, module in opened():
        module.set_thread_num(count)


def get_num_threads() -> int:
    """Return how many threads a kernel may use on a CPU."""
    return int(native().get_thread_num())
