import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, Caller, graph_mode, run
from tests.reference import add_rms_norm as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["G"]) for row in registry.signature("add_rms_norm").types]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scheme", ["round_then_scale", "one_plus_gamma"])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_forward(mode, types, scheme):
    rng = np.random.default_rng(0)
    x1, x2 = (tensor(draw(rng, (2, 5, 129)), types[0]) for _ in range(2))
    gamma = tensor(draw(rng, 129), types[1])
    outputs = run(mode, ops.add_rms_norm, (x1, x2, gamma), 1e-5, scheme)
    assert [dtype_name(output) for output in outputs] == [types[0], "float32", types[0]]
    y, rstd, x = (numpy(output) for output in outputs)
    golden = reference.forward(numpy(x1), numpy(x2), numpy(gamma), types[0], 1e-5, scheme)
    assert_accurate(y, golden[0], types[0])
    assert_accurate(rstd, golden[1], "float32")
    assert np.array_equal(x, golden[2])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_gradient_through_all_outputs(mode, types):
    rng = np.random.default_rng(1)
    x1, x2, dy, dresidual = (tensor(draw(rng, (3, 4, 65)), types[0]) for _ in range(4))
    gamma, drstd = tensor(draw(rng, 65), types[1]), tensor(draw(rng, (3, 4, 1)), "float32")

    def total(x1, x2, gamma, dy, drstd, dresidual):
        y, rstd, x = ops.add_rms_norm(x1, x2, gamma)
        parts = (y, dy), (rstd, drstd), (x, dresidual)
        return sum((a.astype(ms.float32) * b.astype(ms.float32)).sum() for a, b in parts)

    tensors = x1, x2, gamma, dy, drstd, dresidual
    dx1, dx2, dgamma = run(mode, ms.grad(total, (0, 1, 2)), tensors)
    assert [dtype_name(value) for value in (dx1, dx2, dgamma)] == [types[0], *types]
    exact = numpy(dy), numpy(drstd), numpy(dresidual), numpy(x1 + x2), numpy(gamma)
    (golden_dx, golden_dgamma), terms = reference.backward(*exact), reference.backward_terms(*exact)
    assert_accurate(numpy(dx1), golden_dx, types[0], terms[0])
    assert np.array_equal(numpy(dx1), numpy(dx2))
    assert_accurate(numpy(dgamma), golden_dgamma, types[1], terms[1])


@pytest.mark.parametrize("shape", [(None, None, 8), (None, None, None), None], ids=str)
def test_dynamic_shapes(shape):
    with graph_mode():
        net = Caller(ops.add_rms_norm, 1e-6, "round_then_scale")
        net.set_inputs(*[Tensor(shape=shape, dtype=ms.float32)] * 2, Tensor(shape=(8,), dtype=ms.float32))
        rng = np.random.default_rng(0)
        gamma = tensor(rng.normal(size=8), "float32")
        for known in [(2, 3, 8), (1, 5, 8)]:
            x1, x2 = (tensor(rng.normal(size=known), "float32") for _ in range(2))
            y, _, x = net(x1, x2, gamma)
            golden = reference.forward(numpy(x1), numpy(x2), numpy(gamma), "float32")
            assert_accurate(numpy(y), golden[0], "float32")
            assert np.array_equal(numpy(x), golden[2])


@pytest.mark.parametrize(
    ("dtypes", "shapes", "arguments", "error", "message"),
    [
        ("float32 float16 float32", [(4, 8), (4, 8), (8,)], (), TypeError, "x2.dtype must be float32 when x1.dtype is"),
        ("float32 float32 float32", [(4, 8), (3, 8), (8,)], (), ValueError, "x2.shape[:-1] must equal x1.shape[:-1]"),
        ("float32 float32 float32", [(4, 8), (4, 8), (7,)], (), ValueError, "gamma.shape[0] must equal x1.shape[-1]"),
        ("float32 float32 float32", [(4, 0), (4, 0), (0,)], (), ValueError, "x1.shape[-1] must be at least 1"),
        ("float32 float32 float32", [(8,), (8,), (8,)], (0.0,), ValueError, "epsilon must be > 0 in float32, got 0.0"),
        (
            "float32 float32 float32",
            [(8,), (8,), (8,)],
            (1e-6, "t5"),
            ValueError,
            "scheme must be 'round_then_",
        ),
    ],
)
def test_bad_input(dtypes, shapes, arguments, error, message):
    tensors = [Tensor(np.ones(shape, dtype)) for shape, dtype in zip(shapes, dtypes.split(), strict=True)]
    with pytest.raises(error, match="^" + re.escape(f"add_rms_norm: {message}")):
        run("pynative", ops.add_rms_norm, tensors, *arguments)
