import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, Caller, graph_mode, run
from tests.reference import layer_norm as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
def test_it_is_layer_norm_of_the_sum(mode):
    rng = np.random.default_rng(0)
    x1, x2 = (tensor(draw(rng, (4, 65)), "float16") for _ in range(2))
    gamma, beta = (tensor(draw(rng, 65), "float16") for _ in range(2))
    outputs = run(mode, ops.add_layer_norm, (x1, x2, gamma, beta), 1e-4)
    expected = ops.layer_norm(x1 + x2, gamma, beta, 1e-4)
    for output, value in zip(outputs, (*expected, x1 + x2), strict=True):
        assert np.array_equal(numpy(output), numpy(value))


@pytest.mark.parametrize("mode", MODES)
def test_gradient_through_all_outputs(mode):
    rng = np.random.default_rng(1)
    x1, x2, dy, dx = (tensor(draw(rng, (3, 4, 65)), "float32") for _ in range(4))
    gamma, beta = (tensor(draw(rng, 65), "float32") for _ in range(2))
    dmean, drstd = (tensor(draw(rng, (3, 4, 1)), "float32") for _ in range(2))

    def total(x1, x2, gamma, beta, dy, dmean, drstd, dx):
        y, mean, rstd, x = ops.add_layer_norm(x1, x2, gamma, beta)
        return (y * dy).sum() + (mean * dmean).sum() + (rstd * drstd).sum() + (x * dx).sum()

    tensors = x1, x2, gamma, beta, dy, dmean, drstd, dx
    outputs = [numpy(output) for output in run(mode, ms.grad(total, (0, 1, 2, 3)), tensors)]
    exact = numpy(dy), numpy(dmean), numpy(drstd), numpy(x1 + x2), numpy(gamma)
    golden, terms = list(reference.backward(*exact)), list(reference.backward_terms(*exact))
    golden[0], terms[0] = golden[0] + numpy(dx), terms[0] + np.abs(numpy(dx))
    assert np.array_equal(outputs[0], outputs[1])
    for output, value, sums in zip(outputs[1:], golden, terms, strict=True):
        assert_accurate(output, value, "float32", sums)


def test_without_gamma_and_beta():
    x1, x2 = (tensor(draw(np.random.default_rng(seed), (4, 65)), "float32") for seed in range(2))
    for output, value in zip(ops.add_layer_norm(x1, x2)[:3], ops.layer_norm(x1 + x2), strict=True):
        assert np.array_equal(numpy(output), numpy(value))


def test_dynamic_shapes():
    with graph_mode():
        net = Caller(ops.add_layer_norm, 1e-5)
        unknown = [Tensor(shape=shape, dtype=ms.float32) for shape in ((None, None), (None, None), (8,), (8,))]
        net.set_inputs(*unknown)
        gamma = tensor(np.ones(8), "float32")
        for rows in (3, 2):
            x = tensor(draw(np.random.default_rng(rows), (rows, 8)), "float32")
            exact = numpy(x + x), np.ones(8), np.ones(8)
            assert_accurate(numpy(net(x, x, gamma, gamma)[0]), reference.forward(*exact)[0], "float32")


def test_bad_input():
    tensors = [Tensor(np.ones(shape, np.float32)) for shape in [(4, 8), (3, 8), (8,), (8,)]]
    with pytest.raises(ValueError, match=r"^add_layer_norm: x2.shape\[:-1\] must equal x1.shape\[:-1\] \(4,\)"):
        run("pynative", ops.add_layer_norm, tensors)
