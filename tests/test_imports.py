"""The folders of the package import what the table of CONTRIBUTING.md says."""

import ast
import re

import pytest

from tests.conftest import TESTS

ROOT = TESTS.parent
PACKAGE = ROOT / "ms_ascend_ops"
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
ROW = re.compile(
    r"^\| `((?:ms_ascend_ops/)?"
    r"(?:ops|checks|definitions|device|llm|serving|dispatch|torch|onnx|profiler|cells|samples))/` \|.*\| (.*) \|$",
    re.M,
)
FOLDERS = dict(ROW.findall(TEXT))


def modules(text):
    """Names of modules and folders in the package, as `registry` of `registry.py`."""
    names = re.findall(r"`([\w/.]+)`", text)
    return {name.removeprefix("ms_ascend_ops.").removesuffix(".py").strip("/").replace("/", ".") for name in names}


def imported(path, package):
    """Modules of the package that a file imports, without those of its own folder."""
    here = [*package, *path.with_suffix("").parts]
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: len(here) - node.level], *([node.module] if node.module else [])] if node.level else []
            name = ".".join(base) or node.module
            yield from ([f"{name}.{a.name}" for a in node.names] if name == "ms_ascend_ops" else [name])


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_what_the_table_says(folder):
    everywhere = modules(re.search(r"what\nevery folder may import,.*?:(.*?)\. `tests", TEXT, re.S)[1])
    own = folder.removeprefix("ms_ascend_ops/").replace("/", ".")
    allowed = modules(FOLDERS[folder]) | everywhere | {own}
    assert allowed > everywhere
    for file in (ROOT / folder).rglob("*.py"):
        path = file.relative_to(ROOT)
        for name in imported(path, [] if folder.startswith("ms_ascend_ops") else ["ms_ascend_ops"]):
            inner = name.removeprefix("ms_ascend_ops.")
            if inner != name:
                assert any(inner == one or inner.startswith(f"{one}.") for one in allowed), f"{path} imports {name}"


def test_the_table_has_these_folders():
    assert len(FOLDERS) == 12


def test_every_folder_has_a_row():
    """But those of operators, which are `kernels/<op>/`, and what a build leaves (`lib/`)."""
    table = "".join(line for line in TEXT.splitlines() if line.startswith("| `"))
    operators = {path.stem for path in (PACKAGE / "ops").glob("*.yaml")}
    held = {path.parent for parent in ("ms_ascend_ops", "kernels") for path in (ROOT / parent).glob("*/*.*")}
    folders = {
        path.relative_to(ROOT).as_posix() for path in held if path.name not in {*operators, "lib", "__pycache__"}
    }
    assert len(folders) > 15
    assert [folder for folder in sorted(folders) if f"`{folder}/`" not in table] == []
