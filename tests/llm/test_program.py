"""Operators as a network calls them: recorded, and at once on arrays; and where a layer is described."""

import ast
from pathlib import Path

import numpy as np
import pytest

from ms_ascend_ops.llm import layer
from ms_ascend_ops.llm.program import Eager, Recorder

LLM = Path(layer.__file__).parent
DESCRIBED_BY = {"rms_norm", "add_rms_norm", "qkv_rotary_embedding", "rotary_embedding", "paged_attention"}


def test_recorded_and_at_once():
    """Any operator of the registry, with its attributes by place or by name."""
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    gamma = np.full(4, 2, np.float32)

    def calculate(ops):
        y = ops.geglu(x, -1, True, approximate="tanh")
        return ops.rms_norm(y, gamma, epsilon=1e-3)[0], ops.softmax(y)

    recorder = Recorder()
    program = recorder.program(calculate(recorder))
    program.run()
    gate, up = np.split(x.astype(np.float64), 2, axis=-1)
    y = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3))) * up
    expected = y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-3) * 2, np.exp(y) / np.exp(y).sum(-1, keepdims=True)
    for calculated, right in zip(program.outputs, expected, strict=True):
        np.testing.assert_allclose(calculated, right, rtol=1e-5, atol=1e-6)
    for recorded, direct in zip(program.outputs, calculate(Eager()), strict=True):
        np.testing.assert_array_equal(recorded, direct)


def test_what_is_written_comes_back():
    cache = np.zeros((1, 4, 1, 2), np.float32)
    news = np.ones((1, 1, 1, 2), np.float32)
    slots = np.array([[2]], np.int32)
    keys, values = Eager().kv_cache_update(news, 2 * news, cache, cache.copy(), slots)
    assert keys is cache
    assert keys[0, :, 0, 0].tolist() == [0, 0, 1, 0]
    assert values[0, :, 0, 0].tolist() == [0, 0, 2, 0]


def test_calls_that_do_not_fit():
    recorder, x = Recorder(), np.zeros((2, 4), np.float32)
    with pytest.raises(AttributeError, match="no operator gelu_of_nothing"):
        _ = recorder.gelu_of_nothing
    with pytest.raises(TypeError, match="softmax takes x"):
        recorder.softmax(x, 1, 2, 3, 4, 5)
    with pytest.raises(TypeError, match="rms_norm takes x, gamma, epsilon, "):
        recorder.rms_norm(x, x[0], 1e-5, epsilon=1e-5)
    with pytest.raises(TypeError, match="swiglu takes x"):
        recorder.swiglu(x, shape=3)


def test_the_layer_is_described_once():
    """Nothing beside the description calls what a layer is made of."""
    callers = {}
    for path in sorted(LLM.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in DESCRIBED_BY:
                callers.setdefault(path.relative_to(LLM).as_posix(), set()).add(node.func.attr)
    assert callers.pop("layer.py") == DESCRIBED_BY
    assert not callers
