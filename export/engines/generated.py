"""Classes made from source: a cell's own class with another `construct`.

MindSpore compiles source files, so each class is a module in a file, in a folder that lives as long as this process.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

from mindspore import nn

__all__ = ["folder", "guard", "is_generated", "load_source", "subclass", "with_construct"]

_NUMBERS = count()

_HEADER = """import mindspore
from mindspore import Tensor, ops

from ms_ascend_ops import ops as fused

"""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ms_ascend_ops-cells-")


def folder() -> Path:
    """The folder of the generated modules."""
    return Path(_folder().name)


def load_source(name: str, source: str, names: Mapping[str, Any] | None = None) -> ModuleType:
    """Import `source` as a module of its own, in which `names` are known besides."""
    plain = re.sub(r"\W", "_", name)
    module_name = f"ms_ascend_ops_{plain}_{next(_NUMBERS)}"
    path = folder() / f"{module_name}.py"
    path.write_text(_HEADER + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update({k: v for k, v in (names or {}).items() if not k.startswith("__")})
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


def subclass(stock: Any, statements: Sequence[str], conditions: Sequence[str]) -> type:
    """A class like `stock` with these statements as its construct; where a condition fails, that of `stock` runs."""
    header = inspect.signature(inspect.unwrap(stock.construct))
    header = header.replace(
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in header.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    lines = [f"def construct{header}:", *guard(stock, conditions)]
    lines += [f"    {statement}" for statement in statements]
    source = "\n".join(lines)
    return with_construct(stock, load_source(stock.__name__, f"{source}\n").construct, source)


def guard(stock: Any, conditions: Sequence[str]) -> list[str]:
    """The lines that send inputs for which a construct was not made to the stock one."""
    names = list(inspect.signature(inspect.unwrap(stock.construct)).parameters)[1:]
    if not conditions:
        return []
    return [
        f"    if not ({' and '.join(conditions)}):",
        f"        return self.{_stock_name(stock)}({', '.join(names)})",
    ]


def _stock_name(stock: Any) -> str:
    """What the construct of `stock` is called in a class made from it. That may have been made here itself."""
    before = sum("fused_source" in vars(kind) for kind in stock.__mro__)
    return f"stock_construct_{before}" if before else "stock_construct"


def with_construct(stock: Any, construct: Any, source: str) -> type:
    """A class like `stock` with another construct, under the same name."""
    made: Any = type(
        stock.__name__,
        (stock,),
        {
            "__module__": construct.__module__,
            "__doc__": stock.__doc__,
            "construct": construct,
            _stock_name(stock): inspect.unwrap(stock.construct),
            "fused_source": source,
        },
    )
    return made  # type: ignore[no-any-return]


def is_generated(cell: nn.Cell) -> bool:
    """Whether a cell has been given another construct here."""
    return "fused_source" in type(cell).__dict__
