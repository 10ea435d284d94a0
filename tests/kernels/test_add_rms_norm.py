import numpy as np
import pytest

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import add_rms_norm as reference

TYPES = [(row["T"], row["G"]) for row in registry.signature("add_rms_norm").types]

SHAPES = [
    (1,),  # one element
    (3, 31),  # shorter than one instruction
    (3, 4097),  # a tail after whole repeats
    (5, 5120),  # float32: a row that fits in single buffers only
    (2, 65537),  # a row larger than the Unified Buffer
    (257, 129),  # many short rows that no number of cores divides
    (2, 3, 5, 96),
]
SINGLE_BUFFERS = [((5, 5120), ("float32", "float32"), "round_then_scale")]


@cover("shape", SHAPES, also=SINGLE_BUFFERS, types=TYPES, scheme=["round_then_scale", "one_plus_gamma"])
def test_forward(shape, types, scheme):
    rng = np.random.default_rng(len(shape) + shape[-1])
    inputs = [draw(rng, shape), draw(rng, shape), draw(rng, shape[-1:], 2)]
    (y, rstd, x), rounded = launch("add_rms_norm", inputs, [types[0], *types], epsilon=1e-5, scheme=scheme)
    golden_y, golden_rstd, golden_x = reference.forward(*rounded, types[0], 1e-5, scheme)
    assert np.array_equal(x, golden_x)  # one addition, rounded once
    assert_accurate(y, golden_y, types[0])
    assert_accurate(rstd, golden_rstd, "float32")


@cover("shape", SHAPES, also=SINGLE_BUFFERS, types=TYPES, scheme=["round_then_scale", "one_plus_gamma"])
def test_gradient(shape, types, scheme):
    rng = np.random.default_rng(len(shape) + shape[-1])
    x, gamma, dy, dresidual = draw(rng, shape), draw(rng, shape[-1:], 2), draw(rng, shape), draw(rng, shape)
    drstd = draw(rng, (*shape[:-1], 1))
    (_, rstd), _ = launch("rms_norm", [x, gamma], types, scheme=scheme)
    dtypes = [types[0], "float32", types[0], types[0], "float32", types[1]]
    inputs = [dy, drstd, dresidual, x, rstd, gamma]
    (dx, dgamma), rounded = launch("add_rms_norm_grad", inputs, dtypes, scheme=scheme)
    exact = *rounded[:4], rounded[5], 1e-6, scheme
    golden_dx, golden_dgamma = reference.backward(*exact)
    dx_terms, dgamma_terms = reference.backward_terms(*exact)
    assert_accurate(dx, golden_dx, types[0], dx_terms)
    assert_accurate(dgamma, golden_dgamma, types[1], dgamma_terms)


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_it_is_rms_norm_of_the_sum(types):
    """Bit for bit, in values and gradients."""
    rng = np.random.default_rng(0)
    x1, x2, gamma = draw(rng, (9, 200)), draw(rng, (9, 200)), draw(rng, 200)
    (y, rstd, x), _ = launch("add_rms_norm", [x1, x2, gamma], [types[0], *types])
    (plain_y, plain_rstd), _ = launch("rms_norm", [x, gamma], types)
    assert np.array_equal(y, plain_y)
    assert np.array_equal(rstd, plain_rstd)


def test_zeros_and_denormals():
    """A row of zeros gives zeros; a denormal is not flushed by the addition."""
    x1 = np.zeros((2, 64))
    x1[1] = 2.0**-140
    (y, rstd, x), _ = launch("add_rms_norm", [x1, np.zeros((2, 64)), np.ones(64)], ["float32"] * 3)
    assert np.array_equal(x, x1)
    assert np.array_equal(y[0], np.zeros(64))
    assert_accurate(rstd, np.full((2, 1), 1e3), "float32")
