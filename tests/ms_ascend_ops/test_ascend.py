"""The Ascend branch of custom.py on a machine that only looks like one with an NPU; the policy for CANN's twins."""

import ctypes
import inspect
import sys
from importlib import import_module

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import ModelProto

from ms_ascend_ops import ascend, custom, ops, registry
from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.library import library_path
from tests.fake_npu import all_signatures, install, npu  # noqa: F401
from tests.reference import rms_norm as reference
from tests.tensors import numpy, tensor

VERSION_OF_OTHERS = "0.0.9"
SIGNATURES = {signature.name: signature for signature in all_signatures()}


@pytest.fixture
def package(npu):  # noqa: F811
    install(npu, list(SIGNATURES.values()))
    return npu


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    return tensor(rng.normal(size=(3, 8)), "float16"), tensor(rng.normal(size=8), "float32")


def primitive(name, **attributes):
    signature = SIGNATURES[name]
    return FusedPrimitive(signature, attributes | signature.check_attributes(attributes), None)


@pytest.mark.parametrize("name", registry.names())
def test_reg_info_follows_the_definition(package, name):
    for signature in registry.op_spec(name).signatures:
        assert_follows(signature)


def assert_follows(signature):
    made = primitive(signature.name)
    info = made.reg_info
    assert [tensor["name"] for tensor in info["inputs"]] == [tensor.name for tensor in signature.inputs]
    assert [tensor["name"] for tensor in info["outputs"]] == [tensor.name for tensor in signature.outputs]
    kinds = {"string": "int"}
    assert [(attribute["name"], attribute["type"]) for attribute in info["attr"]] == [
        (attribute.name, kinds.get(attribute.type, attribute.type)) for attribute in signature.attributes
    ]
    assert not any("value" in attribute for attribute in info["attr"])  # each comes with the call
    assert len(info["dtype_format"]) == len(signature.types)
    first = [pair[0] for pair in info["dtype_format"][0]]
    row = signature.types[0]
    assert first == [row.get(tensor.dtype, tensor.dtype) for tensor in signature.inputs + signature.outputs]
    assert made.multi_output == (len(signature.outputs) > 1)


def test_the_callback_is_the_library(package, tmp_path):
    """MindSpore compiles none. It looks for the name below with `GetWorkSpaceSize` behind it."""
    attributes = primitive("rms_norm").get_attr_dict()
    assert attributes["custom_callback_func"] == f"{library_path()}:aclnnMsAscendOpsRmsNorm"
    attributes = primitive("matmul", has_bias=False).get_attr_dict()
    assert attributes["custom_callback_func"].endswith(":aclnnMsAscendOpsMatmul_no_bias")
    library = ctypes.CDLL(library_path())
    for signature in SIGNATURES.values():
        presence = {f"has_{tensor.name}": False for tensor in signature.inputs if tensor.optional}
        for callback in (signature.aclnn_callback({}), signature.aclnn_callback(presence)):
            assert library[f"{callback}GetWorkSpaceSize"]
    assert not (tmp_path / "kernel_meta").exists()


def test_another_tensor_stands_for_one_that_is_absent(package):
    """MindSpore numbers the tensors of a node, and tells CANN their addresses by number."""
    made = primitive("matmul", has_bias=False)
    assert made.takes == ("x", "weight", "x")
    assert made.get_attr_dict()["custom_inputs_type"].count("aclTensor*") == 4


def test_what_the_graph_reads_of_the_primitive(package):
    attributes = primitive("rms_norm", epsilon=1e-3, scheme="gemma").get_attr_dict()
    assert attributes["func_name"].endswith("libms_ascend_ops.so:aclnnMsAscendOpsRmsNorm")
    assert attributes["reg_op_name"] == "MsAscendOpsRmsNorm"
    assert attributes["custom_inputs_type"][:4] == ["aclTensor*", "aclTensor*", "double", "int64_t"]
    # The library infers shapes and dtypes, with the attributes it finds here.
    assert attributes["cpp_infer_shape"]
    assert attributes["cpp_infer_type"]
    assert (attributes["epsilon"], attributes["scheme"]) == (1e-3, "gemma")


def test_the_device_target_of_the_moment_decides(operands, request):
    select = Selector("swiglu")
    x = operands[0]
    on_cpu = select(x, -1, False)
    assert isinstance(on_cpu, FusedPrimitive)
    install(request.getfixturevalue("npu"), list(SIGNATURES.values()))
    on_npu = select(x, -1, False)
    assert on_npu is not on_cpu
    assert on_npu.constants == (-1, False)
    request.getfixturevalue("monkeypatch").undo()
    assert select(x, -1, False) is on_cpu


class _TakesConstants(FusedPrimitive):
    """A primitive of the CPU that is called as one of Ascend is."""

    def __init__(self, signature, attributes, bprop, *checks):
        constants = signature.cann_constants(attributes)
        if bprop is not None:
            bprop = custom._bprop_of_node(bprop, signature, signature.inputs, signature.inputs, len(constants))
        super().__init__(signature, attributes, bprop, *checks)
        self.constants = constants


class _Network(nn.Cell):
    def construct(self, x, gamma):
        return ops.rms_norm(x, gamma, 1e-3, "gemma")[0]


def _loss(x, gamma):
    return ops.rms_norm(x, gamma, 1e-3, "gemma")[0].sum()


class _Gradient(nn.Cell):
    def construct(self, x, gamma):
        return ms.grad(_loss, (0, 1))(x, gamma)


@pytest.mark.parametrize(("network", "counts"), [(_Network, [4]), (_Gradient, [4, 7])])
def test_a_graph_holds_the_attributes_as_inputs(monkeypatch, tmp_path, operands, network, counts):
    """Forward takes two tensors and two constants, the gradient five and two."""
    module = sys.modules["ms_ascend_ops.ops.rms_norm"]
    monkeypatch.setattr(custom, "FusedPrimitive", _TakesConstants)
    monkeypatch.setattr(module, "_select", Selector("rms_norm", module._bprop))
    x = Tensor(shape=[None, 8], dtype=ms.float16)
    ms.export(network(), x, operands[1], file_name=str(tmp_path / "net"), file_format="MINDIR")
    model = ModelProto()
    model.ParseFromString((tmp_path / "net.mindir").read_bytes())
    nodes = [node for graph in (model.graph, *model.functions) for node in graph.node]
    assert sorted(len(node.input) for node in nodes if "Custom" in node.op_type) == counts


def refusal(name="rms_norm"):
    with pytest.raises(RuntimeError) as caught:
        primitive(name)
    return str(caught.value)


def test_no_package(npu):  # noqa: F811
    message = refusal()
    assert message.startswith("rms_norm: the CANN package of ms_ascend_ops is not installed")
    assert str(npu) in message
    assert "bash build.sh ascend --soc ascend910b --install PATH" in message


def test_a_package_without_the_operator(npu):  # noqa: F811
    install(npu, [SIGNATURES["swiglu"]])
    assert f"rms_norm: the CANN package at {npu} has no MsAscendOpsRmsNorm (it has MsAscendOpsSwiglu)" in refusal()
    with pytest.raises(RuntimeError, match="swiglu_grad"):  # before the first step, not in it
        ops.swiglu(Tensor(np.ones((2, 4), np.float32)))


def test_a_package_of_another_version(npu):  # noqa: F811
    install(npu, list(SIGNATURES.values()), version=VERSION_OF_OTHERS)
    assert f"has MsAscendOpsRmsNorm in version {VERSION_OF_OTHERS}, but ms_ascend_ops is" in refusal()


def test_a_package_for_another_chip(npu):  # noqa: F811
    install(npu, list(SIGNATURES.values()), soc="ascend910_93")
    assert "was built for ascend910_93, but this chip is ascend910b" in refusal()


def test_no_environment(package, monkeypatch):
    monkeypatch.delenv("ASCEND_OPP_PATH")
    assert refusal() == ("rms_norm: CANN's environment is not set (ASCEND_OPP_PATH): `source <CANN>/set_env.sh`")


def test_a_package_among_the_vendors_of_cann(npu, tmp_path, monkeypatch):  # noqa: F811
    vendors = tmp_path / "cann/opp/vendors"
    install(vendors / "ms_ascend_ops", list(SIGNATURES.values()))
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH")
    assert "is not installed" in refusal()
    (vendors / "config.ini").write_text("load_priority=other,ms_ascend_ops\n")
    assert ascend.check_package(SIGNATURES["rms_norm"], "ascend910b").folder == vendors / "ms_ascend_ops"


def test_ours_unless_cann_is_preferred(package):
    assert str(ascend.chosen_implementation("rms_norm")) == "rms_norm: ours (preferred)"
    ascend.prefer("cann")
    assert ascend.chosen_implementation("rms_norm").implementation == "cann"
    assert str(ascend.chosen_implementation("silu_mul")) == "silu_mul: ours (CANN has no twin)"
    assert ascend.chosen_implementation("rms_norm", {"scheme": "gemma"}).reason == (
        "CANN's RmsNorm has no scheme='gemma'"
    )
    ascend.prefer("ours", "rms_norm")
    assert ascend.chosen_implementation("rms_norm").implementation == "ours"
    assert ascend.chosen_implementation("swiglu").implementation == "cann"


def test_on_a_cpu_there_is_no_choice():
    assert ascend.chosen_implementation("rms_norm", device_target="CPU").implementation == "ours"


def test_preference_of_the_environment(monkeypatch):
    monkeypatch.setattr(ascend, "_preferences", {})
    monkeypatch.setenv("MS_ASCEND_OPS_PREFER", "cann,swiglu=ours")
    assert [ascend.preference(name) for name in ("rms_norm", "swiglu")] == ["cann", "ours"]
    ascend.prefer("cann", "swiglu")
    assert ascend.preference("swiglu") == "cann"
    monkeypatch.setenv("MS_ASCEND_OPS_PREFER", "theirs")
    with pytest.raises(ValueError, match="MS_ASCEND_OPS_PREFER must be 'ours', 'cann' or like"):
        ascend.preference("rms_norm")


def test_wrong_preferences():
    with pytest.raises(ValueError, match="implementation must be 'ours' or 'cann', got 'theirs'"):
        ascend.prefer("theirs")
    with pytest.raises(ValueError, match="CANN has no twin of silu_mul"):
        ascend.prefer("cann", "silu_mul")


def test_the_twin_is_called_when_it_is_preferred(package, operands, caplog):
    select = Selector("rms_norm")
    caplog.set_level("INFO", "ms_ascend_ops")
    ascend.prefer("cann")
    chosen = select(*operands, 1e-3, "llama")
    assert chosen.function is ms.ops.rms_norm
    assert chosen.constants == (1e-3,)
    assert "rms_norm: cann (CANN's RmsNorm through mindspore.ops.rms_norm is preferred)" in caplog.text
    assert chosen is not select(*operands, 1e-3, "gemma")
    ascend.prefer("ours")
    assert isinstance(select(*operands, 1e-3, "llama").function, FusedPrimitive)


@pytest.mark.parametrize("name", [name for name in registry.names() if registry.op_spec(name).twin])
def test_the_twins_exist_in_mindspore(name):
    spec = registry.op_spec(name)
    module, _, function = spec.twin.function.rpartition(".")
    signature = inspect.signature(getattr(import_module(module), function))
    signature.bind(*spec.forward.inputs, *spec.twin.arguments)


def test_applied_functions_work_in_graphs(operands):
    """What a graph holds instead of a primitive, when there are constants: also under grad."""
    x, gamma = tensor(numpy(operands[0]), "float32"), operands[1]
    applied = custom._Applied(ops.rms_norm, (1e-3, "llama"))

    def loss(x, gamma):
        return applied(x, gamma)[0].sum()

    dx = ms.jit(ms.grad(loss))(x, gamma)
    golden, _ = reference.backward(np.ones((3, 8)), np.zeros((3, 1)), numpy(x), numpy(gamma), 1e-3)
    np.testing.assert_allclose(numpy(dx), golden, rtol=1e-4, atol=1e-5)
