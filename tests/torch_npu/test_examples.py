"""examples/torch_npu: C++ extensions that launch the package's aclnn functions, built and run."""

import ast
import shutil
import sys

import pytest

torch = pytest.importorskip("torch")
torch_npu = pytest.importorskip("torch_npu")
pytestmark = [pytest.mark.clients, pytest.mark.skipif(shutil.which("ninja") is None, reason="PyTorch builds by ninja")]

from tests.ms_ascend_ops.commands.test_new import ROOT, copied_tree, shell


def run(tree, name, extensions):
    """What the script prints: the largest errors, and the bytes that are lost after 100 calls."""
    script = [sys.executable, "-m", "ms_ascend_ops", "emulate", "examples/torch_npu/build.py", name]
    errors, lost = shell(tree, *script, TORCH_EXTENSIONS_DIR=str(extensions)).splitlines()[-2:]
    return ast.literal_eval(errors), lost


def test_add(tmp_path):
    errors, lost = run(ROOT, "add", tmp_path)
    assert errors == {"module": 0.0, "torch.ops": 0.0, "gradient": 0.0}
    assert lost == "0 bytes lost"


def test_an_operator_of_new(tmp_path):
    """From nothing: generated, built into the package of the emulated device, called from C++."""
    tree = copied_tree(tmp_path)
    shell(tree, sys.executable, "-m", "ms_ascend_ops", "new", "my_op", "--into", str(tree))
    shell(tree, sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", MS_ASCEND_OPS_DEVICE="1")
    errors, lost = run(tree, "my_op", tmp_path)
    assert errors.keys() == {"module", "torch.ops", "gradient"}
    assert max(errors.values()) < 1e-6  # of values up to 4.5
    assert lost == "0 bytes lost"
