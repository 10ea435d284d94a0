"""group_norm with the channels last; the rest is in test_values.py."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import Caller, graph_mode, run
from tests.reference import group_norm as reference
from tests.tensors import numpy, tensor

BEHIND = (3, 1e-4, "silu", "NHWC")


@pytest.mark.parametrize("mode", ["pynative", "jit"])
def test_channels_last(mode):
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (2, 5, 6, 6)), "float32") for _ in range(2))
    gamma, beta = (tensor(draw(rng, 6), "float32") for _ in range(2))

    def total(x, gamma, beta, dy):
        return (ops.group_norm(x, gamma, beta, *BEHIND)[0] * dy).sum()

    exact = numpy(x), numpy(gamma), numpy(beta), *BEHIND
    y = run(mode, ops.group_norm, (x, gamma, beta), *BEHIND)[0]
    assert_accurate(numpy(y), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))
    state = np.zeros((2, 3))
    backward = numpy(dy), state, state, *exact
    gradients = run(mode, ms.grad(total, (0, 1, 2)), (x, gamma, beta, dy))
    golden = zip(gradients, reference.backward(*backward), reference.backward_terms(*backward), strict=True)
    for gradient, value, terms in golden:
        assert_accurate(numpy(gradient), value, "float32", terms)


@pytest.mark.parametrize("x_shape", [(None, None, 6), None], ids=str)
def test_channels_last_of_unknown_sizes(x_shape):
    with graph_mode():
        net = Caller(ops.group_norm, *BEHIND)
        net.set_inputs(*[Tensor(shape=shape, dtype=ms.float32) for shape in (x_shape, (6,), (6,))])
        rng = np.random.default_rng(0)
        gamma, beta = (tensor(rng.normal(size=6), "float32") for _ in range(2))
        for shape in [(2, 7, 6), (1, 6, 6)]:
            x = tensor(rng.normal(size=shape), "float32")
            y, mean, rstd = net(x, gamma, beta)
            assert mean.shape == rstd.shape == (shape[0], 3)
            exact = numpy(x), numpy(gamma), numpy(beta), *BEHIND
            assert_accurate(numpy(y), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))
