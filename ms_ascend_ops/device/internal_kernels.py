"""Builds MindSpore's own fused kernels for inference (libms_kernels_internal.so) for the emulated device.

MindSpore links its Ascend plugin with them. Ours are compiled against the headers that its wheel brings, as what a
kernel is told differs between versions, and become calls of the device (kernels/device/internal_kernels).
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ms_ascend_ops.library import LIBRARY

__all__ = ["LIBRARY_NAME", "PREFIX", "SOURCES", "client", "compile_arguments", "stub"]

LIBRARY_NAME = "libms_kernels_internal.so"
SOURCES = LIBRARY.parent / "cann/internal_kernels"
PREFIX = b"_ZN9mindspore8internal"  # of the functions that the plugin wants of it


def client() -> tuple[Path, Path] | None:
    """Find the library of MindSpore that calls the kernels, and the folder of their headers; None: it has neither."""
    spec = find_spec("mindspore")
    for folder in spec.submodule_search_locations or () if spec else ():
        ascend = Path(folder, "lib/plugin/ascend")
        plugin, headers = ascend / "libmindspore_internal_kernels.so", ascend / "ms_kernels_internal/internal_kernel"
        if plugin.is_file() and (headers / "include/internal_op.h").is_file():
            return plugin, headers
    return None


def compile_arguments(headers: Path) -> list[str]:
    """List what g++ is given beside its input, the functions of `stub`."""
    folders = [f"-I{folder}" for folder in (headers, SOURCES)]
    return ["-std=c++17", "-D_GLIBCXX_USE_CXX11_ABI=0", *folders, str(SOURCES / "internal_kernels.cpp")]


def stub(name: str) -> str:
    """Write a function that gives way to one of the kernels' own, and otherwise tells that it is missing."""
    return f'__attribute__((weak)) long {name}() {{ return MsAscendDeviceMissing("{name}"); }}'
