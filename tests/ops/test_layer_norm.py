"""layer_norm and add_layer_norm with what may be absent, and over several axes; the rest is in test_values.py."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import Caller, graph_mode, last_compiled, run
from tests.reference import layer_norm as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize(
    ("mode", "with_gamma", "with_beta"), last_compiled([(False, False), (True, False), (False, True)])
)
def test_gamma_and_beta_may_be_absent(mode, with_gamma, with_beta):
    rng = np.random.default_rng(0)
    x, vector = tensor(draw(rng, (4, 33)), "float16"), tensor(draw(rng, 33), "float16")
    gamma, beta = vector if with_gamma else None, vector if with_beta else None
    y = run(mode, ops.layer_norm, (x,), gamma, beta)[0]
    exact = numpy(vector) if with_gamma else np.ones(33), numpy(vector) if with_beta else np.zeros(33)
    assert_accurate(numpy(y), reference.forward(numpy(x), *exact)[0], "float16")


def test_several_axes():
    rng = np.random.default_rng(1)
    x, dy = (tensor(draw(rng, (3, 4, 65)), "float32") for _ in range(2))
    gamma, beta = (tensor(draw(rng, (4, 65)), "float32") for _ in range(2))
    outputs = ops.layer_norm(x, gamma, beta)
    assert [output.shape for output in outputs] == [(3, 4, 65), (3, 1, 1), (3, 1, 1)]
    exact = numpy(x), numpy(gamma), numpy(beta)
    assert_accurate(numpy(outputs[0]), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))
    gradients = ms.grad(lambda *tensors: (ops.layer_norm(*tensors)[0] * dy).sum(), (0, 1, 2))(x, gamma, beta)
    state = np.zeros((3, 1, 1))
    backward = numpy(dy), state, state, *exact[:2]
    golden = zip(gradients, reference.backward(*backward), reference.backward_terms(*backward), strict=True)
    for gradient, value, terms in golden:
        assert_accurate(numpy(gradient), value, "float32", terms)


def test_several_axes_without_gamma():
    x = tensor(draw(np.random.default_rng(2), (3, 4, 65)), "float32")
    outputs = ops.layer_norm(x, axes=2)
    assert [output.shape for output in outputs] == [(3, 4, 65), (3, 1, 1), (3, 1, 1)]
    exact = numpy(x), np.ones((4, 65)), np.zeros((4, 65))
    assert_accurate(numpy(outputs[0]), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))


@pytest.mark.parametrize("axes", [0, -1, 4, True, 1.0])
def test_axes_that_x_does_not_have(axes):
    with pytest.raises(ValueError, match=f"axes must be a number of axes that x has, from 1 to 3, not {axes}"):
        ops.layer_norm(tensor(np.ones((3, 4, 5)), "float32"), axes=axes)


@pytest.mark.parametrize(
    ("x_shape", "gamma_shape"), [((None, None, 8), (8,)), (None, (8,)), ((None, None, 8), None)], ids=str
)
def test_ranks_that_tell_each_other(x_shape, gamma_shape):
    """How many axes are normalized follows from either input."""
    with graph_mode():
        net = Caller(ops.layer_norm, 1e-5)
        net.set_inputs(*[Tensor(shape=shape, dtype=ms.float32) for shape in (x_shape, gamma_shape, gamma_shape)])
        rng = np.random.default_rng(0)
        gamma, beta = (tensor(rng.normal(size=8), "float32") for _ in range(2))
        for shape in [(2, 3, 8), (1, 5, 8)]:
            x = tensor(rng.normal(size=shape), "float32")
            exact = numpy(x), numpy(gamma), numpy(beta)
            y, mean, rstd = net(x, gamma, beta)
            assert mean.shape == rstd.shape == (*shape[:2], 1)
            assert_accurate(numpy(y), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_of_a_sum_it_is_that_of_the_rounded_sum(dtype):
    """add_layer_norm, bit for bit, with gamma and beta and without."""
    rng = np.random.default_rng(0)
    x1, x2 = (tensor(draw(rng, (4, 65)), dtype) for _ in range(2))
    scale = [tensor(draw(rng, 65), dtype) for _ in range(2)]
    for given in (scale, ()):
        expected = *ops.layer_norm(x1 + x2, *given), x1 + x2
        for output, value in zip(ops.add_layer_norm(x1, x2, *given), expected, strict=True):
            assert np.array_equal(numpy(output), numpy(value))
