"""Makes classes from source: a cell's own class with another `construct`.

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

__all__ = ["folder", "guard", "is_generated", "load_source", "stock_of", "subclass", "with_construct", "with_method"]

_NUMBERS = count()

_HEADER = """import mindspore
from mindspore import Tensor, ops

from ms_ascend_ops import ops as fused

"""


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ms_ascend_ops-cells-")


def folder() -> Path:
    """Return the folder of the generated modules."""
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
    known = {k: v for k, v in (names or {}).items() if not k.startswith("__")}
    vars(module).update(known)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    vars(module).update({k: known[k] for k in ("Tensor", "ops") if k in known})  # the header has others
    return module


def subclass(stock: Any, statements: Sequence[str], conditions: Sequence[str], method: str = "construct") -> type:
    """Return a class like `stock` with these statements as a method; where a condition fails, that of `stock` runs."""
    header = inspect.signature(inspect.unwrap(getattr(stock, method)))
    header = header.replace(
        parameters=[p.replace(annotation=inspect.Parameter.empty) for p in header.parameters.values()],
        return_annotation=inspect.Signature.empty,
    )
    lines = [f"def {method}{header}:", *guard(conditions, *stock_of(stock, method))]
    lines += [f"    {statement}" for statement in statements]
    source = "\n".join(lines)
    return with_construct(stock, vars(load_source(stock.__name__, f"{source}\n"))[method], source, method)


def guard(conditions: Sequence[str], stock: str, signature: inspect.Signature) -> list[str]:
    """Return the lines that send inputs for which a function was not made to the one that is called `stock`."""
    if not conditions:
        return []
    arguments = [_TEXTS.get(p.kind, "{}").format(p.name) for p in signature.parameters.values()]
    return [f"    if not ({' and '.join(conditions)}):", f"        return {stock}({', '.join(arguments)})"]


_TEXTS: Mapping[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.VAR_KEYWORD: "**{}",
    inspect.Parameter.KEYWORD_ONLY: "{0}={0}",
}


def stock_of(stock: Any, method: str = "construct") -> tuple[str, inspect.Signature]:
    """Return how a class made from `stock` reaches the method that `stock` has, and what that takes."""
    signature = inspect.signature(inspect.unwrap(getattr(stock, method)))
    return f"self.{_stock_name(stock, method)}", signature.replace(parameters=list(signature.parameters.values())[1:])


def _stock_name(stock: Any, method: str = "construct") -> str:
    """Return what a method of `stock` is called in a class made from it. That may have been made here itself."""
    before = sum("fused_source" in vars(kind) for kind in stock.__mro__)
    return f"stock_{method}_{before}" if before else f"stock_{method}"


def with_construct(stock: Any, construct: Any, source: str, method: str = "construct") -> type:
    """Return a class like `stock` with another construct, or another method, under the same name."""
    made: Any = type(
        stock.__name__,
        (stock,),
        {
            "__module__": construct.__module__,
            "__doc__": stock.__doc__,
            method: construct,
            _stock_name(stock, method): inspect.unwrap(getattr(stock, method)),
            "fused_source": source,
        },
    )
    return made  # type: ignore[no-any-return]


def is_generated(cell: nn.Cell) -> bool:
    """Tell whether a cell has been given another construct here."""
    return "fused_source" in type(cell).__dict__


def with_method(stock: Any, name: str, function: Any) -> type:
    """Return a class like `stock` with one method more, under the same name."""
    made: Any = type(
        stock.__name__,
        (stock,),
        {"__module__": function.__module__, "__doc__": stock.__doc__, name: function, "fused_source": ""},
    )
    return made  # type: ignore[no-any-return]
