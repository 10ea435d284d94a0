"""`new`: the files of a new operator."""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from pathlib import Path
from string import Template

import click

__all__ = ["new"]

# What is written, from which template. The list of names is the one file of those that exist which changes.
FILES = {
    "ms_ascend_ops/ops/{name}.yaml": "definition.yaml",
    "kernels/{name}/{name}_tiling.h": "tiling.h",
    "kernels/{name}/{name}_kernel.h": "kernel.h",
    "ms_ascend_ops/ops/{name}.py": "function.py.txt",
    "tests/reference/{name}.py": "reference.py.txt",
    "tests/ops/test_{name}.py": "test.py.txt",
}
LIST_OF_NAMES = "ms_ascend_ops/ops/__init__.py"

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SOURCE_TREE = Path(__file__).resolve().parents[2]
# Those that are none of Python's.
_CPP_KEYWORDS = """
    auto bool case catch char const default delete do double enum explicit export extern float friend goto half
    inline int long mutable namespace new operator private protected public register short signed sizeof static
    struct switch template this throw typedef typename union unsigned using virtual void volatile
"""


@click.command()
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=_SOURCE_TREE,
    show_default="the tree this package runs from",
    help="The source tree.",
)
def new(name: str, into: Path) -> None:
    """Write the six files of a new operator NAME, e.g. my_op: a working example with a gradient and tests.

    Build it, run its test, then change it into what you need: docs/new_operator.md goes through the files.
    """
    _check_name(name)
    _check_tree(into)
    paths = {into / path.format(name=name): template for path, template in FILES.items()}
    if existing := [path.relative_to(into) for path in paths if path.exists()]:
        raise click.ClickException(
            f"the operator '{name}' exists already: {existing[0]}. Take another name, or delete its files first."
        )
    words = {"name": name, "Name": "".join(word.capitalize() for word in name.split("_")), "NAME": name.upper()}
    for path, template in paths.items():
        text = (files("ms_ascend_ops") / "templates" / template).read_text(encoding="utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(words), encoding="utf-8")
        click.echo(f"wrote    {path.relative_to(into)}")
    _add_to_list(into / LIST_OF_NAMES, name)
    click.echo(f"changed  {LIST_OF_NAMES}")
    click.echo(f"\nNow:  cd {into}\n      bash build.sh host\n      python -m pytest tests/ops/test_{name}.py")
    click.echo("Then change it into what you need: docs/new_operator.md goes through the files.")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise click.BadParameter(f"must be lower_case_with_underscores, got '{name}'", param_hint="NAME")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name) or name in _CPP_KEYWORDS.split():
        raise click.BadParameter(f"must be no keyword of Python or C++, got '{name}'", param_hint="NAME")
    if name.endswith("_grad"):
        raise click.BadParameter(f"'{name}': the ending _grad is that of gradient kernels", param_hint="NAME")
    if name in ("primitives", "host", "codegen", "binding", "ascend"):
        raise click.BadParameter(f"'{name}' is the name of a folder of kernels/ already", param_hint="NAME")


def _check_tree(into: Path) -> None:
    for needed in (LIST_OF_NAMES, "kernels/primitives/flat.h", "tests/reference/__init__.py"):
        if not (into / needed).is_file():
            raise click.BadParameter(
                f"{into} is no source tree of ms_ascend_ops: there is no {needed}. Clone the project, and name its "
                "folder.",
                param_hint="--into",
            )


def _add_to_list(path: Path, name: str) -> None:
    """Add the import and the name, both in alphabetical order."""
    text = path.read_text(encoding="utf-8")
    imports = sorted({*re.findall(r"^from \S+ import .+$", text, re.MULTILINE), _import(name)})
    names = sorted(each for line in imports for each in line.partition(" import ")[2].split(", "))
    head = text[: text.index("\nfrom ")]
    listed = "".join(f'    "{each}",\n' for each in names)
    path.write_text(f"{head}\n" + "\n".join(imports) + f"\n\n__all__ = [\n{listed}]\n", encoding="utf-8")


def _import(name: str) -> str:
    return f"from ms_ascend_ops.ops.{name} import {name}"
