"""Checks what the shape rules of a definition cannot say of an operator, in a file of its name.

It is the same for MindSpore, PyTorch and ONNX.

Each file has `check`, which gets the shapes of the inputs and the attributes by name, and raises ValueError. Unknown
dims are -1, unknown ranks (-2,); of optional inputs that are absent the shape is None.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["CHECKS", "ShapeCheck"]

ShapeCheck = Callable[[list[Any], dict[str, Any]], None]

CHECKS: dict[str, ShapeCheck] = {
    file.stem: import_module(f"{__name__}.{file.stem}").check
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py"))
}
