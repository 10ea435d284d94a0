import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import gelu_mul as reference
from tests.tensors import dtype_name, numpy, tensor

FORMS = ["none", "tanh"]


def weighted_sum(gate, up, dy, form):
    return (ops.gelu_mul(gate, up, form).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "form"), [*zip(FLOATS, ["none", "tanh", "none"], strict=True)])
def test_forward(mode, dtype, form):
    rng = np.random.default_rng(0)
    gate, up = tensor(draw(rng, (3, 65)), dtype), tensor(draw(rng, (3, 65)), dtype)
    y = run(mode, ops.gelu_mul, (gate, up), form)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(gate), numpy(up), form), dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("dtype", "form"), [*zip(FLOATS, ["tanh", "none", "none"], strict=True)])
def test_gradient(mode, dtype, form):
    rng = np.random.default_rng(1)
    gate, up, dy = (tensor(draw(rng, (3, 65)), dtype) for _ in range(3))
    outputs = run(mode, ms.grad(weighted_sum, (0, 1)), (gate, up, dy), form)
    exact = numpy(dy), numpy(gate), numpy(up), form
    expected = zip(outputs, reference.backward(*exact), reference.backward_terms(*exact), strict=True)
    for actual, golden, terms in expected:
        assert dtype_name(actual) == dtype
        assert_accurate(numpy(actual), golden, dtype, terms)


def test_bad_input():
    gate, up = Tensor(np.ones((2, 3), np.float32)), Tensor(np.ones((2, 4), np.float32))
    with pytest.raises(ValueError, match=r"^gelu_mul: up.shape must equal gate.shape \(2, 3\), got \(2, 4\)"):
        run("pynative", ops.gelu_mul, (gate, up))
    with pytest.raises(ValueError, match=r"^gelu_mul: approximate must be 'none' or 'tanh', got ''"):
        run("pynative", ops.gelu_mul, (gate, gate), "")
