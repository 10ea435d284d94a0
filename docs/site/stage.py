"""Prepares what Sphinx reads: the pages of docs/, a page for each operator and the reference, from docstrings.

`python docs/site/stage.py build/docs_source`. The order of the pages and the parts of the menu are those of
docs/index.md.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import figures
import names
import yaml
from docstrings import code_blocks, restructured
from names import ROOT, Documented

DOCS = ROOT / "docs"
_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")
_PICTURES = (".svg", ".png")


def stage(target: Path) -> None:
    """Write the folder anew.

    Raises:
        ValueError: a public name or an argument of one is not described.
    """
    if faults := names.faults():
        raise ValueError("\n".join(["these are missing:", *faults]))
    shutil.rmtree(target, ignore_errors=True)
    (target / "operators").mkdir(parents=True)
    (target / "reference").mkdir()
    for path in [*DOCS.glob("*.md"), *(ROOT / name for name in _PAGES)]:
        (target / path.name).write_text(_page(path), encoding="utf-8")
    for path in DOCS.iterdir():
        if path.suffix in _PICTURES:
            shutil.copy(path, target)
    documented = names.public_names()
    for module, title in names.MODULES.items():
        own = [one for one in documented if one.module == module]
        (target / "reference" / f"{module}.rst").write_text(_reference(module, title, own), encoding="utf-8")
    (target / "device_operators.md").write_text(_device_operators(), encoding="utf-8")
    functions = {one.name: one for one in documented if one.module == "ms_ascend_ops.ops"}
    (target / "operators/index.rst").write_text(_operator_index(functions), encoding="utf-8")
    for name in names.operators():
        (target / "operators" / f"{name}.rst").write_text(_operator(name, functions), encoding="utf-8")


def _page(path: Path) -> str:
    """A page of docs/ with links as they are in the site; the index also gets the menu."""
    text = path.read_text(encoding="utf-8")
    if path.parent == ROOT:
        text = re.sub(r"\]\(docs/", "](", text)
    text = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)", _link, text)
    if path == DOCS / "index.md":
        text = re.sub(r"^## (.*)\n((?:(?!^## ).*\n)*)", _with_menu, text, flags=re.MULTILINE)
    return text


def _link(match: re.Match[str]) -> str:
    """A link to a file of the source tree becomes its name: the site does not have it."""
    text, target = match[1], match[2]
    name = target.rpartition("/")[2]
    if re.match(r"\w+:", target) or (DOCS / name).exists() or name in _PAGES:
        return f"[{text}]({target if ':' in target else name}{match[3] or ''})"
    path = target.removeprefix("../")
    return f"`{path}`" if text.strip("`") in (path, name) else f"{text} (`{path}`)"


def _with_menu(match: re.Match[str]) -> str:
    """A part of the index, and the menu of the pages that it links to."""
    pages = [f"{text} <{page}>" for text, page in re.findall(r"\[([^\]]*)\]\(([\w.]+)\.md\)", match[2])]
    if match[1] == "Operators and reference":
        pages += ["operators/index", "device_operators", *(f"reference/{module}" for module in names.MODULES)]
    menu = "\n".join(pages)
    return f"{match[0]}\n```{{toctree}}\n:hidden:\n:caption: {match[1]}\n\n{menu}\n```\n\n" if menu else match[0]


def _device_operators() -> str:
    """Write the page of CANN's operators that the emulated device has, by the modules of its table."""
    table = (ROOT / "ms_ascend_ops/device/aclnn.txt").read_text(encoding="utf-8")
    parts = re.split(r"^# (.+)\n", table, flags=re.MULTILINE)[3:]  # behind what the table says of itself
    listed = {
        title: re.findall(r"^\w+", lines, re.MULTILINE) for title, lines in zip(parts[::2], parts[1::2], strict=True)
    }
    count = sum(map(len, listed.values()))
    text = f"# CANN's operators on the emulated device\n\nThere are {count}: functions (aclnn), and operators by their "
    text += "names of the graph engine (aclop).\n"
    for title, functions in listed.items():
        module = re.sub(r"operators/(\w+)\.py", lambda match: match[1].replace("_", " ").capitalize(), title)
        text += f"\n## {module.partition(':')[0]}\n\n{', '.join(f'`{name}`' for name in functions)}\n"
    return text


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _reference(module: str, title: str, own: list[Documented]) -> str:
    """The page of a module."""
    docstring = _module_docstring(module)
    text = f"{_title(title)}``{module}``\n\n{docstring}\n\n.. py:module:: {module}\n\n"
    if module == "ms_ascend_ops.ops":
        menu = [f"- :py:func:`{one.name}`: {_summary(one)}" for one in own if one.name in names.operators()]
        rest = "".join(_described(one) for one in own if one.name not in names.operators())
        return text + "\n".join(menu) + "\n\n" + rest
    return text + "".join(_described(one) for one in own)


def _module_docstring(module: str) -> str:
    """Returns the docstring of the module; its lines of code become blocks."""
    return code_blocks(names.module_docstring(module))


def _summary(one: Documented) -> str:
    return one.docstring.split("\n\n")[0].replace("\n", " ")


def _described(one: Documented, indent: str = "") -> str:
    """A function, class or constant in reStructuredText, with its members."""
    directive = {"forwarded": "function", "property": "property"}.get(one.kind, one.kind)
    signature = "" if one.kind in ("data", "property") else f"({', '.join(p.text for p in one.parameters)})"
    name = one.name.rpartition(".")[2]
    body = restructured(one.docstring)
    described = names.documented_parameters(one.docstring)
    commented = [p for p in one.parameters if p.name and p.comment and p.name not in described]
    body += "".join(f"\n:param {p.name}: {p.comment}" for p in commented)
    lines = [f".. py:{directive}:: {name}{signature}", "", *(f"   {line}" for line in body.splitlines()), ""]
    text = "".join(f"{indent}{line}".rstrip() + "\n" for line in lines)
    return text + "".join(_described(member, f"{indent}   ") for member in one.members) + "\n"


def _operator_index(functions: dict[str, Documented]) -> str:
    """The pages of the operators, with a sentence each and as a part of the menu."""
    lines = [f"- :doc:`{name}`: {_summary(functions[name])}" for name in names.operators()]
    menu = "\n".join(f"   {name}" for name in names.operators())
    text = f"{_title('Operators, one by one')}" + "\n".join(lines)
    return f"{text}\n\n.. toctree::\n   :hidden:\n\n{menu}\n"


def _operator(name: str, functions: dict[str, Documented]) -> str:
    """The page of an operator: the function, the rule of shapes, its layer, and its speed."""
    definition = yaml.safe_load((ROOT / f"ms_ascend_ops/ops/{name}.yaml").read_text(encoding="utf-8"))
    layer = definition.get("layer", "")
    text = f"{_title(name)}.. py:currentmodule:: ms_ascend_ops.ops\n\n{_described(functions[name])}"
    text += _title("Shapes and types", "-") + _tensors(definition)
    if layer:
        text += f"{_title('Layer', '-')}:py:class:`ms_ascend_ops.{layer}`\n\n"
    text += f"{_title('Replaces', '-')}{definition['replaces'].replace('`', '``')}\n\n"
    return text + _speed(name, layer)


def _tensors(definition: dict[str, Any]) -> str:
    rows = [("Tensor", "Shape", "Type")]
    for side in ("inputs", "outputs"):
        for tensor, rule in definition["forward"][side].items():
            kind, shape = re.fullmatch(r"(\w+)\[(.*)\]", rule).groups()  # type: ignore[union-attr]
            name = f"``{tensor}``" + (", returned" if side == "outputs" else "")
            rows.append((name, f"``{shape or '1'}``", _kinds(definition, kind)))
    table = "".join(f"   * - {row[0]}\n     - {row[1]}\n     - {row[2]}\n" for row in rows)
    note = "The shapes are those of the definition; :doc:`/operators` says how they are read.\n\n"
    return f".. list-table::\n   :header-rows: 1\n\n{table}\n{note}"


def _kinds(definition: dict[str, Any], kind: str) -> str:
    found = list(dict.fromkeys(str(row[kind]) for row in definition["types"] if kind in row))
    return ", ".join(found) if found else kind


def _speed(name: str, layer: str) -> str:
    page, cases = figures.cases(name)
    links = [f":doc:`/{page.removesuffix('.md')}`"] if cases else []
    found = figures.sections(name, layer)
    links += [f":doc:`{heading} </{file.removesuffix('.md')}>`" for file, heading in found if file != page]
    links = links or [":doc:`/performance`"]
    text = _title("Speed", "-")
    if cases:
        text += "On a CPU. Bars show times on a logarithmic scale; a factor is the time divided by ours.\n\n"
        text += ".. raw:: html\n\n" + "".join(f"   {line}\n" for line in figures.bars(cases).splitlines()) + "\n"
    return f"{text}Machines, commands and all figures: {', '.join(dict.fromkeys(links))}.\n"


if __name__ == "__main__":
    try:
        stage(Path(sys.argv[1]))
    except ValueError as error:
        sys.exit(f"docs: {error}")
