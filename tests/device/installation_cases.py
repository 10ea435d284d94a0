"""What an installation of the package goes through, on an emulated device: test_installation.py runs this file there.

The package is the device's own, or a copy of it in which something is wrong.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import ascend, custom, ops, registry
from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.device.environment import VENDOR
from ms_ascend_ops.library import library_path
from tests.device.installation import copy
from tests.tensors import numpy

SOC, VERSION_OF_OTHERS = "ascend910b", "0.0.9"
SIGNATURES = {s.name: s for name in registry.names() for s in registry.op_spec(name).signatures}
REMEDY = "Build and install it with `bash build.sh ascend --soc ascend910b --install PATH`"


@pytest.fixture(scope="module", autouse=True)
def _device() -> None:
    ms.set_device("Ascend")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is remembered of another package, or preferred."""
    monkeypatch.setattr(ascend, "_preferences", {})
    forget()
    yield
    forget()


def forget() -> None:
    ascend._versions.cache_clear()
    for module in [module for name, module in sys.modules.items() if name.startswith("ms_ascend_ops.ops.")]:
        for value in vars(module).values():
            if isinstance(value, Selector):
                value._made.cache_clear()


def primitive(name: str, **attributes: Any) -> FusedPrimitive:
    signature = SIGNATURES[name]
    return FusedPrimitive(signature, attributes | signature.check_attributes(attributes), None)


def operands(dtype: Any = ms.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    return Tensor(rng.normal(size=(3, 8)), dtype), Tensor(rng.normal(size=8), dtype)


class Norm(nn.Cell):  # type: ignore[misc]
    def construct(self, x, gamma):  # type: ignore[no-untyped-def]
        return ops.rms_norm(x, gamma, 1e-3, "one_plus_gamma")[0]


def loss(x: Tensor, gamma: Tensor) -> Tensor:
    return ops.rms_norm(x, gamma, 1e-3, "one_plus_gamma")[0].sum()


class Gradient(nn.Cell):  # type: ignore[misc]
    def construct(self, x, gamma):  # type: ignore[no-untyped-def]
        return ms.grad(loss, (0, 1))(x, gamma)


# What a node says, of every operator.


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_reg_info_follows_the_definition(name: str) -> None:
    signature, made = SIGNATURES[name], primitive(name)
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


def test_the_callback_is_the_library() -> None:
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


def test_another_tensor_stands_for_one_that_is_absent() -> None:
    """MindSpore numbers the tensors of a node, and tells CANN their addresses by number."""
    made = primitive("matmul", has_bias=False)
    assert made.takes == ("x", "weight", "x")
    assert made.get_attr_dict()["custom_inputs_type"].count("aclTensor*") == 4


def test_what_the_graph_reads_of_the_primitive() -> None:
    attributes = primitive("rms_norm", epsilon=1e-3, scheme="one_plus_gamma").get_attr_dict()
    assert attributes["func_name"].endswith("libms_ascend_ops.so:aclnnMsAscendOpsRmsNorm")
    assert attributes["reg_op_name"] == "MsAscendOpsRmsNorm"
    assert attributes["custom_inputs_type"][:4] == ["aclTensor*", "aclTensor*", "double", "int64_t"]
    # The library infers shapes and dtypes, with the attributes it finds here.
    assert attributes["cpp_infer_shape"]
    assert attributes["cpp_infer_type"]
    assert (attributes["epsilon"], attributes["scheme"]) == (1e-3, "one_plus_gamma")


def test_the_device_target_of_the_moment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    select, (x, _) = Selector("swiglu"), operands()
    on_npu: Any = select(x, -1, False)
    assert on_npu.constants == (-1, False)
    with monkeypatch.context() as patch:
        patch.setattr(custom, "device_target", lambda: "CPU")
        patch.setattr(select, "_make_kernel", lambda *_: "another")
        select._made.cache_clear()
        assert select(x, -1, False) == "another"


@pytest.mark.parametrize(("network", "counts"), [(Norm, [4]), (Gradient, [4, 7])])
def test_a_graph_holds_the_attributes_as_inputs(tmp_path: Path, network: Callable[[], Any], counts: list[int]) -> None:
    """Forward takes two tensors and two constants, the gradient five and two."""
    x = Tensor(shape=[None, 8], dtype=ms.float32)
    ms.export(network(), x, operands()[1], file_name=str(tmp_path / "net"), file_format="MINDIR")
    model = ModelProto()
    model.ParseFromString((tmp_path / "net.mindir").read_bytes())
    nodes = [node for graph in (model.graph, *model.functions) for node in graph.node]
    assert sorted(len(node.input) for node in nodes if "Custom" in node.op_type) == counts


# The messages of docs/ascend.md.


def refusal(call: Callable[[], Any] = lambda: primitive("rms_norm")) -> str:
    with pytest.raises(RuntimeError) as caught:
        call()
    return str(caught.value)


def take(monkeypatch: pytest.MonkeyPatch, package: Path | None) -> None:
    """Another package than the device's, or none."""
    monkeypatch.setenv("ASCEND_OPP_PATH", str(package.parent if package else "/nowhere"))
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(package or ""))


def test_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASCEND_OPP_PATH")
    assert refusal() == "rms_norm: CANN's environment is not set (ASCEND_OPP_PATH): `source <CANN>/set_env.sh`"


def test_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """In PyNative, and in a graph."""
    take(monkeypatch, None)
    for call in (lambda: ops.rms_norm(*operands()), lambda: ms.jit(Norm())(*operands())):
        message = refusal(call)
        assert "rms_norm_grad: the CANN package of ms_ascend_ops is not installed" in message
        assert REMEDY in message


def test_a_package_without_the_operator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take(monkeypatch, folder := copy(tmp_path / "package", operators=["MsAscendOpsSwiglu"]))
    assert f"rms_norm: the CANN package at {folder} has no MsAscendOpsRmsNorm (it has MsAscendOpsSwiglu)" in refusal()
    message = refusal(lambda: ops.swiglu(operands()[0]))  # before the first step of a training, not in it
    assert message.startswith("swiglu_grad: ")


def test_a_package_of_another_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take(monkeypatch, copy(tmp_path / "package", version=VERSION_OF_OTHERS))
    message = refusal()
    assert f"has MsAscendOpsRmsNorm in version {VERSION_OF_OTHERS}, but ms_ascend_ops is" in message
    assert REMEDY in message


def test_a_package_for_another_chip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take(monkeypatch, copy(tmp_path / "package", chips=["ascend910_93"]))
    message = refusal()
    assert "was built for ascend910_93, but this chip is ascend910b" in message
    assert REMEDY in message


def test_a_package_among_the_vendors_of_cann(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = copy(tmp_path / "opp/vendors/ms_ascend_ops")
    (folder.parent / "config.ini").unlink(missing_ok=True)
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
    monkeypatch.delenv("ASCEND_CUSTOM_OPP_PATH")
    assert "is not installed" in refusal()
    (folder.parent / "config.ini").write_text("load_priority=other,ms_ascend_ops\n")
    assert ascend.check_package(SIGNATURES["rms_norm"], SOC).folder == folder
    y, _ = ops.rms_norm(*operands())
    assert np.isfinite(numpy(y)).all()


def test_the_package_of_the_device() -> None:
    assert ascend.packages()[0].folder == VENDOR
    assert ascend.packages()[0].chips() == ["ascend910_93", SOC]


# Who computes an operator.


def test_ours_unless_cann_is_preferred() -> None:
    assert str(ascend.chosen_implementation("rms_norm")) == "rms_norm: ours (preferred)"
    ascend.prefer("cann")
    assert ascend.chosen_implementation("rms_norm").implementation == "cann"
    assert str(ascend.chosen_implementation("silu_mul")) == "silu_mul: ours (CANN has no counterpart)"
    assert ascend.chosen_implementation("rms_norm", {"scheme": "one_plus_gamma"}).reason == (
        "CANN's RmsNorm has no scheme='one_plus_gamma'"
    )
    ascend.prefer("ours", "rms_norm")
    assert ascend.chosen_implementation("rms_norm").implementation == "ours"
    assert ascend.chosen_implementation("swiglu").implementation == "cann"


def test_the_counterpart_is_called_when_it_is_preferred(caplog: pytest.LogCaptureFixture) -> None:
    select = Selector("rms_norm")
    caplog.set_level("INFO", "ms_ascend_ops")
    ascend.prefer("cann")
    chosen: Any = select(*operands(), 1e-3, "round_then_scale")
    assert chosen.function is ms.ops.rms_norm
    assert chosen.constants == (1e-3,)
    assert "rms_norm: cann (CANN's RmsNorm through mindspore.ops.rms_norm is preferred)" in caplog.text
    assert chosen is not select(*operands(), 1e-3, "one_plus_gamma")
    ascend.prefer("ours")
    ours: Any = select(*operands(), 1e-3, "round_then_scale")
    assert isinstance(ours.function, FusedPrimitive)


COUNTERPARTS: dict[str, Callable[..., Any]] = {
    "add": lambda x, gamma: ops.add(x, x * 2),
    "add_rms_norm": lambda x, gamma: ops.add_rms_norm(x, x * 2, gamma),
    "gelu": lambda x, gamma: ops.gelu(x, "tanh"),
    "rms_norm": ops.rms_norm,
    "softmax": lambda x, gamma: ops.softmax(x),
    "swiglu": lambda x, gamma: ops.swiglu(x),
}


def test_every_counterpart_has_a_case() -> None:
    assert sorted(COUNTERPARTS) == sorted(name for name in registry.names() if registry.op_spec(name).counterpart)


@pytest.mark.parametrize("dtype", [ms.float32, ms.float16, ms.bfloat16], ids=str)
@pytest.mark.parametrize("name", sorted(COUNTERPARTS))
def test_a_counterpart_computes_the_same(name: str, dtype: Any) -> None:
    """CANN's operator beside ours, forward and gradient: both are within a rounding or two of the formula."""
    x, gamma = operands(dtype)
    step = ms.value_and_grad(
        lambda x, gamma: flat(COUNTERPARTS[name](x, gamma))[0].astype(ms.float32).square().sum(), (0, 1)
    )

    def found() -> list[np.ndarray]:
        value, gradients = step(x, gamma)
        return [numpy(tensor) for tensor in (*flat(COUNTERPARTS[name](x, gamma)), value, *gradients)]

    ours = found()
    ascend.prefer("cann", name)
    tolerance = {"Float32": 1e-5, "Float16": 4e-3, "BFloat16": 3e-2}[str(dtype)]
    for one, other in zip(ours, found(), strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * max(1, np.abs(one).max()))
