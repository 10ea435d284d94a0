"""Who computes an operator: the policy for CANN's counterparts. What an NPU has of it is in tests/device/."""

import inspect
from importlib import import_module

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import ascend, custom, ops, registry
from tests.acceptance import assert_close
from tests.reference import rms_norm as reference
from tests.tensors import numpy, tensor


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    return tensor(rng.normal(size=(3, 8)), "float16"), tensor(rng.normal(size=8), "float32")


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
    with pytest.raises(ValueError, match="CANN has no counterpart of silu_mul"):
        ascend.prefer("cann", "silu_mul")


@pytest.mark.parametrize("name", [name for name in registry.names() if registry.op_spec(name).counterpart])
def test_the_counterparts_exist_in_mindspore(name):
    spec = registry.op_spec(name)
    module, _, function = spec.counterpart.function.rpartition(".")
    signature = inspect.signature(getattr(import_module(module), function))
    signature.bind(*spec.forward.inputs, *spec.counterpart.arguments)


def test_applied_functions_work_in_graphs(operands):
    """What a graph holds instead of a primitive, when there are constants: also under grad."""
    x, gamma = tensor(numpy(operands[0]), "float32"), operands[1]
    applied = custom._Applied(ops.rms_norm, (1e-3, "round_then_scale"))

    def loss(x, gamma):
        return applied(x, gamma)[0].sum()

    dx = ms.jit(ms.grad(loss))(x, gamma)
    golden, _ = reference.backward(np.ones((3, 8)), np.zeros((3, 1)), numpy(x), numpy(gamma), 1e-3)
    assert_close(numpy(dx), golden, rtol=1e-4, atol=1e-5)
