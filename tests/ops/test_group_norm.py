import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, Caller, graph_mode, run
from tests.reference import group_norm as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["G"]) for row in registry.signature("group_norm").types]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_forward(mode, types, data_format):
    rng = np.random.default_rng(0)
    x = tensor(draw(rng, (2, 6, 5, 6)), types[0])
    gamma, beta = (tensor(draw(rng, 6), types[1]) for _ in range(2))
    arguments = 3, 1e-4, "silu", data_format
    outputs = run(mode, ops.group_norm, (x, gamma, beta), *arguments)
    assert [dtype_name(output) for output in outputs] == [types[0], "float32", "float32"]
    exact = numpy(x), numpy(gamma), numpy(beta), *arguments
    golden = reference.forward(*exact)
    assert_accurate(numpy(outputs[0]), golden[0], types[0], reference.forward_terms(*exact))
    assert_accurate(numpy(outputs[1]), golden[1], "float32", np.abs(exact[0]).max())
    assert_accurate(numpy(outputs[2]), golden[2], "float32")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_gradient_through_all_outputs(mode, types, activation):
    rng = np.random.default_rng(1)
    x, dy = (tensor(draw(rng, (3, 8, 65)), types[0]) for _ in range(2))
    gamma, beta = (tensor(draw(rng, 8), types[1]) for _ in range(2))
    dmean, drstd = (tensor(draw(rng, (3, 4)), "float32") for _ in range(2))

    def total(x, gamma, beta, dy, dmean, drstd):
        y, mean, rstd = ops.group_norm(x, gamma, beta, 4, 1e-2, activation)
        return (y.astype(ms.float32) * dy.astype(ms.float32)).sum() + (mean * dmean).sum() + (rstd * drstd).sum()

    outputs = run(mode, ms.grad(total, (0, 1, 2)), (x, gamma, beta, dy, dmean, drstd))
    dtypes = [types[0], types[1], types[1]]
    assert [dtype_name(output) for output in outputs] == dtypes
    exact = numpy(dy), numpy(dmean), numpy(drstd), numpy(x), numpy(gamma), numpy(beta), 4, 1e-2, activation
    golden, terms = reference.backward(*exact), reference.backward_terms(*exact)
    for output, value, sums, dtype in zip(outputs, golden, terms, dtypes, strict=True):
        assert_accurate(numpy(output), value, dtype, sums)


@pytest.mark.parametrize(
    ("x_shape", "gamma_shape"),
    [((None, 6, None), (6,)), ((None, None, None), (None,)), (None, (6,)), (None, None)],
    ids=str,
)
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_dynamic_shapes(x_shape, gamma_shape, data_format):
    with graph_mode():
        net = Caller(ops.group_norm, 3, 1e-5, "none", data_format)
        net.set_inputs(*[Tensor(shape=shape, dtype=ms.float32) for shape in (x_shape, gamma_shape, gamma_shape)])
        rng = np.random.default_rng(0)
        gamma, beta = (tensor(rng.normal(size=6), "float32") for _ in range(2))
        for shape in [(2, 6, 6), (1, 6, 6)]:
            x = tensor(rng.normal(size=shape), "float32")
            exact = numpy(x), numpy(gamma), numpy(beta), 3, 1e-5, "none", data_format
            y, mean, rstd = net(x, gamma, beta)
            assert mean.shape == rstd.shape == (shape[0], 3)
            assert_accurate(numpy(y), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))


@pytest.mark.parametrize(
    ("shapes", "arguments", "error", "message"),
    [
        ([(2, 7, 4), (7,), (7,)], (3,), ValueError, "x.shape[1] must be a multiple of num_groups (3), got (2, 7, 4)"),
        (
            [(2, 4, 7), (7,), (7,)],
            (3, 1e-5, "none", "NHWC"),
            ValueError,
            "x.shape[-1] must be a multiple of",
        ),
        ([(2, 6, 4), (6,), (6,)], (12,), ValueError, "x.shape[1] must be a multiple of num_groups (12), got (2, 6, 4)"),
        ([(2, 6, 4), (6,), (6,)], (0,), ValueError, "num_groups must be > 0, got 0"),
        ([(2, 6, 4), (6,), (6,)], (2.0,), TypeError, "num_groups must be an int, got float"),
        ([(2, 6, 4), (4,), (4,)], (2,), ValueError, "gamma.shape[0] must equal x.shape[1] (6), got (4,)"),
        ([(2, 6, 4), (6,), (4,)], (2,), ValueError, "beta.shape[0] must equal x.shape[1] (6), got (4,)"),
        ([(6,), (6,), (6,)], (2,), ValueError, "x must have at least 2 dims, got shape (6,)"),
        ([(2, 0, 4), (0,), (0,)], (2,), ValueError, "x.shape[1] must be at least 1, got (2, 0, 4)"),
        ([(2, 6, 0), (6,), (6,)], (2,), ValueError, "x.shape[2:] must have no dim of size 0, got (2, 6, 0)"),
        ([(2, 6, 4), (6,), (6,)], (2, 0.0), ValueError, "epsilon must be > 0 in float32, got 0.0"),
        ([(2, 6, 4), (6,), (6,)], (2, 1e-5, "elu"), ValueError, "activation must be 'none', 'silu' or 'relu'"),
        ([(2, 6, 4), (6,), (6,)], (2, 1e-5, "none", "NCL"), ValueError, "data_format must be 'NCHW' or 'NHWC'"),
    ],
)
def test_bad_input(shapes, arguments, error, message):
    tensors = [Tensor(np.ones(shape, np.float32)) for shape in shapes]
    with pytest.raises(error, match="^" + re.escape(f"group_norm: {message}")):
        run("pynative", ops.group_norm, tensors, *arguments)
