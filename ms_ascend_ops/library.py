"""Finds the kernel library and the Python module that calls it, and says what to do when they are not there."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ms_ascend_ops.version import __version__

__all__ = ["LIBRARY", "library_path", "native"]

LIBRARY = Path(__file__).resolve().parent / "lib" / "libms_ascend_ops.so"

_REMEDY = "Build it with `pip install .` (or `bash build.sh host`) in the source tree of ms_ascend_ops."


@cache
def native() -> Any:
    """The module `ms_ascend_ops._C`, checked to belong to this version of the package.

    Raises:
        RuntimeError: the library is missing, cannot be loaded, or has another version.
    """
    if not LIBRARY.is_file():
        raise RuntimeError(f"ms_ascend_ops: the kernel library is missing: {LIBRARY}. {_REMEDY}")
    try:
        module = import_module("ms_ascend_ops._C")
    except ImportError as error:
        raise RuntimeError(f"ms_ascend_ops: cannot load the kernel library {LIBRARY}: {error}. {_REMEDY}") from error
    if module.version() != __version__:
        raise RuntimeError(
            f"ms_ascend_ops: the kernel library {module.library_path()} has version {module.version()}, "
            f"but the package has {__version__}. {_REMEDY}"
        )
    return module


@cache
def library_path() -> str:
    """Absolute path of the kernel library, which was checked to load and to have the right version."""
    return str(Path(native().library_path()).resolve())
