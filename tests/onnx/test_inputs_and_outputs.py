"""What the inputs and outputs of an ONNX file say: constants that a run may replace, values without a shape."""

import numpy as np
import onnx
import onnxruntime
import pytest
from mindspore import Tensor
from ms_ascend_ops.export.from_onnx.convert import convert_onnx
from onnx import helper, numpy_helper

from ms_ascend_ops import load
from ms_ascend_ops import onnx as ours

RNG = np.random.default_rng(0)


def results(path, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.register_custom_ops_library(ours.library_path())
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def info(name, shape):
    return helper.make_tensor_value_info(name, 1, shape)


def save(path, nodes, inputs, outputs, constants, ir_version=8, opset=17):
    tensors = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version), path)


def rms_norm(opset):
    mean = {"axes": [-1]} if opset < 18 else {}
    return [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("ReduceMean", ["square"], ["mean"], keepdims=1, **mean),
        helper.make_node("Add", ["mean", "eps"], ["more"]),
        helper.make_node("Sqrt", ["more"], ["root"]),
        helper.make_node("Div", ["x", "root"], ["normal"]),
        helper.make_node("Mul", ["w", "normal"], ["y"]),
    ]


def softmax(opset):
    return [
        helper.make_node("Mul", ["x", "eps"], ["scaled"]),
        helper.make_node("Add", ["scaled", "w"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["y"]),
    ]


@pytest.mark.parametrize("network", [rms_norm, softmax])
@pytest.mark.parametrize("given", [("eps",), ("w",), ("eps", "w")])
def test_a_constant_that_is_an_input_may_be_another_in_a_run(network, given, tmp_path):
    constants = {"eps": 1e-6, "w": np.ones(16)}
    inputs = [info("x", [2, 16]), *(info(name, np.shape(constants[name])) for name in given)]
    save(tmp_path / "m.onnx", network(13), inputs, [info("y", [2, 16])], constants, opset=13)
    ours.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx")
    x = RNG.standard_normal((2, 16)).astype(np.float32)
    others = {"eps": np.array(0.5, np.float32), "w": RNG.standard_normal(16).astype(np.float32)}
    for feeds in ({"x": x}, {"x": x, **{name: others[name] for name in given}}):
        before, after = (results(tmp_path / name, feeds)[0] for name in ("m.onnx", "o.onnx"))
        np.testing.assert_allclose(after, before, 1e-5, 1e-6)


def test_old_files_have_all_constants_as_inputs(tmp_path):
    """Before version 4 of the format none of them may be another: they are constants."""
    inputs = [info("x", [2, 16]), info("eps", []), info("w", [16])]
    constants = {"eps": 1e-6, "w": np.arange(16)}
    save(tmp_path / "m.onnx", rms_norm(9), inputs, [info("y", [2, 16])], constants, 3, 9)
    report = ours.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx")
    assert [entry.pattern for entry in report.replaced] == ["RMSNorm"]
    feeds = {"x": RNG.standard_normal((2, 16)).astype(np.float32)}
    before, after = (results(tmp_path / name, feeds)[0] for name in ("m.onnx", "o.onnx"))
    np.testing.assert_allclose(after, before, 1e-5, 1e-6)


GATED = [
    helper.make_node("Sigmoid", ["x"], ["s"]),
    helper.make_node("Mul", ["x", "s"], ["a"]),
    helper.make_node("Mul", ["a", "u"], ["y"]),
]


@pytest.mark.parametrize("verify", [None, True])
def test_an_output_without_a_shape(verify, tmp_path):
    save(tmp_path / "m.onnx", GATED, [info("x", [2, 16]), info("u", [2, 16])], [info("y", None)], {})
    report = ours.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx", verify=verify)
    assert [entry.pattern for entry in report.replaced] == ["SwiGLU"]
    assert report.outputs.relative < 1e-5


@pytest.mark.parametrize("name", ["y", "a", "x"])
def test_an_output_that_is_only_named(name, tmp_path):
    """ONNX Runtime infers type and shape: of a result, of a value in the middle, of an input."""
    outputs = [onnx.ValueInfoProto(name=name), *([] if name == "y" else [info("y", None)])]
    save(tmp_path / "m.onnx", GATED, [info("x", [2, 16]), info("u", [2, 16])], outputs, {})
    x, u = RNG.standard_normal((2, 2, 16)).astype(np.float32)
    expected = results(tmp_path / "m.onnx", {"x": x, "u": u})
    ours.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx", verify=True)
    converted = load(convert_onnx(tmp_path / "m.onnx", tmp_path / "m.mindir"))(Tensor(x), Tensor(u))
    converted = converted if isinstance(converted, tuple) else (converted,)
    fused = results(tmp_path / "o.onnx", {"x": x, "u": u})
    for before, *after in zip(expected, fused, converted, strict=True):
        for other in after:
            np.testing.assert_allclose(np.asarray(other), before, 1e-5, 1e-6)


def test_an_output_whose_shape_nothing_tells(tmp_path):
    nodes = [*GATED, helper.make_node("Reshape", ["y", "to"], ["z"])]
    inputs = [info("x", [2, 16]), info("u", [2, 16]), helper.make_tensor_value_info("to", 7, [None])]
    save(tmp_path / "m.onnx", nodes, inputs, [info("z", None), info("y", [2, 16])], {})
    report = ours.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx", verify=False)
    assert [entry.pattern for entry in report.replaced] == ["SwiGLU"]
    x, u = RNG.standard_normal((2, 2, 16)).astype(np.float32)
    feeds = {"x": x, "u": u, "to": np.array([4, 8])}
    for before, after in zip(*(results(tmp_path / name, feeds) for name in ("m.onnx", "o.onnx")), strict=True):
        np.testing.assert_allclose(after, before, 1e-5, 1e-6)


def test_inputs_without_a_shape(tmp_path):
    """Nothing can be drawn for them, so the files are not compared; what is there runs as before."""
    save(tmp_path / "m.onnx", GATED, [info("x", None), info("u", None)], [info("y", None)], {})
    ours.optimize(tmp_path / "m.onnx", tmp_path / "o.onnx")
    x, u = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    before, after = (results(tmp_path / name, {"x": x, "u": u})[0] for name in ("m.onnx", "o.onnx"))
    np.testing.assert_allclose(after, before, 1e-5, 1e-6)
