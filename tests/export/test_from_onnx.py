"""ONNX nodes as MindIR: the same values as ONNX's own reference, or a refusal by name."""

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import pytest
from click.testing import CliRunner
from ms_ascend_ops.export.engines.mindir_engine import optimize_mindir
from ms_ascend_ops.export.from_onnx.convert import convert_onnx
from ms_ascend_ops.export.from_onnx.operators import OPERATORS
from onnx import helper, numpy_helper

from ms_ascend_ops import load
from ms_ascend_ops.__main__ import main
from tests.acceptance import assert_close
from tests.export.onnx_nodes import CASES

OUTPUTS = {"Split": 3, "TopK": 2}  # 1, unless it says how many in an input
# Exporting takes half a second, of one node or of many.
NODES = [(op, case) for op, cases in CASES.items() for case in cases]
GROUPS = [NODES[i : i + 25] for i in range(0, len(NODES), 25)]


def model(nodes, inputs, outputs, constants, opset=23):
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in inputs.items()
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    made = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=name) for name in outputs], tensors)
    made = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def converted(made, folder, inputs, **arguments):
    """What the MindIR of a model gives."""
    onnx.save(made, folder / "model.onnx")
    network = load(convert_onnx(folder / "model.onnx", folder / "model", **arguments))
    results = network(*inputs.values())
    return [tensor.asnumpy() for tensor in (results if isinstance(results, tuple | list) else [results])]


def expected(made, inputs):
    """By ONNX Runtime, and by ONNX's own reference what that does not have."""
    try:
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return [np.asarray(value) for value in onnx.reference.ReferenceEvaluator(made).run(None, inputs)]
    return session.run(None, inputs)


def tensor(name):
    return helper.make_tensor_value_info(name, 1, None)


def typed(made, values):
    """With the types of outputs that ONNX does not infer."""
    for output, value in zip(made.graph.output, values, strict=True):
        dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
        output.CopyFrom(helper.make_tensor_value_info(output.name, dtype, value.shape))
    return made


def test_every_operator_has_a_case():
    assert set(CASES) == set(OPERATORS)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group[0][0]} to {group[-1][0]}")
def test_nodes(group, tmp_path):
    nodes, inputs, constants, outputs = [], {}, {}, []
    for number, (op, case) in enumerate(group):
        names = ["" if value is None else f"{number}.in.{i}" for i, value in enumerate(case.inputs)]
        for i, name in enumerate(names):
            if name:
                (constants if i in case.fixed else inputs)[name] = case.inputs[i]
        results = [f"{number}:out:{i}" for i in range(OUTPUTS.get(op, 1) if len(names) == 1 or op == "TopK" else 1)]
        results = results if op != "Split" or len(names) == 1 else [*results, f"{number}:out:1"]
        nodes.append(helper.make_node(op, names, results, f"{op} {number}", **case.attributes))
        if op in ("Identity", "Dropout") or "noop_with_empty_axes" in case.attributes:  # nothing would be computed
            nodes.append(helper.make_node("Neg", results, [f"{number}:negative"]))
            results = [f"{number}:negative"]
        outputs += results
    made = model(nodes, inputs, outputs, constants)
    right = expected(made, inputs)
    got = converted(typed(made, right), tmp_path, inputs)
    for name, result, value in zip(outputs, got, right, strict=True):
        node = group[int(name.partition(":")[0])]
        assert result.shape == value.shape, node
        assert result.dtype == value.dtype, node
        tolerance = {"rtol": 2e-5, "atol": 2e-5} if value.dtype.kind == "f" else {"rtol": 0}
        np.testing.assert_allclose(result, value, **tolerance, err_msg=str(node))


def test_extremes_of_nan(tmp_path):
    """As NumPy has them: those of ONNX Runtime depend on the order of the values."""
    x = np.array([[1, np.nan, 3], [4, 5, 6], [-np.inf, 1, 2]], np.float32)
    nodes = [helper.make_node(op, ["x", "axes"], [op]) for op in ("ReduceMax", "ReduceMin")]
    made = model(nodes, {"x": x}, ["ReduceMax", "ReduceMin"], {"axes": np.array([1])})
    largest, smallest = converted(made, tmp_path, {"x": x})
    np.testing.assert_array_equal(largest, x.max(1, keepdims=True))
    np.testing.assert_array_equal(smallest, x.min(1, keepdims=True))


def network():
    """As exporters write them: sizes out of shapes, and a branch that is known."""
    rng = np.random.default_rng(2)
    weights = {"w": rng.standard_normal((8, 4, 3, 3)), "fc": rng.standard_normal((8 * 3 * 3, 5))}
    constants = {name: value.astype(np.float32) for name, value in weights.items()}
    constants |= {"zero": np.array(0), "first": np.array([0]), "rest": np.array([-1]), "yes": np.array(True)}
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["pooled"], [op])], op, [], [helper.make_tensor_value_info(op, 1, None)]
        )
        for op in ("Relu", "Neg")
    ]
    nodes = [
        helper.make_node("Conv", ["image 1", "w"], ["features"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["features"], ["pooled"], kernel_shape=[2, 2], strides=[1, 1]),
        helper.make_node("If", ["yes"], ["active"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Shape", ["active"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Unsqueeze", ["batch", "first"], ["batch1"]),
        helper.make_node("Concat", ["batch1", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["active", "flat"], ["rows"]),
        helper.make_node("MatMul", ["rows", "fc"], ["class"]),
        helper.make_node("Softmax", ["class"], ["probability"]),
        helper.make_node("ArgMax", ["class"], ["best"], axis=1),
    ]
    image = rng.standard_normal((2, 4, 8, 8)).astype(np.float32)
    made = model(nodes, {"image 1": image}, ["probability", "best"], constants)
    right = expected(made, {"image 1": image})
    typed(made, right)
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    return made, {"image 1": image}, right


def test_a_network(tmp_path):
    made, inputs, right = network()
    probability, best = converted(made, tmp_path, inputs, shapes={"image 1": (2, 4, 8, 8)})
    assert_close(probability, right[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(best, right[1])
    assert [spec.name for spec in load(tmp_path / "model.mindir").inputs] == ["image_1"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, r"input image 1 has open sizes \(batch, 4, 8, 8\); say its shape"),
        ({"image 1": (2, 4, 8, 9)}, r"input image 1 must be of shape \(batch, 4, 8, 8\), got \(2, 4, 8, 9\)"),
        ({"image 1": (2, 4)}, r"input image 1 must be of shape \(batch, 4, 8, 8\), got \(2, 4\)"),
        ({"image 1": (0, 4, 8, 8)}, r"sizes of input image 1 must be at least 1, got \(0, 4, 8, 8\)"),
        ({"image 1": (2, 4, 8, 8), "x": (1,)}, "the model has no input x, only image 1"),
    ],
)
def test_wrong_shapes(shapes, message, tmp_path):
    made, _, _ = network()
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match=f"^convert_onnx: {message}$"):
        convert_onnx(tmp_path / "model.onnx", tmp_path / "out", shapes=shapes)
    assert not (tmp_path / "out.mindir").exists()


def test_what_is_not_supported_is_named(tmp_path):
    x = {"x": np.ones((2, 2), np.float32)}
    nodes = [helper.make_node("Det", ["x"], ["d"], "here"), helper.make_node("NonZero", ["x"], ["z"])]
    onnx.save(
        typed(model(nodes, x, ["d", "z"], {}), [np.ones((), np.float32), np.ones((2, 4), np.int64)]),
        tmp_path / "m.onnx",
    )
    with pytest.raises(ValueError, match=r"m\.onnx: not supported: Det \(here\), NonZero \(z\); docs/onnx\.md lists"):
        convert_onnx(tmp_path / "m.onnx", tmp_path / "out")


def test_a_value_that_must_be_known(tmp_path):
    inputs = {"x": np.ones((2, 3), np.float32), "k": np.array([1])}
    made = model([helper.make_node("TopK", ["x", "k"], ["v", "i"], "best")], inputs, ["v", "i"], {})
    onnx.save(typed(made, [np.ones((2, 1), np.float32), np.ones((2, 1), np.int64)]), tmp_path / "model.onnx")
    message = r"TopK \(best\): its input 1 \(k\) must be known when the model is converted"
    with pytest.raises(ValueError, match=message):
        convert_onnx(tmp_path / "model.onnx", tmp_path / "out")


def test_it_is_optimized_like_any_other(tmp_path):
    """LayerNormalization and a SwiGLU, whose formulas are found in the MindIR."""
    rng = np.random.default_rng(3)
    sizes = {"gamma": (16,), "beta": (16,), "gate": (16, 24), "up": (16, 24), "down": (24, 16)}
    constants = {name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gamma", "beta"], ["n"]),
        helper.make_node("MatMul", ["n", "gate"], ["g"]),
        helper.make_node("Sigmoid", ["g"], ["s"]),
        helper.make_node("Mul", ["g", "s"], ["a"]),
        helper.make_node("MatMul", ["n", "up"], ["u"]),
        helper.make_node("Mul", ["a", "u"], ["p"]),
        helper.make_node("MatMul", ["p", "down"], ["y"]),
    ]
    x = {"x": rng.standard_normal((2, 5, 16)).astype(np.float32)}
    made = model(nodes, x, ["y"], constants)
    right = expected(made, x)
    onnx.save(typed(made, right), tmp_path / "model.onnx")
    plain = convert_onnx(tmp_path / "model.onnx", tmp_path / "plain")
    report = optimize_mindir(plain, tmp_path / "fused.mindir")
    assert {"LayerNorm", "SwiGLU"} <= {entry.pattern for entry in report.replaced}
    result = load(tmp_path / "fused.mindir")(*x.values()).asnumpy()
    assert_close(result, right[0], rtol=1e-4, atol=1e-5)


def test_the_commands(tmp_path, monkeypatch):
    made, inputs, right = network()
    onnx.save(made, tmp_path / "model.onnx")
    np.save(tmp_path / "image.npy", inputs["image 1"])
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(main, arguments)

    assert "has open sizes (batch, 4, 8, 8); say its shape" in run("infer", "model.onnx").output
    done = run("infer", "model.onnx", "--shape", "2,4,8,8", "--input", "image.npy", "--output", "out")
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(np.load("out/output_1.npy"), right[1])
    done = run("convert", "model.onnx", "--shape", "image 1=2,4,8,8")
    assert done.exit_code == 0, done.output
    assert load("model.mindir").inputs[0].shape == (2, 4, 8, 8)
    done = run("bundle", "model.onnx", "--shape", "image 1=2,4,8,8")
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(load("model.msbundle")(*inputs.values())[1].asnumpy(), right[1])
    for shape, message in (("2,x", "form 2,128"), ("2,4,8", "must be of shape"), ("y=1", "no input y")):
        done = run("convert", "model.onnx", "--shape", shape)
        assert done.exit_code != 0
        assert message in done.output
    done = run("convert", "model.onnx", "--shape", "2,4,8,8", "--shape", "1")
    assert "has 1 inputs, got 2 shapes" in done.output
