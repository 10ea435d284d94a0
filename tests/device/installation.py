"""Installations of the CANN package as users may have them: the emulated device's, with something else in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from ms_ascend_ops.device.environment import VENDOR
from ms_ascend_ops.version import __version__

__all__ = ["ROOT", "copy", "header", "run_cases"]

ROOT = Path(__file__).parents[2]
# A thread that MindSpore's Ascend backend has begun for graphs may fault while a process ends that imported much.
_PYTEST = "import os, sys, pytest; status = pytest.main(sys.argv[1:]); sys.stdout.flush(); os._exit(status)"
_LIBRARIES = ("op_impl/ai_core/tbe/op_tiling/**/*.so", "op_proto/**/*.so")


def copy(
    folder: Path,
    *,
    version: str = __version__,
    chips: Collection[str] | None = None,
    operators: Collection[str] | None = None,
) -> Path:
    """The package in another folder: of another version, for some chips alone, or with some operators alone."""
    shutil.copytree(VENDOR, folder, dirs_exist_ok=True)
    old, new = f"={__version__};".encode(), f"={version};".encode()
    assert len(old) == len(new), "the text is as long as before, as it lies in a library"
    for library in [path for pattern in _LIBRARIES for path in folder.glob(pattern)]:
        library.write_bytes(library.read_bytes().replace(old, new))
    tbe = folder / "op_impl/ai_core/tbe"
    for info in [*tbe.glob("config/*/aic-*-ops-info.json"), *tbe.glob("kernel/config/*/binary_info_config.json")]:
        if chips is not None and info.parent.name not in chips:
            shutil.rmtree(info.parent)
        elif operators is not None:
            known = json.loads(info.read_text(encoding="utf-8"))
            info.write_text(json.dumps({name: known[name] for name in operators}), encoding="utf-8")
    return folder


def header(cann_type: str) -> str:
    """The declaration of the function that prepares a call of an operator, from the package's header."""
    for path in (VENDOR / "op_api/include").glob("aclnn_*.h"):
        text = path.read_text(encoding="utf-8")
        if f"aclnn{cann_type}GetWorkspaceSize(" in text:
            return text
    raise AssertionError(f"the package has no header of {cann_type}")


def run_cases(file: Path, environment: Mapping[str, str]) -> None:
    """Run a file of tests in a process with an emulated device, whose environment this is."""
    python_path = f"{ROOT}:{ROOT / 'kernels'}:{environment.get('PYTHONPATH', '')}"
    command = [sys.executable, "-c", _PYTEST, "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    variables = os.environ | environment | {"PYTHONPATH": python_path}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
