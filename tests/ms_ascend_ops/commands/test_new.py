import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.commands.new import FILES, LIST_OF_NAMES

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "new_operator.md"


def new(*arguments):
    return CliRunner().invoke(main, ["new", *map(str, arguments)])


@pytest.fixture
def tree(tmp_path):
    """As much of a source tree as the generator looks at."""
    for path in (LIST_OF_NAMES, "kernels/primitives/flat.h", "tests/reference/__init__.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def test_writes_six_files_and_adds_the_name_to_the_list(tree):
    result = new("my_op2", "--into", tree)
    assert result.exit_code == 0, result.output
    assert len(FILES) == 6
    for path in FILES:
        text = (tree / path.format(name="my_op2")).read_text()
        assert "$" not in text
        assert path.format(name="my_op2") in result.output
    assert "class MyOp2Forward" in (tree / "kernels/my_op2/my_op2_kernel.h").read_text()
    before, after = ((root / LIST_OF_NAMES).read_text() for root in (ROOT, tree))
    added = [line for line in after.splitlines() if line not in before.splitlines()]
    assert added == ["from ms_ascend_ops.ops.my_op2 import my_op2", '    "my_op2",']
    assert [line for line in after.splitlines() if line not in added] == before.splitlines()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MyOp", "must be lower_case_with_underscores, got 'MyOp'"),
        ("2d", "must be lower_case_with_underscores, got '2d'"),
        ("my-op", "must be lower_case_with_underscores, got 'my-op'"),
        ("my__op", "must be lower_case_with_underscores, got 'my__op'"),
        ("lambda", "must be no keyword of Python or C++, got 'lambda'"),
        ("double", "must be no keyword of Python or C++, got 'double'"),
        ("my_op_grad", "the ending _grad is that of gradient kernels"),
        ("primitives", "is the name of a folder of kernels/ already"),
    ],
)
def test_bad_names(tree, name, message):
    result = new(name, "--into", tree)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not list(tree.glob(f"**/{name}*.yaml"))


def test_an_existing_operator_is_left_alone(tree):
    assert new("my_op", "--into", tree).exit_code == 0
    kernel = tree / "kernels/my_op/my_op_kernel.h"
    kernel.write_text("mine")
    result = new("my_op", "--into", tree)
    assert result.exit_code == 1
    assert "the operator 'my_op' exists already: ms_ascend_ops/ops/my_op.yaml" in result.output
    assert kernel.read_text() == "mine"


def test_elsewhere_than_in_a_source_tree(tmp_path):
    result = new("my_op", "--into", tmp_path)
    assert result.exit_code == 2
    assert f"there is no {LIST_OF_NAMES}" in " ".join(result.output.split())


def test_the_guide_names_every_file():
    text = GUIDE.read_text()
    assert all(path.format(name="my_op") in text for path in FILES)


def shell(tree, *command):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'kernels'}",  # the modules of the copy, not those that are installed
        "PYTHONDONTWRITEBYTECODE": "1",
        "CMAKE_BUILD_TYPE": "None",  # without optimisation: quick to build
        "MS_ASCEND_OPS_OPERATORS": "my_op",  # the others are compiled and tested elsewhere
    }
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


@pytest.mark.slow
def test_the_guide_works(tmp_path):
    """Generate, build, test; the change that the guide makes, build and test again; the tests of all operators."""
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns(
        "build", "dist", ".git", "*.so", "lib", "__pycache__", ".*_cache", "*.egg-info", ".venv"
    )
    shutil.copytree(ROOT, tree, ignore=ignored)
    for part in ("benchmarks", "cells", "export"):  # as an installation has them
        (tree / "ms_ascend_ops" / part).symlink_to(tree / part)
    shell(tree, sys.executable, "-m", "ms_ascend_ops", "new", "my_op", "--into", str(tree))
    build = (sys.executable, "setup.py", "--quiet", "build_ext", "--inplace")
    test = (sys.executable, "-m", "pytest", "-q", "tests/ops/test_my_op.py")
    shell(tree, *build)
    shell(tree, *test)
    for path, old, new_text in changes_of_the_guide():
        file = tree / path
        assert file.read_text().count(old) == 1, (path, old)
        file.write_text(file.read_text().replace(old, new_text))
    shell(tree, *build)
    assert "passed" in shell(tree, *test)
    path, text = benchmark_of_the_guide()
    (tree / path).write_text(text)
    alike = ["tests/ops/test_dynamic_shapes.py", "tests/ops/test_not_worse_than_stock.py", "tests/kernels"]
    assert "passed" in shell(tree, sys.executable, "-m", "pytest", "-q", "-k", "my_op", *alike)


def benchmark_of_the_guide():
    path, block = re.search(r"  ```python\n  # (\S+)\n(.*?)  ```", GUIDE.read_text(), re.DOTALL).groups()
    return path, textwrap.dedent(block)


def changes_of_the_guide():
    """The (file, old text, new text) of every diff block of the guide."""
    blocks = re.findall(r"```diff\n# (\S+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert blocks
    for path, block in blocks:
        lines = block.splitlines(keepends=True)
        old, changed = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
        yield path, old, changed
