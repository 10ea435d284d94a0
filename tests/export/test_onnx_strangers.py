"""ONNX files that mean no good, or no harm with odd names: refused by name, or converted; nothing is left behind."""

import os

import numpy as np
import onnx
import pytest
from ms_ascend_ops.export.from_onnx.convert import convert_onnx
from onnx import TensorProto, helper, numpy_helper

from ms_ascend_ops import load
from ms_ascend_ops.onnx.files import read_model
from tests.export.test_from_onnx import converted, expected, model, typed

X = np.array([[-1, 0.5, 3], [1, -2, 0]], np.float32)
NAMES = [
    *("class", "None", "lambda", "def", "True", "match", "self", "ops", "ms", "Network", "construct", "_top_k"),
    "_quotient",
    *("float", "tuple", "print", "__class__", "__debug__", "x;import os", "a b", "名前", "y\n        import os", "0"),
    *("v" * 5000, "constants", "_"),
]  # fmt: skip


def saved(folder, nodes, inputs, outputs, constants=None, **arguments):
    made = model(nodes, inputs, [name for name, _ in outputs], constants or {}, **arguments)
    typed(made, [np.zeros(shape, np.float32) for _, shape in outputs])
    onnx.save(made, folder / "model.onnx")
    return folder / "model.onnx"


def test_names_are_no_code(tmp_path):
    """Of inputs, of values, of outputs, all in one graph."""
    inputs = {name: X + number for number, name in enumerate(NAMES)}
    nodes = [helper.make_node("Relu", [name], [f"{name} "]) for name in NAMES]
    nodes += [helper.make_node("Div", [f"{name} ", "import"], [f"{name}  "]) for name in NAMES]
    made = model(nodes, inputs, [f"{name}  " for name in NAMES], {"import": np.array(2, np.float32)})
    right = expected(made, inputs)
    got = converted(typed(made, right), tmp_path, inputs)
    for name, result, value in zip(NAMES, got, right, strict=True):
        np.testing.assert_allclose(result, value, err_msg=name)


NUMBERS = [
    ("LeakyRelu", {"alpha": float("inf")}),
    ("LeakyRelu", {"alpha": float("nan")}),
    ("Elu", {"alpha": float("-inf")}),
    ("Selu", {"gamma": float("inf")}),
    ("HardSigmoid", {"alpha": float("inf")}),
    ("HardSigmoid", {"beta": float("-inf")}),
]


def test_numbers_that_are_not_finite(tmp_path):
    nodes = [helper.make_node(op, ["x"], [f"y{i}"], **attributes) for i, (op, attributes) in enumerate(NUMBERS)]
    nodes.append(helper.make_node("Clip", ["x", "low", "high"], [f"y{len(NUMBERS)}"]))
    constants = {"low": np.array(0, np.float32), "high": np.array(np.inf, np.float32)}
    x = np.array([[-1, 0.5, 3], [1, -2, 0.25]], np.float32)
    made = model(nodes, {"x": x}, [f"y{i}" for i in range(len(nodes))], constants)
    right = expected(made, {"x": x})
    for got, value in zip(converted(typed(made, right), tmp_path, {"x": x}), right, strict=True):
        np.testing.assert_array_equal(np.isnan(got), np.isnan(value))
        np.testing.assert_allclose(np.nan_to_num(got), np.nan_to_num(value), 1e-6)


LARGE = 3 * 2**30
BOMBS = {
    "ConstantOfShape": (["shape"], {"shape": np.array([LARGE])}),
    "Expand": (["one", "shape"], {"one": np.ones(1, np.float32), "shape": np.array([LARGE])}),
    "Tile": (["one", "shape"], {"one": np.ones(1, np.float32), "shape": np.array([LARGE])}),
    "Pad": (["one", "shape"], {"one": np.ones(1, np.float32), "shape": np.array([0, LARGE])}),
    "Range": (["0", "n", "1"], {k: np.array(v, np.float32) for k, v in (("0", 0), ("n", 3e9), ("1", 1))}),
    "Resize": (["im", "", "scales"], {"im": np.ones((1, 1), np.float32), "scales": np.array([6e4, 6e4], np.float32)}),
    "MatMul": (["a", "c"], {"a": np.ones((40000, 1), np.float32), "c": np.ones((1, 40000), np.float32)}),
    "Add": (["a", "c"], {"a": np.ones((40000, 1), np.float32), "c": np.ones((1, 40000), np.float32)}),
    "OneHot": (
        ["i", "depth", "v"],
        {"i": np.zeros(4, np.int64), "depth": np.array(2**30), "v": np.ones(2, np.float32)},
    ),
}


@pytest.mark.parametrize("op", BOMBS)
def test_sizes_are_looked_at_before_anything_is_computed(op, tmp_path):
    names, constants = BOMBS[op]
    nodes = [
        helper.make_node(op, names, ["b"], "bomb"),
        helper.make_node("ReduceSum", ["b"], ["r"], keepdims=0),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [2, 3])],
        [helper.make_tensor_value_info("y", 1, [2, 3])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=rf"m\.onnx: {op} \(bomb\): a result of \d+ elements is too large"):
        convert_onnx(tmp_path / "m.onnx", tmp_path / "out")


def test_products_of_constants_that_would_take_hours(tmp_path):
    """They are left to the network."""
    nodes = [helper.make_node("ConstantOfShape", ["size"], ["m0"])]
    nodes += [helper.make_node("MatMul", [f"m{i}", f"m{i}"], [f"m{i + 1}"]) for i in range(40)]
    nodes += [helper.make_node("Slice", ["m40", "zero", "two"], ["s"]), helper.make_node("Relu", ["x"], ["y"])]
    constants = {"size": np.array([4000, 4000]), "zero": np.array([0, 0]), "two": np.array([2, 3])}
    path = saved(tmp_path, nodes, {"x": X}, [("y", (2, 3))], constants, opset=18)
    assert convert_onnx(path, tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("op", "attributes", "message"),
    [
        ("Softmax", {"axis": 9}, "axis must be from -2 to 1 for an input of 2 axes, got 9"),
        ("Gelu", {"approximate": "none') or print('"}, "approximate must be 'none' or 'tanh', got"),
        ("Transpose", {"perm": [0, 5]}, "Transpose"),
    ],
)
def test_wrong_attributes(op, attributes, message, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    path = saved(tmp_path, [helper.make_node(op, ["x"], ["y"], **attributes)], {"x": X}, [("y", (2, 3))], opset=20)
    with pytest.raises(ValueError, match=rf"^convert_onnx: .*model\.onnx: .*{message}"):
        convert_onnx(path, tmp_path / "out")
    assert not os.listdir()


def external(location, where):
    tensor = TensorProto(name="w", data_type=1, dims=[2, 3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "24")):
        tensor.external_data.add(key=key, value=value)
    x, y = (helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy")
    add = helper.make_node("Add", ["x", "w"], ["y"])
    if where == "initializer":
        graph = helper.make_graph([add], "g", [x], [y], [tensor])
    elif where == "constant":
        graph = helper.make_graph([helper.make_node("Constant", [], ["w"], value=tensor), add], "g", [x], [y])
    else:
        kept = [helper.make_tensor_value_info("o", 1, [2, 3])]
        if where == "branch":
            branch = helper.make_graph([helper.make_node("Identity", ["w"], ["o"])], "b", [], kept, [tensor])
        else:
            branch = helper.make_graph([helper.make_node("Constant", [], ["o"], value=tensor)], "b", [], kept)
        nodes = [helper.make_node("If", ["yes"], ["w2"], then_branch=branch, else_branch=branch)]
        nodes.append(helper.make_node("Add", ["x", "w2"], ["y"]))
        graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(np.array(True), "yes")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_results_without_elements(tmp_path):
    """They end the process when MindSpore runs such a network."""
    constants = {"two": np.array([2]), "one": np.array([1])}
    nodes = [helper.make_node("Slice", ["x", "two", "one", "one"], ["y"], "empty")]
    path = saved(tmp_path, nodes, {"x": X}, [("y", (2, 0))], constants)
    with pytest.raises(ValueError, match=r"Slice \(empty\): its result has no elements"):
        convert_onnx(path, tmp_path / "out")


@pytest.mark.parametrize("where", ["initializer", "constant", "branch", "constant of a branch"])
def test_tensors_beside_the_file_lie_in_its_folder(where, tmp_path, monkeypatch):
    """Not in the current one, and not outside."""
    for folder in ("files", "here"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for number, folder in enumerate((tmp_path, tmp_path / "files", tmp_path / "here")):
        (folder / "w.bin").write_bytes(np.full(6, 100 * number, np.float32).tobytes())
    path = tmp_path / "files" / "m.onnx"
    path.write_bytes(external("w.bin", where).SerializeToString())
    np.testing.assert_array_equal(load(convert_onnx(path, tmp_path / "out"))(X).asnumpy(), X + 100)
    (tmp_path / "files" / "w.bin").unlink()
    for location in ("w.bin", "../w.bin", str(tmp_path / "w.bin"), "a/../../w.bin"):
        path.write_bytes(external(location, where).SerializeToString())
        with pytest.raises(ValueError, match="no ONNX file, or a damaged one"):
            read_model(path, "optimize")
