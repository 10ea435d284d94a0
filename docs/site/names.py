"""The public names of the package and what their docstrings say, read from the sources: nothing is imported.

So the reference has PyTorch's side where there is no PyTorch, and `tests/docs` checks it in a second. `faults` is that
check: every public name has a docstring, and every parameter a line in it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).parents[2]

# The modules whose `__all__` a user may import from, in the order of the reference. `cells` are those of the first.
MODULES = {
    "ms_ascend_ops": "Layers, and functions on networks",
    "ms_ascend_ops.ops": "Operators as functions",
    "ms_ascend_ops.export": "Reports and files",
    "ms_ascend_ops.sparse": "Sparse matrices",
    "ms_ascend_ops.quantization": "Rounding of weights",
    "ms_ascend_ops.dispatch": "Implementations of an operator",
    "ms_ascend_ops.monitoring": "Monitoring",
    "ms_ascend_ops.debug": "Precision debugger",
    "ms_ascend_ops.llm": "Language models",
    "ms_ascend_ops.serving": "Service",
    "ms_ascend_ops.torch": "PyTorch",
    "ms_ascend_ops.onnx": "ONNX",
}

# setuptools puts these folders into the package.
_FOLDERS = {"ms_ascend_ops.cells": "cells", "ms_ascend_ops.export": "export"}

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_ENTRY = re.compile(r"((?:`?\*{0,2}\w+`?)(?:, `?\*{0,2}\w+`?)*)(?: \([^)]*\))?:(?:\s|$)")

# What a framework calls, or what says the same of every class.
_UNDOCUMENTED = {"construct", "forward", "extend_repr", "extra_repr"}


@dataclass(frozen=True)
class Parameter:
    """One of a signature: `text` is how the signature has it, with its default."""

    name: str
    text: str
    comment: str = ""  # of a field of a dataclass


@dataclass(frozen=True)
class Documented:
    """A function, class, method or constant. `module` is the public one."""

    module: str
    name: str
    kind: str
    file: Path
    line: int
    docstring: str
    parameters: tuple[Parameter, ...] = ()
    members: tuple[Documented, ...] = ()
    inherited: str = ""  # the docstrings of the bases that say what making an object takes

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"


@cache
def public_names() -> tuple[Documented, ...]:
    """All of them, module by module."""
    return tuple(one for module in MODULES for one in _of_module(module))


def module_docstring(module: str) -> str:
    """Returns the docstring of a module."""
    return ast.get_docstring(_read(_path(module))[0]) or ""


def faults() -> list[str]:
    """Returns what is missing, a line each."""
    return [fault for one in public_names() for fault in _faults(one)]


def documented_parameters(docstring: str) -> set[str]:
    """The names that have a line of their own in the sections for arguments and inputs."""
    found: set[str] = set()
    section = ""
    for line in docstring.splitlines():
        if re.fullmatch(r"[A-Z][a-z]+:", line):
            section = line[:-1]
        elif line and not line.startswith(" "):
            section = ""
        elif section in ("Args", "Inputs", "Attributes") and (match := _ENTRY.match(line[4:])):
            found.update(name.strip("`* ") for name in match[1].split(","))
    return found


def _faults(one: Documented) -> Iterator[str]:
    place = f"{one.file.relative_to(ROOT)}:{one.line}: {one.full_name}"
    if not one.docstring:
        yield f"{place} has no docstring" if one.kind != "data" else f"{place} has no comment above it"
        return
    lines = documented_parameters(one.docstring)
    known = lines | documented_parameters(one.inherited)
    if one.kind == "forwarded":
        known |= documented_parameters(_described(one))
    for parameter in one.parameters:
        if parameter.name not in known and not parameter.comment:
            yield f"{place}: the parameter {parameter.name} has no line in the docstring"
    if one.kind in ("function", "method"):
        for name in sorted(lines - {parameter.name for parameter in one.parameters}):
            yield f"{place}: the docstring has a line for {name}, which is no parameter"
    for member in one.members:
        yield from _faults(member)


def _described(one: Documented) -> str:
    """The docstring of the operator that a function of PyTorch names."""
    match = re.search(r"`ms_ascend_ops\.ops\.(\w+)`", one.docstring)
    return _resolve("ms_ascend_ops.ops", "ms_ascend_ops.ops", match[1]).docstring if match else ""


def _of_module(module: str) -> Iterator[Documented]:
    for name in _all(module):
        if not (ROOT / _folder(f"{module}.{name}")).is_dir():  # a module of its own
            yield _resolve(module, module, name)


def operators() -> list[str]:
    """Returns the operators that have a definition."""
    return sorted(path.stem for path in (ROOT / "ms_ascend_ops/ops").glob("*.yaml"))


def _folder(module: str) -> str:
    for prefix, folder in _FOLDERS.items():
        if module == prefix or module.startswith(f"{prefix}."):
            return f"{folder}{module[len(prefix) :]}".replace(".", "/")
    return module.replace(".", "/")


def _path(module: str) -> Path:
    folder = ROOT / _folder(module)
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


@cache
def _read(path: Path) -> tuple[ast.Module, list[str]]:
    text = path.read_text(encoding="utf-8")
    return ast.parse(text), text.splitlines()


def _assigned(module: str, name: str) -> ast.expr | None:
    for node in _read(_path(module))[0].body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return node.value  # type: ignore[attr-defined,no-any-return]
    return None


def _all(module: str) -> list[str]:
    """The names of `__all__`; a list within it that is computed is that of the functions of PyTorch."""
    value = _assigned(module, "__all__")
    if not isinstance(value, ast.List):
        return sorted(_reexported(module))
    names = []
    for item in value.elts:
        if isinstance(item, ast.Starred):
            names += operators() if "registry" in ast.unparse(item) else _all("ms_ascend_ops.torch.functions")
        else:
            names.append(ast.literal_eval(item))
    return names


def _reexported(module: str) -> Iterator[str]:
    """The names that are imported under themselves (`import x as x`), all of a module, or when they are used."""
    for node in ast.walk(_read(_path(module))[0]):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (alias.name for alias in node.names if alias.asname == alias.name)
            if node.names[0].name == "*":
                yield from _all(node.module)
    if (origins := _assigned(module, "_ORIGINS")) is not None:
        yield from ast.literal_eval(origins)


def _resolve(public: str, module: str, name: str) -> Documented:
    """Returns the object that a name of a module stands for; imports are followed."""
    path = _path(module)
    tree, lines = _read(path)
    found = None
    for node in ast.walk(tree):
        if isinstance(node, Function | ast.ClassDef) and node.name == name and node in tree.body:
            found = node
        elif isinstance(node, ast.ImportFrom) and (origin := _imported(node, name, module)):
            return _resolve(public, *origin)
    if isinstance(found, Function):
        return _function(public, path, found, "function")
    if isinstance(found, ast.ClassDef):
        return _class(public, module, path, found)
    origins = _assigned(module, "_ORIGINS")
    if origins is not None and name in (table := ast.literal_eval(origins)):
        origin = table[name]
        return _resolve(public, origin if origin.startswith("ms_ascend_ops") else f"{module}.{origin}", name)
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return Documented(public, name, "data", path, node.lineno, _comment(lines, node.lineno))
    if module.startswith("ms_ascend_ops.torch") and name in operators():
        return _forwarded(public, name)
    raise LookupError(f"{module}.{name} is in __all__ and is not found in {path}")


def _imported(node: ast.ImportFrom, name: str, module: str) -> tuple[str, str] | None:
    if node.module is None or not node.module.startswith("ms_ascend_ops"):
        return None
    for alias in node.names:
        if (alias.asname or alias.name) == name:
            return node.module, alias.name
        if alias.name == "*" and node.module != module and name in _all(node.module):
            return node.module, name
    return None


def _forwarded(public: str, name: str) -> Documented:
    """A function of PyTorch that is made of the definition of its operator."""
    one = _resolve("ms_ascend_ops.ops", "ms_ascend_ops.ops", name)
    summary = one.docstring.partition("\n")[0]
    text = f"{summary}\n\nSee `ms_ascend_ops.ops.{name}`, which takes and returns the same.\n"
    return Documented(public, name, "forwarded", one.file, one.line, text, one.parameters)


def _function(public: str, path: Path, node: Function, kind: str, owner: str = "") -> Documented:
    docstring = ast.get_docstring(node) or ""
    if (
        kind == "function"
        and path.match("ms_ascend_ops/torch/functions.py")
        and "takes and returns the same" in docstring
    ):
        kind = "forwarded"  # its arguments are described where it says
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    parameters = () if "property" in decorators else tuple(_parameters(node, kind == "method"))
    if "property" in decorators or "cached_property" in decorators:
        kind = "property"
    return Documented(public, f"{owner}{node.name}", kind, path, node.lineno, docstring, parameters)


def _parameters(node: Function, bound: bool) -> Iterator[Parameter]:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    static = any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)
    for place, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        if not (bound and place == 0 and not static):
            yield _parameter(argument, default)
    if arguments.vararg:
        yield Parameter(arguments.vararg.arg, f"*{arguments.vararg.arg}")
    elif arguments.kwonlyargs:
        yield Parameter("", "*", "keywords only")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg:
        yield Parameter(arguments.kwarg.arg, f"**{arguments.kwarg.arg}")


def _parameter(argument: ast.arg, default: ast.expr | None) -> Parameter:
    return Parameter(argument.arg, argument.arg if default is None else f"{argument.arg}={ast.unparse(default)}")


def _class(public: str, module: str, path: Path, node: ast.ClassDef) -> Documented:
    _, lines = _read(path)
    docstring = ast.get_docstring(node) or ""
    methods = [item for item in node.body if isinstance(item, Function)]
    members = tuple(
        _function(public, path, _with_docstring(module, node, item), "method", f"{node.name}.")
        for item in methods
        if not item.name.startswith("_") and item.name not in _UNDOCUMENTED and not _is_setter(item)
    )
    parameters = tuple(_of_init(module, node, lines))
    inherited = ""
    if not any(item.name == "__init__" for item in methods):
        inherited = "\n".join(ast.get_docstring(base) or "" for _, base in _bases(module, node))
    return Documented(public, node.name, "class", path, node.lineno, docstring, parameters, members, inherited)


def _with_docstring(module: str, owner: ast.ClassDef, method: Function) -> Function:
    """The method, or, where it has no docstring, that of the base which has one."""
    if ast.get_docstring(method):
        return method
    for _, base in _bases(module, owner):
        for item in base.body:
            if isinstance(item, Function) and item.name == method.name and ast.get_docstring(item):
                return item
    return method


def _bases(module: str, node: ast.ClassDef) -> Iterator[tuple[str, ast.ClassDef]]:
    """The bases that are in these sources, and theirs."""
    for base in map(ast.unparse, node.bases):
        if (found := _base(module, base)) is not None:
            yield found
            yield from _bases(*found)


def _is_setter(item: Function) -> bool:
    return any(ast.unparse(decorator).endswith(".setter") for decorator in item.decorator_list)


def _of_init(module: str, node: ast.ClassDef, lines: list[str]) -> Iterator[Parameter]:
    """Returns the arguments of a class: of `__init__`, here or in a base of ours, or the fields of a dataclass."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "__init__":
            yield from _parameters(item, True)
            return
    decorators = " ".join(map(ast.unparse, node.decorator_list))
    if "dataclass" in decorators or "NamedTuple" in map(ast.unparse, node.bases):
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                name, default = item.target.id, item.value
                if not name.startswith("_") and "init=False" not in (ast.unparse(default) if default else ""):
                    text = name if default is None else f"{name}={_default_of_field(default)}"
                    yield Parameter(name, text, _comment(lines, item.lineno))
        return
    for origin, base in _bases(module, node):
        yield from _of_init(origin, base, _read(_path(origin))[1])
        return


def _default_of_field(default: ast.expr) -> str:
    text = ast.unparse(default)
    match = re.fullmatch(r"field\(.*default(?:_factory)?=(\w+).*\)", text)
    return f"{match[1]}()" if match else text


def _base(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    for node in _read(_path(module))[0].body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and (origin := _imported(node, name, module)):
            return _base(*origin)
    return None


def _comment(lines: list[str], number: int) -> str:
    """Returns the comment beside a line or above it."""
    if match := re.search(r"\S  # (?!noqa|type:)(.*)$", lines[number - 1]):
        return match[1]
    above: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not (match := re.match(r"\s*# ?(?!noqa|type:)(.*)", line)):
            break
        above.insert(0, match[1])
    return " ".join(above)
