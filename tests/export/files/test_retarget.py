"""A MindIR from a CPU gets the form that a network exported on an NPU has, and the other way round.

Nothing runs on an NPU here. What MindSpore itself writes for an Ascend primitive is the reference: the same network is
exported on a machine that looks like one with an NPU (tests/fake_npu.py).
"""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.files.retarget import retarget

from ms_ascend_ops import bundle, load, ops
from tests.export.mindir import customs
from tests.fake_npu import all_signatures, install, npu  # noqa: F401


class Network(nn.Cell):
    """Two outputs and one, attributes of every kind, one operator twice."""

    def __init__(self):
        super().__init__()
        self.gamma = ms.Parameter(Tensor(np.linspace(0.5, 2, 8, dtype=np.float32)), name="gamma")

    def construct(self, x):
        y, _ = ops.rms_norm(x, self.gamma, 1e-3, "gemma")
        z, _ = ops.rms_norm(y, self.gamma)
        return ops.swiglu(z, -1, True)


def exported(path):
    x = Tensor(shape=[None, 8], dtype=ms.float32)
    ms.export(Network(), x, file_name=str(path), file_format="MINDIR")
    return path.with_suffix(".mindir")


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
def on_cpu(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("cpu") / "network")


@pytest.fixture
def on_npu(npu, tmp_path, monkeypatch):  # noqa: F811
    """The network as an NPU's MindSpore exports it; after that, the machine is one with a CPU only."""
    with monkeypatch.context():
        install(npu, all_signatures())
        return exported(tmp_path / "from_npu")


@pytest.fixture
def cpu(npu, monkeypatch):  # noqa: F811
    """Back on the CPU, at the end of a test that began on an NPU."""
    return monkeypatch.undo


def test_the_form_on_an_npu_is_that_of_ops_custom(on_cpu, on_npu):
    model = read(on_cpu)
    assert [count for _, count, _ in nodes(model)] == [2, 2, 1]
    retarget(model, "network")
    assert [count for _, count, _ in nodes(model)] == [4, 4, 3]
    assert nodes(model) == nodes(read(on_npu))


def test_and_back(on_cpu, on_npu, cpu):
    model = read(on_npu)
    cpu()
    assert all("aclnn" in attributes["func_name"].s.decode() for attributes in customs(model))
    retarget(model, "network")
    assert [(attributes, count) for attributes, count, _ in nodes(model)] == [
        (attributes, count) for attributes, count, _ in nodes(read(on_cpu))
    ]


def test_exported_on_an_npu_runs_on_a_cpu(on_cpu, on_npu, cpu, tmp_path):
    cpu()
    x = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    expected = load(on_cpu)(x).asnumpy()
    np.testing.assert_array_equal(load(on_npu)(x).asnumpy(), expected)
    np.testing.assert_array_equal(load(bundle(on_npu, tmp_path / "x"))(x).asnumpy(), expected)


def test_there_and_back_again_is_the_same_file(on_cpu, npu, cpu):  # noqa: F811
    install(npu, all_signatures())
    model = read(on_cpu)
    retarget(model, "network")
    changed = model.SerializeToString(deterministic=True)
    retarget(model, "network")  # what is in form stays so
    assert len(model.SerializeToString(deterministic=True)) == len(changed)
    cpu()
    retarget(model, "network")
    assert nodes(model) == nodes(read(on_cpu))


def test_an_npu_without_the_package(on_cpu, npu):  # noqa: F811
    with pytest.raises(RuntimeError, match="the CANN package of ms_ascend_ops is not installed"):
        retarget(read(on_cpu), "network")


def test_a_node_without_its_tensors(on_cpu):
    model = read(on_cpu)
    node = next(node for node in model.graph.node if "Custom" in node.op_type)
    del node.input[1:]
    with pytest.raises(ValueError, match=r"is refused: the node .* has 1 of 2 tensors"):
        retarget(model, "network")
