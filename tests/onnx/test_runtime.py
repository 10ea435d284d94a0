"""Every operator in ONNX Runtime: the same bits as the kernel, errors, threads, memory."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from ms_ascend_ops.onnx import DOMAIN, library_path
from ms_ascend_ops.onnx.runtime import run
from tests.acceptance import assert_close
from tests.dtypes import FLOATS
from tests.onnx.models import Example, every_operator, model, same_bits


def start(made):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return session_of(made, options)


def session_of(made, options):
    options.register_custom_ops_library(library_path())
    return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])


def given(example, dtype, shape=0):
    return {name: array for name, array in example.inputs(dtype, shape).items() if array is not None}


@every_operator
def test_same_bits(example):
    for dtype in FLOATS:
        made = start(example.model(dtype))
        for shape in (0, 1, 0):  # the third finds what the first has left
            assert same_bits(run(made, given(example, dtype, shape)), example.expected(dtype, shape)), dtype


def test_outputs_that_nobody_wants():
    made = Example("add_layer_norm").model("float32")
    keep = [made.graph.output[0], made.graph.output[3]]
    made.graph.node[0].output[1] = made.graph.node[0].output[2] = ""
    del made.graph.output[:]
    made.graph.output.extend(keep)
    example = Example("add_layer_norm")
    y, _, _, total = example.expected("float32")
    assert same_bits(run(start(made), given(example, "float32")), [y, total])


def test_an_absent_input_before_a_given_one():
    """weight_quant_matmul with a bias and without an offset."""
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((3, 64)).astype(np.float32), rng.integers(-8, 8, (5, 64)).astype(np.int8)
    scale, bias = rng.random((5, 1)).astype(np.float32), rng.standard_normal(5).astype(np.float32)
    inputs = {"x": x, "weight": weight, "scale": scale, "bias": bias}
    node = helper.make_node("weight_quant_matmul", ["x", "weight", "scale", "", "bias"], ["y"], domain=DOMAIN)
    infos = {name: (array.dtype.name, array.shape) for name, array in inputs.items()}
    (y,) = run(start(model([node], infos, {"y": ("float32", (3, 5))})), inputs)
    golden = x.astype(np.float64) @ (weight * scale.astype(np.float64)).T + bias
    assert_close(y, golden, rtol=1e-5, atol=1e-5)


def test_defaults_of_attributes():
    node = helper.make_node("rms_norm", ["x", "gamma"], ["y"], domain=DOMAIN)
    made = model([node], {"x": ("float32", [2, 8]), "gamma": ("float32", [8])}, {"y": ("float32", [2, 8])})
    x, gamma = np.full((2, 8), 3.0, np.float32), np.full(8, 2.0, np.float32)
    np.testing.assert_allclose(run(start(made), {"x": x, "gamma": gamma})[0], 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"epsilon": -1.0}, "rms_norm: epsilon must be > 0"),
        ({"epsilon": 1}, "rms_norm: epsilon must be a float, got an int"),
        ({"scheme": "gpt"}, "rms_norm: scheme must be 'round_then_scale' or 'one_plus_gamma', got 'gpt'"),
        ({"scheme": 1.0}, "rms_norm: scheme must be a string, got a float"),
    ],
)
def test_wrong_attributes(attributes, message):
    node = helper.make_node("rms_norm", ["x", "gamma"], ["y"], domain=DOMAIN, **attributes)
    inputs = {"x": ("float32", [2, 8]), "gamma": ("float32", [8])}
    made = model([node], inputs, {"y": ("float32", [2, 8])}, check=False)
    with pytest.raises(Exception, match=message):
        start(made)


def test_wrong_shapes():
    node = helper.make_node("rms_norm", ["x", "gamma"], ["y"], domain=DOMAIN)
    made = start(model([node], {"x": ("float32", None), "gamma": ("float32", None)}, {"y": ("float32", None)}))
    with pytest.raises(Exception, match=r"rms_norm: gamma.shape\[0\] must equal x.shape\[-1\] \(8\), got \(7,\)"):
        run(made, {"x": np.ones((2, 8), np.float32), "gamma": np.ones(7, np.float32)})
    assert run(made, {"x": np.ones((2, 8), np.float32), "gamma": np.ones(8, np.float32)})[0].shape == (2, 8)


def test_a_wrong_dtype():
    node = helper.make_node("gelu", ["x"], ["y"], domain=DOMAIN)
    made = model(
        [helper.make_node("Cast", ["a"], ["x"], to=11), node], {"a": ("float32", [3])}, {"y": ("float32", [3])}
    )
    with pytest.raises(Exception, match="double"):
        start(made)


def test_a_cache_that_somebody_else_reads_stays():
    example = Example("kv_cache_update")
    inputs = given(example, "float32")
    before = {name: array.copy() for name, array in inputs.items()}
    assert same_bits(run(start(example.model("float32")), inputs), example.expected("float32"))
    for name, array in inputs.items():
        np.testing.assert_array_equal(array, before[name])


def test_a_cache_that_nobody_else_reads_is_written_in_place():
    """Behind a node that makes it, ONNX Runtime gives the operator's output the same memory."""
    example = Example("kv_cache_update")
    made = example.model("float32", open_dims=False)
    inputs = given(example, "float32")
    node = made.graph.node[0]
    for i, name in ((2, "key_cache"), (3, "value_cache")):
        node.input[i] = f"{name}_made"
    made.graph.node.insert(0, helper.make_node("Neg", ["value_cache"], ["value_cache_made"]))
    made.graph.node.insert(0, helper.make_node("Neg", ["key_cache"], ["key_cache_made"]))
    inputs |= {name: -inputs[name] for name in ("key_cache", "value_cache")}
    assert same_bits(run(start(made), inputs), example.expected("float32"))


def test_threads():
    example = Example("flash_attention")
    made, shapes = start(example.model("float32")), (0, 1)
    inputs = [given(example, "float32", shape) for shape in shapes]
    expected = [example.expected("float32", shape) for shape in shapes]
    wrong = []

    def work(first):
        for i in range(40):
            which = (first + i) % 2
            if not same_bits(made.run(None, inputs[which]), expected[which]):
                wrong.append(which)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_kernels_run_on_the_threads_of_the_session():
    """Those whose cores wait for each other (softmax of one long row) get threads of the library."""
    code = """if True:
        import os, sys
        import numpy as np, onnxruntime
        from ms_ascend_ops import set_num_threads
        from ms_ascend_ops.library import native
        from tests.onnx.models import DOMAIN, helper, model
        from tests.onnx.test_runtime import session_of
        set_num_threads(3)
        x = np.random.default_rng(0).standard_normal((64, 1 << 14)).astype(np.float32)
        found = []
        for name, array in (("gelu", x), ("softmax", x.reshape(1, -1))):
            made = model([helper.make_node(name, ["x"], ["y"], domain=DOMAIN)],
                         {"x": ("float32", array.shape)}, {"y": ("float32", array.shape)})
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 3
            session = session_of(made, options)
            before = len(os.listdir("/proc/self/task"))
            for _ in range(3):
                results = session.run(None, {"x": array})
            found.append((name, array, results[0]))
            print(len(os.listdir("/proc/self/task")) - before)
        for name, array, result in found:
            expected = np.zeros_like(array)
            native().launch(name, [array], [expected], {})
            print(result.tobytes() == expected.tobytes())
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["0", "2", "True", "True"], done


def test_two_sessions_share_the_library():
    example = Example("gelu")
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library_path())
    content = example.model("float16").SerializeToString()
    sessions = [onnxruntime.InferenceSession(content, options) for _ in range(2)] + [start(example.model("float16"))]
    for made in sessions:
        assert same_bits(run(made, given(example, "float16")), example.expected("float16"))


def test_an_empty_tensor():
    made = start(Example("silu_mul").model("float32", typed=False))
    empty = np.zeros((0, 8), np.float32)
    assert run(made, dict.fromkeys(("gate", "up"), empty))[0].shape == (0, 8)
