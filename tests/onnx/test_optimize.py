"""optimize: what it finds in ONNX files, what it leaves, files, and that the outputs are proven equal."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper, numpy_helper

from ms_ascend_ops.__main__ import main
from ms_ascend_ops.onnx import DOMAIN, optimize
from ms_ascend_ops.onnx.runtime import run, session
from tests.acceptance import assert_close
from tests.onnx.models import model

EPSILON = np.array(1e-6, np.float32)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], f"{op.lower()}_{output}", **attributes)


def rms_norm(x, y, gamma="gamma"):
    return [
        node("Pow", [x, "two"], f"{y}1"),
        node("ReduceMean", [f"{y}1", "last"], f"{y}2"),
        node("Add", [f"{y}2", "epsilon"], f"{y}3"),
        node("Sqrt", [f"{y}3"], f"{y}4"),
        node("Reciprocal", [f"{y}4"], f"{y}5"),
        node("Mul", [x, f"{y}5"], f"{y}6"),
        node("Mul", [gamma, f"{y}6"], y),
    ]


CONSTANTS = {
    "two": np.array(2, np.float32),
    "last": np.array([-1]),
    "epsilon": EPSILON,
    "gamma": np.linspace(0.5, 2, 16).astype(np.float32),
    "one": np.array(1, np.float32),
}


def block():
    """x + down(silu(gate(norm(x))) * up(norm(x))), and what it is in float64."""
    rng = np.random.default_rng(0)
    weights = {
        n: rng.standard_normal(s).astype(np.float32) for n, s in (("wg", (16, 24)), ("wu", (16, 24)), ("wd", (24, 16)))
    }
    nodes = [
        *rms_norm("x", "n"),
        node("MatMul", ["n", "wg"], "g"),
        node("Sigmoid", ["g"], "s"),
        node("Mul", ["g", "s"], "a"),
        node("MatMul", ["n", "wu"], "u"),
        node("Mul", ["a", "u"], "p"),
        node("MatMul", ["p", "wd"], "d"),
        node("Add", ["x", "d"], "y"),
    ]
    made = model(
        nodes, {"x": ("float32", ["b", "s", 16])}, {"y": ("float32", ["b", "s", 16])}, {**CONSTANTS, **weights}
    )

    def golden(x):
        x = x.astype(np.float64)
        n = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * CONSTANTS["gamma"]
        g, u = n @ weights["wg"], n @ weights["wu"]
        return x + (g / (1 + np.exp(-g)) * u) @ weights["wd"]

    return made, golden


@pytest.fixture
def file(tmp_path):
    def save(made, name="model.onnx", **options):
        onnx.save_model(made, tmp_path / name, **options)
        return tmp_path / name

    return save


def operators(path):
    made = onnx.load(path, load_external_data=False)
    return sorted(n.op_type for n in made.graph.node if n.domain == DOMAIN)


def replaced(report):
    return sorted(entry.pattern for entry in report.replaced)


def test_a_block(file, tmp_path):
    made, golden = block()
    report = optimize(file(made), tmp_path / "fused.onnx")
    assert replaced(report) == ["RMSNorm", "SwiGLU"]
    assert report.outputs.relative < 1e-5
    assert not report.rolled_back
    fused = onnx.load(tmp_path / "fused.onnx")
    assert [n.op_type for n in fused.graph.node] == ["rms_norm", "MatMul", "MatMul", "silu_mul", "MatMul", "Add"]
    onnx.checker.check_model(fused, full_check=True)
    # Nothing that is not needed stays, and every value has its shape.
    assert {t.name for t in fused.graph.initializer} == {"gamma", "wg", "wu", "wd"}
    shapes = {
        v.name: [d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim] for v in fused.graph.value_info
    }
    assert shapes["p"] == ["b", "s", 24]
    x = np.random.default_rng(1).standard_normal((3, 5, 16)).astype(np.float32)
    assert_close(run(session(tmp_path / "fused.onnx"), {"x": x})[0], golden(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ir_version", [10, 3])
def test_constants_that_are_nodes(file, tmp_path, ir_version):
    made, _ = block()
    kinds = {"two": {"value_float": 2.0}, "last": {"value_ints": [-1]}}
    given = {t.name: kinds.get(t.name, {"value": t}) for t in made.graph.initializer}
    nodes = [node("Constant", [], name, **attribute) for name, attribute in given.items()] + list(made.graph.node)
    del made.graph.initializer[:], made.graph.node[:]
    made.graph.node.extend(nodes)
    made.graph.output.append(helper.make_tensor_value_info("wu", onnx.TensorProto.FLOAT, (16, 24)))  # one is a result
    made.ir_version = ir_version
    report = optimize(file(made), tmp_path / "fused.onnx")
    assert replaced(report) == ["RMSNorm", "SwiGLU"]
    assert report.outputs.relative < 1e-5


def test_levels(file, tmp_path):
    like = ("float32", ["n", 16])
    nodes = [node("Add", ["x", "r"], "t"), *rms_norm("t", "y")]
    path = file(model(nodes, dict.fromkeys(("x", "r"), like), {"y": like}, CONSTANTS))
    assert operators_at(path, tmp_path, "O0") == []
    assert operators_at(path, tmp_path, "O1") == ["rms_norm"]
    assert operators_at(path, tmp_path, "O3") == ["add_rms_norm"]


def operators_at(path, folder, level):
    optimize(path, folder / f"{level}.onnx", level=level)
    return operators(folder / f"{level}.onnx")


def test_half_precision_that_rounds_elsewhere_is_of_level_two(file, tmp_path):
    constants = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in CONSTANTS.items()}
    like = ("float16", [4, 16])
    made = model(rms_norm("x", "y"), {"x": like}, {"y": like}, constants | {"epsilon": np.array(1e-3, np.float16)})
    report = optimize(file(made), tmp_path / "one.onnx", level="O1")
    assert replaced(report) == []
    assert "level O2 would replace it" in str(report)
    assert operators_at(file(made), tmp_path, "O2") == ["rms_norm"]


def test_a_result_that_is_needed_elsewhere(file, tmp_path):
    like = ("float32", [4, 16])
    made = model(rms_norm("x", "y"), {"x": like}, {"y": like, "y6": like}, CONSTANTS)
    report = optimize(file(made), tmp_path / "fused.onnx")
    assert replaced(report) == []
    assert "an intermediate result of it is used elsewhere, too" in " ".join(str(report).split())


def test_a_result_that_a_subgraph_needs(file, tmp_path):
    """The branches of an If see the values outside."""
    branch = [
        helper.make_graph([node(op, ["y6"], op)], op, [], [helper.make_tensor_value_info(op, 1, [4, 16])])
        for op in ("Neg", "Exp")
    ]
    choose = node("If", ["c"], "z", then_branch=branch[0], else_branch=branch[1])
    inputs = {"x": ("float32", [4, 16])}
    made = model([*rms_norm("x", "y"), choose], inputs, {"y": ("float32", [4, 16]), "z": ("float32", [4, 16])},
                 {**CONSTANTS, "c": np.array(True)})  # fmt: skip
    report = optimize(file(made), tmp_path / "fused.onnx")
    assert replaced(report) == []
    assert report.skipped


ATTENTION_INPUTS = {n: ("float32", ["b", h, "s", 8]) for n, h in (("q", 4), ("k", 4), ("v", 4))}


@pytest.mark.parametrize("mask", ["", "numbers", "bools"])
def test_attention(mask, file, tmp_path):
    inputs = dict(ATTENTION_INPUTS)
    nodes = [node("Transpose", ["k"], "kt", perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], "p"),
             node("Mul", ["p", "scale"], "t")]  # fmt: skip
    constants = {"scale": np.array(0.3, np.float32), "low": np.array(-np.inf, np.float32)}
    if mask == "numbers":
        inputs["bias"] = ("float32", ["s", "s"])
        nodes.append(node("Add", ["t", "bias"], "m"))
    elif mask == "bools":
        constants["seen"] = np.tril(np.ones((1, 1, 3, 3), bool))
        inputs = {n: ("float32", [2, s[1], 3, 8]) for n, (_, s) in inputs.items()}
        nodes.append(node("Where", ["seen", "t", "low"], "m"))
    nodes += [node("Softmax", ["m" if mask else "t"], "w", axis=-1), node("MatMul", ["w", "v"], "y")]
    path = file(model(nodes, inputs, {"y": inputs["v"]}, constants))
    report = optimize(path, tmp_path / "fused.onnx")
    assert replaced(report) == ["attention"], report
    assert report.outputs.relative < 1e-5
    rng = np.random.default_rng(0)
    given = {n: rng.standard_normal((2, 4, 3, 8)).astype(np.float32) for n in "qkv"}
    if mask == "numbers":
        given["bias"] = rng.standard_normal((3, 3)).astype(np.float32)
    scores = given["q"].astype(np.float64) @ given["k"].astype(np.float64).swapaxes(-1, -2) * np.float32(0.3)
    if mask:
        scores += given["bias"] if mask == "numbers" else np.where(constants["seen"], 0, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    golden = weights / weights.sum(-1, keepdims=True) @ given["v"]
    assert_close(run(session(tmp_path / "fused.onnx"), given)[0], golden, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mask", "causal", "inputs"),
    [
        (np.zeros((1, 1, 3, 3), np.float32), 0, 3),
        (np.where(np.tri(3, dtype=bool), 0, np.finfo(np.float32).min).astype(np.float32)[None], 1, 3),
        (np.tri(3, dtype=bool), 1, 3),
        (np.where(np.tri(3, 3, -1, bool), np.finfo(np.float32).min, 0).astype(np.float32)[None], 0, 4),
    ],
    ids=["nothing", "causal", "computed", "other"],
)
def test_a_mask_that_is_known(mask, causal, inputs, file, tmp_path):
    constants = {"mask": mask}
    before = []
    if mask.dtype == bool:  # as transformers makes it of what is seen, which the exporter leaves in the file
        constants = {"seen": mask, "any": np.array(True), "zero": np.float32(0), "low": np.finfo(np.float32).min}
        constants = {name: np.asarray(value) for name, value in constants.items()}
        before = [node("And", ["any", "seen"], "both"), node("Where", ["both", "zero", "low"], "mask")]
    like = ("float32", [2, 4, 3, 8])
    nodes = [
        *before,
        node("Transpose", ["k"], "kt", perm=[0, 1, 3, 2]),
        node("MatMul", ["q", "kt"], "p"),
        node("Add", ["p", "mask"], "m"),
        node("Softmax", ["m"], "w", axis=-1),
        node("MatMul", ["w", "v"], "y"),
    ]
    path = file(model(nodes, dict.fromkeys("qkv", like), {"y": like}, constants))
    assert optimize(path, tmp_path / "fused.onnx").outputs.relative < 1e-5
    (fused,) = (n for n in onnx.load(tmp_path / "fused.onnx").graph.node if n.op_type == "flash_attention")
    assert len(fused.input) == inputs
    assert {a.name: a.i for a in fused.attribute}["causal"] == causal


@pytest.mark.parametrize(
    ("ends", "pattern"),
    [
        ([node("Sigmoid", ["a"], "s"), node("Mul", ["a", "s"], "y")], "GroupNorm + SiLU"),
        ([node("Relu", ["a"], "r"), node("Add", ["r", "r"], "y")], "GroupNorm + ReLU"),
        ([node("Relu", ["a"], "r"), node("Add", ["r", "a"], "y")], "GroupNorm"),  # two readers
    ],
    ids=["silu", "relu", "normed"],
)
def test_a_group_norm_as_exporters_write_it(file, tmp_path, ends, pattern):
    rng = np.random.default_rng(0)
    gamma, beta = (rng.standard_normal((8, 1, 1)).astype(np.float32) for _ in range(2))
    nodes = [
        node("Reshape", ["x", "groups"], "g"),
        node("InstanceNormalization", ["g", "ones", "zeros"], "i", epsilon=1e-5),
        node("Reshape", ["i", "whole"], "n"),
        node("Mul", ["n", "gamma"], "m"),
        node("Add", ["m", "beta"], "a"),
        *ends,
    ]
    constants = {"groups": np.array([0, 4, -1]), "whole": np.array([2, 8, 5, 3]), "ones": np.ones(4, np.float32),
                 "zeros": np.zeros(4, np.float32), "gamma": gamma, "beta": beta}  # fmt: skip
    made = model(nodes, {"x": ("float32", [2, 8, 5, 3])}, {"y": ("float32", [2, 8, 5, 3])}, constants)
    report = optimize(file(made), tmp_path / "fused.onnx")
    assert replaced(report) == [pattern]
    x = rng.standard_normal((2, 8, 5, 3))
    g = x.astype(np.float32).astype(np.float64).reshape(2, 4, -1)
    n = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(x.shape) * gamma + beta
    (y,) = run(session(tmp_path / "fused.onnx"), {"x": x.astype(np.float32)})
    positive = np.maximum(n, 0)
    expected = {"GroupNorm + SiLU": n / (1 + np.exp(-n)), "GroupNorm + ReLU": 2 * positive, "GroupNorm": positive + n}
    assert_close(y, expected[pattern], rtol=1e-4, atol=1e-5)


def test_tensors_beside_the_file(file, tmp_path):
    made, _ = block()
    (tmp_path / "out").mkdir()
    path = file(made, save_as_external_data=True, location="weights.bin", size_threshold=100)
    report = optimize(path, tmp_path / "out" / "fused.onnx")
    assert replaced(report) == ["RMSNorm", "SwiGLU"]
    data = tmp_path / "out" / "fused.onnx.data"
    before = data.read_bytes()
    assert len(before) >= 4 * 16 * 24 * 3
    optimize(path, tmp_path / "out" / "fused.onnx", atc=True)
    assert data.read_bytes() == before
    assert report.outputs.relative < 1e-5


def test_a_missing_file_beside_it(file, tmp_path):
    made, _ = block()
    path = file(made, save_as_external_data=True, location="weights.bin", size_threshold=100)
    (tmp_path / "weights.bin").unlink()
    with pytest.raises(ValueError, match="is no ONNX file, or a damaged one"):
        optimize(path, tmp_path / "fused.onnx")


def test_a_file_for_atc_names_the_domain_of_every_node(file, tmp_path):
    made, golden = block()
    target = tmp_path / "atc.onnx"
    # In the branches of an If, too.
    branches = [
        helper.make_graph([node(op, ["y"], op)], op, [], [helper.make_tensor_value_info(op, 1, None)])
        for op in ("Relu", "Neg")
    ]
    made.graph.node.append(node("If", ["c"], "r", then_branch=branches[0], else_branch=branches[1]))
    made.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    made.graph.output[0].name = "r"
    optimize(file(made), target, atc=True, verify=True)
    fused = onnx.load(target)
    assert {opset.domain for opset in fused.opset_import} == {"ai.onnx", DOMAIN}
    (branch,) = (n for n in fused.graph.node if n.op_type == "If")
    nodes = [*fused.graph.node, *(n for a in branch.attribute for n in a.g.node)]
    assert len(nodes) == len(fused.graph.node) + 2
    assert {n.domain for n in nodes} == {"ai.onnx", DOMAIN}
    # With ONNX's own name for it, it is the file without `atc`.
    for anonymous in [*fused.opset_import, *nodes]:
        anonymous.domain = anonymous.domain.removeprefix("ai.onnx")
    onnx.save(fused, target)
    x = np.random.default_rng(1).standard_normal((2, 3, 16)).astype(np.float32)
    assert_close(run(session(target), {"x": x})[0], np.maximum(golden(x), 0), rtol=1e-5, atol=1e-5)


def test_outputs_that_differ_are_not_kept(file, tmp_path, monkeypatch):
    made, _ = block()
    monkeypatch.setattr("ms_ascend_ops.onnx.runtime._TOLERANCE", -1.0)
    report = optimize(file(made), tmp_path / "fused.onnx")
    assert report.rolled_back.startswith("the outputs differ by")
    assert not (tmp_path / "fused.onnx").exists()


def test_without_onnxruntime(file, tmp_path, monkeypatch):
    made, _ = block()
    monkeypatch.setattr("ms_ascend_ops.onnx.runtime.is_installed", lambda: False)
    assert optimize(file(made), tmp_path / "fused.onnx").outputs is None
    with pytest.raises(RuntimeError, match=r"pip install 'ms_ascend_ops\[onnx\]'"):
        optimize(file(made), tmp_path / "fused.onnx", verify=True)


def test_without_onnx():
    """The package itself needs neither."""
    code = "import sys; sys.modules['onnx'] = sys.modules['onnxruntime'] = None; "
    code += "import ms_ascend_ops, ms_ascend_ops.export; print('there'); import ms_ascend_ops.onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "there\n"
    assert "ms_ascend_ops.onnx: the package onnx is missing; pip install 'ms_ascend_ops[onnx]'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"level": "O9"}, ValueError, "level must be one of O0, O1, O2, O3, got 'O9'"),
        ({"source": "none.onnx"}, FileNotFoundError, "there is no file none.onnx"),
        ({"output": "model.onnx"}, ValueError, "output must be another file than source"),
        ({"output": "no/fused.onnx"}, ValueError, "output must be in a folder that exists"),
    ],
)
def test_wrong_arguments(arguments, error, message, file, tmp_path, monkeypatch):
    file(block()[0])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=message):
        optimize(**{"source": "model.onnx", "output": "fused.onnx", **arguments})


def test_the_command(file, tmp_path):
    path = file(block()[0])
    result = CliRunner().invoke(main, ["optimize", str(path), "--report", str(tmp_path / "report.html")])
    assert result.exit_code == 0, result.output
    assert "2 places replaced, 0 left" in result.output
    assert operators(tmp_path / "model.fused.onnx") == ["rms_norm", "silu_mul"]
    assert "RMSNorm" in (tmp_path / "report.html").read_text()
