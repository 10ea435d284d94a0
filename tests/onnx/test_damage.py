"""Damaged ONNX files give a clear error or are optimized; they never end the process, and nothing else is raised."""

from functools import partial

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from ms_ascend_ops.onnx import DOMAIN, optimize
from tests.export.mutations import mutate_bytes, mutate_model
from tests.onnx.models import model
from tests.onnx.test_optimize import CONSTANTS, node, rms_norm

SEEDS = st.integers(0, 2**32)


def network():
    """Something of everything: a formula, attention, operators that are fused already, and one of this package."""
    x = ("float32", ["n", 3, 16])
    nodes = [
        *rms_norm("x", "n"),
        node("Reshape", ["n", "heads"], "q"),
        node("Transpose", ["q"], "t", perm=[0, 2, 1, 3]),
        node("Transpose", ["q"], "k", perm=[0, 2, 3, 1]),
        node("MatMul", ["t", "k"], "s"),
        node("Softmax", ["s"], "w", axis=-1),
        node("MatMul", ["w", "t"], "a"),
        node("Transpose", ["a"], "b", perm=[0, 2, 1, 3]),
        node("Reshape", ["b", "flat"], "c"),
        helper.make_node(
            "SkipSimplifiedLayerNormalization", ["x", "c", "gamma"], ["d"], "skip", domain="com.microsoft"
        ),
        helper.make_node("rms_norm", ["d", "gamma"], ["e"], "norm", domain=DOMAIN, epsilon=1e-5),
        helper.make_node("Split", ["e"], ["f", "g"], "split", axis=-1, num_outputs=2),
        node("Sigmoid", ["f"], "h"),
        node("Mul", ["f", "h"], "i"),
        node("Mul", ["i", "g"], "y"),
    ]
    constants = {**CONSTANTS, "heads": np.array([0, 0, 2, 8]), "flat": np.array([0, 0, 16])}
    return model(nodes, {"x": x}, {"y": ("float32", ["n", 3, 8])}, constants)


@pytest.mark.parametrize("files", [250, pytest.param(1000, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("mutate", [mutate_bytes, partial(mutate_model, kind=onnx.ModelProto)], ids=["bytes", "fields"])
def test_optimize(mutate, files, tmp_path):
    """2,000 files in all, thoroughly; each is parsed and searched, which is what takes the time."""
    content = network().SerializeToString()
    path, output = tmp_path / "model.onnx", tmp_path / "fused.onnx"
    path.write_bytes(content)
    assert len(optimize(path, output, level="O3", verify=False).replaced) == 4
    outcomes = set()

    @settings(max_examples=files, deadline=None)
    @given(SEEDS)
    def check(seed):
        path.write_bytes(mutate(content, seed))
        refusal = ""
        try:
            optimize(path, output, level="O3", verify=False)
        except ValueError as error:
            refusal = str(error)
        assert not refusal or refusal.startswith("optimize: ")
        outcomes.add(bool(refusal))

    check()
    assert outcomes == {True, False}


def test_a_tensor_that_claims_to_be_larger(tmp_path):
    made = network()
    tensor = next(t for t in made.graph.initializer if t.name == "gamma")
    tensor.dims[0] = 1 << 40
    onnx.save_model(made, tmp_path / "model.onnx")
    with pytest.raises(ValueError, match="optimize: "):
        optimize(tmp_path / "model.onnx", tmp_path / "fused.onnx", verify=False)
