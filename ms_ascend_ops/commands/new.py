"""Defines `new`: the files of a new operator."""

from __future__ import annotations

import keyword
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template

import click

from ms_ascend_ops import registry

__all__ = ["new"]

# `new` writes these, each from a template. Of the files that exist, only lists of names change.
FILES = {
    "ms_ascend_ops/ops/{name}.yaml": "definition.yaml",
    "kernels/{name}/{name}_tiling.h": "tiling.h",
    "kernels/{name}/{name}_kernel.h": "kernel.h",
    "ms_ascend_ops/ops/{name}.py": "function.py.txt",
    "tests/reference/{name}.py": "reference.py.txt",
    "tests/kernels/test_{name}.py": "kernel_test.py.txt",
    "samples/ops/{name}.py": "samples.py.txt",
}
# With --like these are copies of the operator's own. One that has a layer gets one, too.
LAYER_FILES = {"cells/{name}.py": "layer.py.txt", "tests/cells/test_{name}.py": "layer_test.py.txt"}
FUNCTIONS, LAYERS = "ms_ascend_ops/ops/__init__.py", "cells/__init__.py"

# Operators whose files make sense, and compile, under another name.
MODELS = {
    "silu_mul": "two tensors, element by element",
    "gelu_mul": "the same with an attribute",
    "geglu": "two halves of one tensor",
    "rms_norm": "rows, a parameter and two outputs",
    "add_layer_norm": "rows, parameters and several outputs",
}

_CANNS_OWN = re.compile(r"\n(#[^\n]*\n)*cann:\n([ #][^\n]*\n)*")
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SOURCE_TREE = Path(__file__).resolve().parents[2]
# These are keywords of C++, but none of Python's.
_CPP_KEYWORDS = """
    auto bool case catch char const default delete do double enum explicit export extern float friend goto half
    inline int long mutable namespace new operator private protected public register short signed sizeof static
    struct switch template this throw typedef typename union unsigned using virtual void volatile
"""


@click.command()
@click.argument("name")
@click.option(
    "--like",
    "model",
    type=click.Choice(list(MODELS)),
    help=f"Take the files of this operator: {', '.join(f'{name}: {form}' for name, form in MODELS.items())}. "
    "Without it: one tensor, element by element, in few lines.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=_SOURCE_TREE,
    show_default="the tree this package runs from",
    help="The source tree.",
)
def new(name: str, model: str | None, into: Path) -> None:
    """Write the files of a new operator NAME, e.g. my_op: a working example with a gradient, samples and tests.

    Build it, run its tests, then change it into what you need: docs/new_operator.md goes through the files.
    """
    _check_name(name)
    _check_tree(into)
    texts = dict(_from_templates(name) if model is None else _like(name, model, into))
    if existing := [path for path in texts if (into / path).exists()]:
        raise click.ClickException(
            f"the operator '{name}' exists already: {existing[0]}. Take another name, or delete its files first."
        )
    for path, text in texts.items():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_text(text, encoding="utf-8")
        click.echo(f"wrote    {path}")
    changed = _add_to_lists(into, name, has_layer=LAYERS.replace("__init__", name) in texts)
    for path in changed:
        click.echo(f"changed  {path}")
    _format([into / path for path in texts])
    click.echo(f"\nNow:  cd {into}\n      bash build.sh host")
    click.echo(f"      python -m pytest tests/kernels/test_{name}.py tests/ops -k {name}")
    click.echo("      python -m ms_ascend_ops operators --write docs/operators.md")
    click.echo("Then change it into what you need: docs/new_operator.md goes through the files.")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"must be lower_case_with_underscores, got '{name}'", param_hint="NAME")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _CPP_KEYWORDS.split():
        raise click.BadParameter(f"must be no keyword of Python or C++, got '{name}'", param_hint="NAME")
    if name.endswith("_grad"):
        raise click.BadParameter(f"'{name}': the ending _grad is that of gradient kernels", param_hint="NAME")
    if name in ("primitives", "interface", "host", "codegen", "binding", "ascend", "device"):
        raise click.BadParameter(f"'{name}' is the name of a folder of kernels/ already", param_hint="NAME")


def _check_tree(into: Path) -> None:
    for needed in (FUNCTIONS, "kernels/primitives/flat.h", "tests/reference/__init__.py"):
        if not (into / needed).is_file():
            raise click.BadParameter(
                f"{into} is no source tree of ms_ascend_ops: there is no {needed}. Clone the project, and name its "
                "folder.",
                param_hint="--into",
            )


def _pascal(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _from_templates(name: str) -> Iterator[tuple[str, str]]:
    words = {"name": name, "Name": _pascal(name), "NAME": name.upper()}
    for path, template in FILES.items():
        yield path.format(name=name), _template(template).substitute(words)


def _template(name: str) -> Template:
    return Template((files("ms_ascend_ops") / "templates" / name).read_text(encoding="utf-8"))


def _like(name: str, model: str, tree: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of the model under another name."""
    spec = registry.load(tree / f"ms_ascend_ops/ops/{model}.yaml")
    paths = [path.format(name=model) for path in FILES if not path.startswith("kernels/")]
    paths += [path.relative_to(tree).as_posix() for path in sorted((tree / "kernels" / model).glob("*.h"))]
    for path in paths:
        text = (tree / path).read_text(encoding="utf-8")
        if path.endswith(".yaml"):
            text = text.replace(f"\nlayer: {spec.layer}\n", f"\nlayer: {_pascal(name)}\n")
            text = _CANNS_OWN.sub("", text)  # which computes what the model does
        yield _renamed(path, model, name), _renamed(text, model, name)
    if spec.layer:
        words = _words_of_layer(name, spec)
        for path, template in LAYER_FILES.items():
            yield path.format(name=name), _template(template).substitute(words)


def _renamed(text: str, old: str, new: str) -> str:
    for before, after in ((old, new), (old.upper(), new.upper())):
        # Functions of PyTorch keep their names.
        text = re.sub(rf"(?<![a-zA-Z0-9])(?<!functional\.){before}(?![a-zA-Z0-9])", after, text)
    return re.sub(rf"(?<![a-z]){_pascal(old)}(?![a-z])", _pascal(new), text)


def _words_of_layer(name: str, spec: registry.OpSpec) -> dict[str, object]:
    """Fill layer.py.txt and layer_test.py.txt: a layer that takes the attributes, and calls the function."""
    layer, inputs, attributes = _pascal(name), [t.name for t in spec.forward.inputs], spec.forward.attributes
    types = {"int": "int", "float": "float", "bool": "bool", "string": "str"}
    imports, described, methods = [f"from ms_ascend_ops.ops.{name} import {name}"], [], []
    if attributes:
        imports.insert(0, "from ms_ascend_ops import registry")
        described += ["    Args:", *[f"        {a.name}: that of the function." for a in attributes], ""]
        taken = ", ".join(f"{a.name}: {types[a.type]} = {a.default!r}" for a in attributes)
        methods += ["", f"    def __init__(self, {taken}):", "        super().__init__()"]
        methods += [f'        signature = registry.signature("{name}")']
        methods += [
            f'        self.{a.name} = signature.attribute("{a.name}").check("{layer}", {a.name})' for a in attributes
        ]
    described += ["    Inputs:", *[f"        {tensor}: that of the function." for tensor in inputs]]
    described += ["", "    Outputs:", "        Tensor, that of the function."]
    arguments = [*inputs, *[f"self.{a.name}" for a in attributes]]
    methods += ["", f"    def construct(self, {', '.join(f'{tensor}: Tensor' for tensor in inputs)}) -> Tensor:"]
    methods += [f"        return {name}({', '.join(arguments)})"]
    if attributes:
        shown = ", ".join(f"{a.name}={{self.{a.name}!r}}" for a in attributes)
        methods += ["", "    def extend_repr(self) -> str:", f'        return f"{shown}"']
    return {
        "name": name,
        "Name": layer,
        "summary": spec.summary,
        "imports": "\n".join(imports),
        "described": "\n".join(described),
        "methods": "\n".join(methods),
        "repr": f"{layer}({', '.join(f'{a.name}={a.default!r}' for a in attributes)})",
    }


def _add_to_lists(into: Path, name: str, has_layer: bool) -> list[str]:
    """Make the function, and the layer, public names. Returns the files that were changed."""
    _add_import(into / FUNCTIONS, f"ms_ascend_ops.ops.{name}", name)
    if not has_layer:
        return [FUNCTIONS]
    _add_import(into / LAYERS, f"ms_ascend_ops.cells.{name}", _pascal(name))
    return [FUNCTIONS, LAYERS]


def _add_import(path: Path, module: str, public: str) -> None:
    """Add the import of a public name, in the order of the others."""
    line = f"from {module} import {public} as {public}"
    text = path.read_text(encoding="utf-8")
    imports = re.findall(r"^from \S+ import \w+ as \w+$", text, re.MULTILINE)
    path.write_text(text.replace("\n".join(imports), "\n".join(sorted({*imports, line}))), encoding="utf-8")


def _format(paths: list[Path]) -> None:
    """Lay out what was written: another length of a name breaks other lines. Only where the tools are installed."""
    headers = [path for path in paths if path.suffix == ".h"]
    modules = [path for path in paths if path.suffix == ".py"]
    for command, written in ((["clang-format", "-i"], headers), (["ruff", "format", "--quiet"], modules)):
        if shutil.which(command[0]):
            subprocess.run([*command, *map(str, written)], check=False)
