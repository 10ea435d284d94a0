import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import silu_mul as reference

# A scalar, one element, less than one instruction, tails, more than the Unified Buffer of every core, rank 4.
SHAPES = [(), (1,), (31,), (4097,), (127, 129), (3, 65537), (2, 3, 5, 256), (1024, 1023)]


@cover("shape", SHAPES, dtype=FLOATS)
def test_forward(shape, dtype):
    rng = np.random.default_rng(len(shape))
    (y,), rounded = launch("silu_mul", [draw(rng, shape), draw(rng, shape)], [dtype] * 2)
    assert_accurate(y, reference.forward(*rounded), dtype)


@cover("shape", SHAPES, dtype=FLOATS)
def test_gradient(shape, dtype):
    rng = np.random.default_rng(len(shape))
    outputs, rounded = launch("silu_mul_grad", [draw(rng, shape) for _ in range(3)], [dtype] * 3)
    expected = zip(outputs, reference.backward(*rounded), reference.backward_terms(*rounded), strict=True)
    for actual, golden, terms in expected:
        assert_accurate(actual, golden, dtype, terms)


@pytest.mark.parametrize("dtype", FLOATS)
def test_large_and_special_values(dtype):
    gate = np.array([1e4, -1e4, 88, -88, -104, np.inf, np.nan, 0.0, -0.0])
    (y,), rounded = launch("silu_mul", [gate, np.full(gate.shape, 2.0)], [dtype] * 2)
    assert_accurate(y, reference.forward(*rounded), dtype)
