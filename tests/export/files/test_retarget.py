"""A MindIR from a CPU gets the form that a network exported on an Ascend device has, and the other way round.

The emulated device writes the files of an Ascend, and runs those of a CPU (tests/device/files.py).
"""

import os
import subprocess
import sys

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.files.retarget import retarget

from examples import llama
from ms_ascend_ops import bundle, export_mindir, load, optimize_mindir
from tests.acceptance import assert_close
from tests.device.installation import ROOT
from tests.export.engines.test_two_steps import OPERATORS, operators
from tests.export.files.network import exported
from tests.export.mindir import customs
from tests.small_llama import CONFIG


def read(path):
    return ModelProto.FromString(path.read_bytes())


def nodes(model):
    """For every fused operator, in order: its attributes, tensors left out, and the constants that it takes."""
    types = {primitive.name: primitive for primitive in model.primitives if primitive.op_type == "Custom"}
    constants = {node.name: node.attribute[0] for node in model.graph.node if node.op_type == "Constant"}
    found = []
    for node in model.graph.node:
        primitive = types.get(node.op_type.removeprefix("REF::"))
        if primitive is not None:
            attributes = {a.name: a.SerializeToString(deterministic=True) for a in primitive.attribute}
            values = [constants[name].SerializeToString(deterministic=True) for name in node.input if name in constants]
            found.append((attributes, len(node.input), values))
    return found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files of both."""
    folder, random = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    x, ids = random.normal(size=(5, 8)).astype(np.float32), random.integers(0, CONFIG.vocab_size, (2, 12), np.int32)
    bundle(exported(folder / "network"), folder / "network")
    ms.set_seed(0)
    stock = export_mindir(llama.LlamaForCausalLM(CONFIG), Tensor(ids), path=folder / "stock")
    optimize_mindir(stock, folder / "fused.mindir", level="O2")
    np.savez(folder / "inputs.npz", x=x, ids=ids)
    command = [sys.executable, "-m", "ms_ascend_ops", "emulate", "-m", "tests.device.files", str(folder)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'kernels'}", "GLOG_v": "4"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.fixture(scope="module")
def x(files):
    return np.load(files / "inputs.npz")["x"]


@pytest.fixture(scope="module")
def on_device(files):
    """What files gave on the device."""
    return np.load(files / "results.npz")


def test_the_form_on_an_npu_is_that_of_ops_custom(files):
    model, changed = read(files / "network.mindir"), read(files / "network_npu.mindir")
    assert [count for _, count, _ in nodes(model)] == [2, 2, 1]
    assert [count for _, count, _ in nodes(changed)] == [4, 4, 3]
    assert nodes(changed) == nodes(read(files / "exported.mindir"))


def test_and_back(files):
    model = read(files / "exported.mindir")
    assert all("aclnn" in attributes["func_name"].s.decode() for attributes in customs(model))
    retarget(model, "network")
    assert [(attributes, count) for attributes, count, _ in nodes(model)] == [
        (attributes, count) for attributes, count, _ in nodes(read(files / "network.mindir"))
    ]


def test_files_run_on_either(files, x, on_device, tmp_path):
    expected = load(files / "network.mindir")(x).asnumpy()
    for path in ("exported.mindir", "network.msbundle"):
        np.testing.assert_array_equal(load(files / path)(x).asnumpy(), expected)
    np.testing.assert_array_equal(load(bundle(files / "exported.mindir", tmp_path / "x"))(x).asnumpy(), expected)
    for name in ("network", "exported", "bundle"):
        # Rows are shared among 48 cores there: their sums are added up in the same order.
        np.testing.assert_allclose(on_device[name], expected, rtol=1e-6, atol=1e-7)


def test_a_bundle_for_an_npu_alone(files, x):
    with pytest.raises(RuntimeError, match="ascend910b"):
        load(files / "bundle_npu.msbundle")(x)


def test_there_and_back_again_is_the_same_file(files):
    # What is in form stays so.
    assert (files / "network_npu.mindir").stat().st_size == (files / "network_npu_twice.mindir").stat().st_size
    model = read(files / "network_npu.mindir")
    retarget(model, "network")
    assert nodes(model) == nodes(read(files / "network.mindir"))


def test_a_decoder_is_optimized_on_either(files, on_device, tmp_path):
    """From a CPU's file in either form, on a CPU and on the device; by steps and at once."""
    ids = Tensor(np.load(files / "inputs.npz")["ids"])
    expected = load(files / "stock.mindir")(ids)[0].asnumpy()
    optimize_mindir(files / "fused_npu.mindir", tmp_path / "joined.mindir", level="O3")
    assert operators(tmp_path / "joined.mindir") == operators(files / "joined.mindir") == OPERATORS
    assert operators(files / "at_once.mindir") == OPERATORS
    made = [load(path)(ids)[0].asnumpy() for path in (tmp_path / "joined.mindir", files / "at_once.mindir")]
    for found in [*made, *(on_device[name] for name in ("fused", "joined", "at_once"))]:
        assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("cpu") / "network")


def test_a_node_without_its_tensors(on_cpu):
    model = read(on_cpu)
    node = next(node for node in model.graph.node if "Custom" in node.op_type)
    del node.input[1:]
    with pytest.raises(ValueError, match=r"is refused: the node .* has 1 of 2 tensors"):
        retarget(model, "network")
