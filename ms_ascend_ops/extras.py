"""Lists commands that need more than a plain installation: packages of an extra, or the sources of the kernels."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

__all__ = ["EXTRA_OF", "PACKAGES", "advice", "missing", "source_tree"]

# A command of `python -m ms_ascend_ops`, and its extra. Commands that are not here need none.
EXTRA_OF = {
    "bench": "bench",
    "bench-networks": "bench",
    "bundle model.onnx": "onnx",
    "certify": "certify",
    "convert": "onnx",
    "debug": "debug",
    "infer model.onnx": "onnx",
    "llm": "llm",
    "optimize model.onnx": "onnx",  # of a MindIR it needs none
    "profile": "profile",
    "serve": "serve",
    "serve response_format": "structured",  # and forced calls of tools
}

# The packages of an extra; pyproject.toml has their versions.
PACKAGES = {
    "bench": ("matplotlib", "ml_dtypes", "rich"),
    "certify": ("cmake", "jinja2", "matplotlib", "ml_dtypes", "pybind11", "rich"),
    "debug": ("jinja2",),
    "llm": ("gguf", "jinja2", "ml_dtypes", "tokenizers"),
    "onnx": ("ml_dtypes", "onnx", "onnxruntime"),
    "profile": ("cmake", "matplotlib", "pybind11", "rich"),
    "serve": ("fastapi", "grpcio", "httptools", "prometheus_client", "uvicorn"),
    "structured": ("llguidance",),
}

_MODULES = {"grpcio": "grpc"}  # the others are imported under their own names


def missing(command: str) -> list[str]:
    """Return the packages that the command needs and that are not installed."""
    extra = EXTRA_OF.get(command)
    return [name for name in PACKAGES[extra] if not _is_installed(name)] if extra else []


def advice(command: str) -> str:
    """Return the command line that installs what the command needs."""
    return f"pip install 'ms_ascend_ops[{EXTRA_OF[command]}]'"


def source_tree() -> Path | None:
    """Return the source tree that this package runs from, if it does."""
    root = Path(__file__).resolve().parent.parent
    return root if (root / "CMakeLists.txt").is_file() and (root / "kernels" / "host" / "traced").is_dir() else None


def _is_installed(name: str) -> bool:
    # CMake may also come from the system.
    return find_spec(_MODULES.get(name, name)) is not None or (name == "cmake" and shutil.which("cmake") is not None)
