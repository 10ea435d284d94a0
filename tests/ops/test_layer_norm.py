import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, Caller, graph_mode, run
from tests.reference import layer_norm as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["G"]) for row in registry.signature("layer_norm").types]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_forward(mode, types):
    rng = np.random.default_rng(0)
    x = tensor(draw(rng, (4, 5, 33)), types[0])
    gamma, beta = (tensor(draw(rng, (5, 33)), types[1]) for _ in range(2))
    outputs = run(mode, ops.layer_norm, (x, gamma, beta), 1e-4)
    assert [dtype_name(output) for output in outputs] == [types[0], "float32", "float32"]
    exact = numpy(x), numpy(gamma), numpy(beta), 1e-4
    assert [output.shape for output in outputs] == [(4, 5, 33), (4, 1, 1), (4, 1, 1)]
    golden = reference.forward(*exact)
    assert_accurate(numpy(outputs[0]), golden[0], types[0], reference.forward_terms(*exact))
    assert_accurate(numpy(outputs[1]), golden[1], "float32", np.abs(exact[0]).max())
    assert_accurate(numpy(outputs[2]), golden[2], "float32")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_relu_of_it(mode, dtype):
    rng = np.random.default_rng(2)
    x, dy = (tensor(draw(rng, (3, 4, 65)), dtype) for _ in range(2))
    gamma, beta = (tensor(draw(rng, 65), dtype) for _ in range(2))

    def loss(x, gamma, beta, dy):
        y = ops.layer_norm(x, gamma, beta, 1e-4, "relu")[0]
        return (y.astype(ms.float32) * dy.astype(ms.float32)).sum()

    exact = numpy(x), numpy(gamma), numpy(beta), 1e-4
    y = run(mode, ops.layer_norm, (x, gamma, beta), 1e-4, "relu")[0]
    assert_accurate(numpy(y), reference.forward(*exact, "relu")[0], dtype, reference.forward_terms(*exact))
    outputs = run(mode, ms.grad(loss, (0, 1, 2)), (x, gamma, beta, dy))
    state = np.zeros((3, 4, 1))
    backward = reference.masked(numpy(dy), *exact), state, state, *exact[:2], 1e-4
    golden, terms = reference.backward(*backward), reference.backward_terms(*backward)
    for output, value, sums in zip(outputs, golden, terms, strict=True):
        assert_accurate(numpy(output), value, dtype, sums)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("with_gamma", "with_beta"), [(False, False), (True, False), (False, True)])
def test_optional_gamma_and_beta(mode, with_gamma, with_beta):
    rng = np.random.default_rng(0)
    x, vector = tensor(draw(rng, (4, 33)), "float16"), tensor(draw(rng, 33), "float16")
    gamma, beta = vector if with_gamma else None, vector if with_beta else None
    y = run(mode, ops.layer_norm, (x,), gamma, beta)[0]
    exact = numpy(vector) if with_gamma else np.ones(33), numpy(vector) if with_beta else np.zeros(33)
    assert_accurate(numpy(y), reference.forward(numpy(x), *exact)[0], "float16")


def weighted_sum(x, gamma, beta, dy, dmean, drstd):
    y, mean, rstd = ops.layer_norm(x, gamma, beta)
    return (y.astype(ms.float32) * dy.astype(ms.float32)).sum() + (mean * dmean).sum() + (rstd * drstd).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_gradient_through_all_outputs(mode, types):
    rng = np.random.default_rng(1)
    x, dy = (tensor(draw(rng, (3, 4, 65)), types[0]) for _ in range(2))
    gamma, beta = (tensor(draw(rng, 65), types[1]) for _ in range(2))
    dmean, drstd = (tensor(draw(rng, (3, 4, 1)), "float32") for _ in range(2))
    outputs = run(mode, ms.grad(weighted_sum, (0, 1, 2)), (x, gamma, beta, dy, dmean, drstd))
    dtypes = [types[0], types[1], types[1]]
    assert [dtype_name(output) for output in outputs] == dtypes
    exact = numpy(dy), numpy(dmean), numpy(drstd), numpy(x), numpy(gamma)
    golden, terms = reference.backward(*exact), reference.backward_terms(*exact)
    for output, value, sums, dtype in zip(outputs, golden, terms, dtypes, strict=True):
        assert_accurate(numpy(output), value, dtype, sums)


@pytest.mark.parametrize(
    ("x_shape", "gamma_shape"),
    [((None, None, 8), (8,)), ((None, None, None), (None,)), (None, (8,)), (None, None), ((None, None, 8), None)],
    ids=str,
)
def test_dynamic_shapes(x_shape, gamma_shape):
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


@pytest.mark.parametrize(
    ("dtypes", "shapes", "arguments", "error", "message"),
    [
        ("int32 float32 float32", [(4, 8), (8,), (8,)], (), TypeError, "x.dtype must be float16, bfloat16 or float32"),
        ("float32 float16 float16", [(4, 8), (8,), (8,)], (), TypeError, "gamma.dtype must be float32 when x.dtype is"),
        ("float32 float32 float16", [(4, 8), (8,), (8,)], (), TypeError, "beta.dtype must be float32 when x.dtype is"),
        ("float32 float32 float32", [(4, 8), (7,), (7,)], (), ValueError, "x.shape[-1] must equal gamma.shape[0] (7)"),
        ("float32 float32 float32", [(4, 8), (8,), (7,)], (), ValueError, "beta.shape[0] must equal gamma.shape[0]"),
        ("float32 float32 float32", [(4, 8), (), ()], (), ValueError, "gamma must have at least 1 dim, got shape ()"),
        ("float32 float32 float32", [(8,), (4, 8), (4, 8)], (), ValueError, "x must have at least 2 dims, got shape"),
        ("float32 float32 float32", [(4, 0), (0,), (0,)], (), ValueError, "gamma.shape[0] must be at least 1"),
        ("float32 float32 float32", [(8,), (8,), (8,)], (0.0,), ValueError, "epsilon must be > 0 in float32, got 0.0"),
    ],
)
def test_bad_input(dtypes, shapes, arguments, error, message):
    tensors = [Tensor(np.ones(shape, dtype)) for shape, dtype in zip(shapes, dtypes.split(), strict=True)]
    with pytest.raises(error, match="^" + re.escape(f"layer_norm: {message}")):
        run("pynative", ops.layer_norm, tensors, *arguments)


def test_not_a_tensor():
    with pytest.raises(TypeError, match=r"^layer_norm: x must be a Tensor, got list"):
        ops.layer_norm([1.0, 2.0])
