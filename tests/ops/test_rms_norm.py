import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import rms_norm as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["G"]) for row in registry.signature("rms_norm").types]


def weighted_sum(x, gamma, dy, drstd, epsilon, scheme):
    y, rstd = ops.rms_norm(x, gamma, epsilon, scheme)
    return (y.astype(ms.float32) * dy.astype(ms.float32)).sum() + (rstd * drstd).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scheme", ["round_then_scale", "one_plus_gamma"])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_forward(mode, types, scheme):
    rng = np.random.default_rng(0)
    x, gamma = tensor(draw(rng, (2, 5, 129)), types[0]), tensor(draw(rng, 129), types[1])
    y, rstd = run(mode, ops.rms_norm, (x, gamma), 1e-5, scheme)
    assert (dtype_name(y), dtype_name(rstd)) == (types[0], "float32")
    golden_y, golden_rstd = reference.forward(numpy(x), numpy(gamma), 1e-5, scheme)
    assert_accurate(numpy(y), golden_y, types[0])
    assert_accurate(numpy(rstd), golden_rstd, "float32")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_gradient(mode, types):
    rng = np.random.default_rng(1)
    x, gamma = tensor(draw(rng, (3, 4, 65)), types[0]), tensor(draw(rng, 65), types[1])
    dy, drstd = tensor(draw(rng, (3, 4, 65)), types[0]), tensor(draw(rng, (3, 4, 1)), "float32")
    gradient = ms.value_and_grad(weighted_sum, (0, 1))
    _, (dx, dgamma) = run(mode, gradient, (x, gamma, dy, drstd), 1e-6, "round_then_scale")
    assert (dtype_name(dx), dtype_name(dgamma)) == types
    exact = numpy(dy), numpy(drstd), numpy(x), numpy(gamma)
    golden_dx, golden_dgamma = reference.backward(*exact)
    dx_terms, dgamma_terms = reference.backward_terms(*exact)
    assert_accurate(numpy(dx), golden_dx, types[0], dx_terms)
    assert_accurate(numpy(dgamma), golden_dgamma, types[1], dgamma_terms)


@pytest.mark.parametrize("mode", MODES)
def test_gradient_of_one_output(mode):
    """The other output's gradient is zero then."""
    rng = np.random.default_rng(2)
    x, gamma = tensor(draw(rng, (4, 32)), "float32"), tensor(draw(rng, 32), "float32")

    def total(x, gamma):
        return ops.rms_norm(x, gamma)[0].sum()

    dx = run(mode, ms.grad(total), (x, gamma))
    exact = np.ones((4, 32)), np.zeros((4, 1)), numpy(x), numpy(gamma)
    assert_accurate(numpy(dx), reference.backward(*exact)[0], "float32", reference.backward_terms(*exact)[0])


FLOATS = "float16, bfloat16 or float32"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dtypes", "shapes", "error", "message"),
    [
        ("int32 float32", [(4, 8), (8,)], TypeError, f"x.dtype must be {FLOATS}, got int32"),
        ("float64 float32", [(4, 8), (8,)], TypeError, f"x.dtype must be {FLOATS}, got float64"),
        ("float32 bool", [(4, 8), (8,)], TypeError, "gamma.dtype must be float16, float32 or bfloat16, got bool"),
        (
            "float32 float16",
            [(4, 8), (8,)],
            TypeError,
            "gamma.dtype must be float32 when x.dtype is float32, got float16",
        ),
        ("float32 float32", [(4, 8), (7,)], ValueError, "gamma.shape[0] must equal x.shape[-1] (8), got (7,)"),
        ("float32 float32", [(4, 0), (0,)], ValueError, "x.shape[-1] must be at least 1, got (4, 0)"),
        ("float32 float32", [(4, 8), (1, 8)], ValueError, "gamma must have 1 dim, got shape (1, 8)"),
        ("float32 float32", [(1,) * 9, (1,)], ValueError, f"x must have at most 8 dims, got shape {(1,) * 9}"),
    ],
)
def test_bad_tensors(mode, dtypes, shapes, error, message):
    x, gamma = (Tensor(np.ones(shape, dtype)) for shape, dtype in zip(shapes, dtypes.split(), strict=True))
    with pytest.raises(error, match="^" + re.escape(f"rms_norm: {message}")):
        run(mode, ops.rms_norm, (x, gamma))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0,), ValueError, "epsilon must be > 0 in float32, got 0.0"),
        ((-0.5,), ValueError, "epsilon must be > 0 in float32, got -0.5"),
        ((1e-60,), ValueError, "epsilon must be > 0 in float32"),
        ((float("nan"),), ValueError, "epsilon must be finite in float32, got nan"),
        ((float("inf"),), ValueError, "epsilon must be finite in float32, got inf"),
        (("1e-6",), TypeError, "epsilon must be a float, got str"),
        ((True,), TypeError, "epsilon must be a float, got bool"),
        (([1e-6],), TypeError, "epsilon must be a float, got list"),
        ((1e-6, "t5"), ValueError, "scheme must be 'round_then_scale' or 'one_plus_gamma', got 't5'"),
        ((1e-6, 1), TypeError, "scheme must be a string, got int"),
    ],
)
def test_bad_attributes(mode, arguments, error, message):
    tensors = Tensor(np.ones((4, 8), np.float32)), Tensor(np.ones(8, np.float32))
    with pytest.raises(error, match="^" + re.escape(f"rms_norm: {message}")):
        run(mode, ops.rms_norm, tensors, *arguments)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [None, 1.0, "x", [1.0, 2.0], (1, 2)], ids=repr)
def test_not_a_tensor(mode, value):
    with pytest.raises(TypeError, match=r"^rms_norm: gamma must be a Tensor, got "):
        run(mode, ops.rms_norm, (Tensor(np.ones((4, 8), np.float32)), value))


def test_scalar_x():
    with pytest.raises(ValueError, match=r"^rms_norm: x must have at least 1 dim, got shape \(\)"):
        ops.rms_norm(Tensor(1.0, ms.float32), Tensor(np.ones(1, np.float32)))
