import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ms_ascend_ops import _C, registry
from ms_ascend_ops.__main__ import main
from ms_ascend_ops.commands.new import FILES, FUNCTIONS, LAYER_FILES, LAYERS, MODELS
from tests.kernels.host.module import library_objects

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs" / "new_operator.md"
# Folders of kernels/ that are no operator's.
FOLDERS = sorted({path.parent.name for path in (ROOT / "kernels").glob("*/*.*")} - {*registry.names(), "__pycache__"})


def new(*arguments):
    return CliRunner().invoke(main, ["new", *map(str, arguments)])


@pytest.fixture
def tree(tmp_path):
    """As much of a source tree as the generator looks at."""
    models = [path.format(name=model) for path in FILES for model in MODELS]
    for path in (FUNCTIONS, LAYERS, "kernels/primitives/flat.h", "tests/reference/__init__.py", *models):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    return tmp_path


def added(tree, path):
    """The lines that a file has got; the others are as they were, and in order."""
    before, after = ((root / path).read_text().splitlines() for root in (ROOT, tree))
    lines = [line for line in after if line not in before]
    assert [line for line in after if line not in lines] == before
    return lines


def test_writes_the_files_and_adds_the_name_to_the_list(tree):
    result = new("my_op2", "--into", tree)
    assert result.exit_code == 0, result.output
    for path in FILES:
        text = (tree / path.format(name="my_op2")).read_text()
        assert "$" not in text
        assert path.format(name="my_op2") in result.output
    assert "class MyOp2Forward" in (tree / "kernels/my_op2/my_op2_kernel.h").read_text()
    assert added(tree, FUNCTIONS) == ["from ms_ascend_ops.ops.my_op2 import my_op2 as my_op2"]
    assert added(tree, LAYERS) == []


@pytest.mark.parametrize("model", MODELS)
def test_like_another_operator(tree, model):
    result = new("my_op", "--like", model, "--into", tree)
    assert result.exit_code == 0, result.output
    layer = registry.op_spec(model).layer
    for path in [*FILES, *(LAYER_FILES if layer else ())]:
        text = (tree / path.format(name="my_op")).read_text()
        assert model not in text.replace(f"functional.{model}", "")
        assert "my_op" in text or "MyOp" in text or path.startswith("tests/reference")
    spec, of_model = registry.load(tree / "ms_ascend_ops/ops/my_op.yaml"), registry.op_spec(model)
    assert spec.forward.inputs == of_model.forward.inputs
    assert spec.gradient.outputs == of_model.gradient.outputs
    assert spec.counterpart is None
    assert spec.layer == ("MyOp" if layer else "")
    assert added(tree, FUNCTIONS) == ["from ms_ascend_ops.ops.my_op import my_op as my_op"]
    assert added(tree, LAYERS) == (["from ms_ascend_ops.cells.my_op import MyOp as MyOp"] if layer else [])


def test_a_model_that_does_not_make_sense(tree):
    result = new("my_op", "--like", "kv_cache_update", "--into", tree)
    assert result.exit_code == 2
    assert "'kv_cache_update' is not one of 'silu_mul', 'gelu_mul'" in " ".join(result.output.split())


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
        *((name, "is the name of a folder of kernels/ already") for name in FOLDERS),
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
    assert f"there is no {FUNCTIONS}" in " ".join(result.output.split())


def test_the_guide_names_every_file():
    text = GUIDE.read_text()
    assert all(path.format(name="my_op") in text for path in [*FILES, *LAYER_FILES])
    assert all(f"`{path}`" in text for path in (FUNCTIONS, LAYERS))
    assert all(f"--like {model}" in " ".join(text.split()) for model in MODELS)


def copied_tree(folder):
    """A source tree in which commands of `shell` find the modules of the copy, as an installation has them."""
    tree = folder / "tree"
    ignored = shutil.ignore_patterns("build", "dist", ".git", "*.so", "__pycache__", ".*_cache", "*.egg-info", ".venv")
    shutil.copytree(ROOT, tree, ignore=ignored)
    for part in ("benchmarks", "cells", "export", "samples"):
        (tree / "ms_ascend_ops" / part).symlink_to(tree / part)
    return tree


def run(tree, *command, **variables):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'kernels'}",  # the modules of the copy, not those that are installed
        "CMAKE_BUILD_TYPE": "None",  # without optimisation: quick to build
        "MS_ASCEND_OPS_OPERATORS": "my_op|my_gate|my_norm",  # the others are compiled and tested elsewhere
        # An operator changes nothing there.
        "MS_ASCEND_OPS_OBJECTS": ";".join(map(str, library_objects())),
        "MS_ASCEND_OPS_PYTHON_MODULE": _C.__file__,
        **variables,
    }
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)


def shell(tree, *command, **variables):
    done = run(tree, *command, **variables)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


FIND = """
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops import optimize

class Net(nn.Cell):
    def construct(self, x, y):
        return ops.sigmoid(x) * y

x = Tensor(np.ones((2, 3), np.float32))
assert [entry.pattern for entry in optimize(Net(), verify=[x, x]).replaced] == ["GLU"]
"""


OF_ALL = re.compile(r"tests\.(every_operator|empty) import|samples\.operators import|registry\.names\(\)")


@pytest.mark.slow
def test_the_guide_works(tmp_path):
    """Generate, change as the guide does, build, and test: all tests that concern them."""
    tree = copied_tree(tmp_path)
    for command in (["my_op"], ["my_gate", "--like", "silu_mul"], ["my_norm", "--like", "rms_norm"]):
        shell(tree, sys.executable, "-m", "ms_ascend_ops", "new", *command, "--into", str(tree))
    build = (sys.executable, "setup.py", "--quiet", "build_ext", "--inplace")
    tests = ["kernels/test_*.py", "ops/test_*.py", "cells/test_my_*.py", "benchmarks/test_harness.py"]
    tests += ["ms_ascend_ops/dispatch/test_compositions.py"]
    found = [path for pattern in tests for path in (tree / "tests").glob(pattern)]
    # Others than those of all operators have no case of these; for one operator test_export exports all.
    tests = [str(path) for path in found if "/test_my_" in str(path) or OF_ALL.search(path.read_text())]
    tests.remove(str(tree / "tests/ops/test_export.py"))
    for path, old, new_text in changes_of_the_guide():
        file = tree / path
        assert file.read_text().count(old) == 1, (path, old)
        file.write_text(file.read_text().replace(old, new_text))
    shell(tree, *build)
    test = (sys.executable, "-m", "pytest", "-q", "-k", "my_op or my_gate or my_norm", *tests)
    assert "passed" in shell(tree, *test)
    # A certificate of two: exit code 0.
    certify = ["certify", "my_op", "my_gate", "--quick", "--without", "checks,mutations,speed,prediction"]
    assert "accepted in part" in shell(tree, sys.executable, "-m", "ms_ascend_ops", *certify)
    shell(tree, sys.executable, "-c", FIND)
    # The last line of a build that fails says why; behind the first fault compiler, make and Python have more to say.
    for path, old, wrong, reason in (
        ("ms_ascend_ops/ops/my_gate.yaml", "dgate:", "dfoo:", "my_gate.yaml: gradient: the output 'dfoo' must be "),
        ("kernels/my_gate/my_gate_kernel.h", "T, Sigmoid>", "T, Sigmoids>", "my_gate_kernel.h:"),
    ):
        text = (tree / path).read_text()
        (tree / path).write_text(text.replace(old, wrong, 1))
        failed = run(tree, *build)
        assert failed.returncode == 1
        assert re.match(f"error: the build failed: .*{reason}", failed.stderr.splitlines()[-1]), failed.stderr
        assert "Traceback" not in failed.stdout + failed.stderr
        (tree / path).write_text(text)


def changes_of_the_guide():
    """The (file, old text, new text) of every diff block of the guide."""
    blocks = re.findall(r"```diff\n# (\S+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert blocks
    for path, block in blocks:
        lines = block.splitlines(keepends=True)
        old, changed = ("".join(line[1:] for line in lines if line[0] != sign) for sign in "+-")
        yield path, old, changed
