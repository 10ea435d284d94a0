import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import gelu_mul as reference

FORMS = ["none", "tanh"]
# A scalar, one element, less than one instruction, tails, more than the Unified Buffer of every core, rank 4.
SHAPES = [(), (1,), (31,), (4097,), (127, 129), (3, 65537), (2, 3, 5, 256)]


@cover("shape", SHAPES, dtype=FLOATS, form=FORMS)
def test_forward(shape, dtype, form):
    rng = np.random.default_rng(len(shape))
    (y,), rounded = launch("gelu_mul", [draw(rng, shape), draw(rng, shape)], [dtype] * 2, approximate=form)
    assert_accurate(y, reference.forward(*rounded, form), dtype)


@cover("shape", SHAPES, dtype=FLOATS, form=FORMS)
def test_gradient(shape, dtype, form):
    rng = np.random.default_rng(len(shape))
    outputs, exact = launch("gelu_mul_grad", [draw(rng, shape) for _ in range(3)], [dtype] * 3, approximate=form)
    expected = zip(outputs, reference.backward(*exact, form), reference.backward_terms(*exact, form), strict=True)
    for actual, golden, terms in expected:
        assert_accurate(actual, golden, dtype, terms)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype, form):
    """What gelu gives for the gate, times up. A NaN in up stays where it is."""
    gate = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 6e4, -6e4, 1e30, -1e30, 1.0, 1.0])
    up = np.array([2.0, 2.0, 2.0, 2.0, 2.0, 0.5, 0.5, 0.5, 0.5, np.nan, -np.inf])
    (y,), rounded = launch("gelu_mul", [gate, up], [dtype] * 2, approximate=form)
    assert_accurate(y, reference.forward(*rounded, form), dtype)
    outputs, rounded = launch("gelu_mul_grad", [np.ones(gate.shape), gate, up], [dtype] * 3, approximate=form)
    for actual, golden in zip(outputs, reference.backward(*rounded, form), strict=True):
        assert_accurate(actual, golden, dtype)
