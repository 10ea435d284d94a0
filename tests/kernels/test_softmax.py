import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import softmax as reference

CASES = [  # shape, axis
    ((1,), 0),
    ((31,), -1),  # shorter than one instruction
    ((4, 64), 1),  # one repeat, and around it
    ((300, 8), 1),
    ((5, 63), 1),
    ((5, 65), 1),
    ((5, 128), 1),  # two repeats
    ((3, 4097), -1),  # a tail after whole repeats
    ((2, 65537), -1),  # a row larger than the Unified Buffer
    ((1, 151936), -1),
    ((257, 129), -1),  # many short rows that no number of cores divides
    ((1000, 3), -1),  # rows shorter than a block
    ((2, 3, 5, 7, 9), 2),  # few columns
    ((64, 1), 0),  # contiguous although it is not the last axis
    ((7, 1), 1),  # one element a row
    ((5, 1023), 0),
    ((2, 300, 1030), 1),  # more rows than one chunk, more columns than one tile, tails of both
    ((9000, 17), 0),
]


@cover("shape, axis", CASES, dtype=FLOATS)
def test_forward(shape, axis, dtype):
    x = draw(np.random.default_rng(len(shape) + shape[-1]), shape)
    (y,), (rounded,) = launch("softmax", [x], [dtype], axis=axis)
    assert_accurate(y, reference.forward(rounded, axis), dtype)


@cover("shape, axis", CASES, dtype=FLOATS)
def test_gradient(shape, axis, dtype):
    rng = np.random.default_rng(len(shape) + shape[-1])
    y, dy = reference.forward(draw(rng, shape), axis), draw(rng, shape)
    (dx,), exact = launch("softmax_grad", [dy, y], [dtype, dtype], axis=axis)
    assert_accurate(dx, reference.backward(*exact, axis), dtype, reference.backward_terms(*exact, axis))


@pytest.mark.parametrize("shape", [(3, 61), (3, 100), (3, 129), (3, 70000)], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_special_values_stay_in_their_slice(axis, shape):
    """A slice that holds NaN or +inf, or -inf alone, is NaN; -inf among numbers gives 0."""
    x = np.random.default_rng(0).normal(size=shape)
    x = np.concatenate([x, x])[:5] if axis == 1 else np.ascontiguousarray(x.T[:, [0, 1, 2, 0, 1]].T)
    x[0, 37], x[1, 50], x[2, 60], x[3] = np.nan, np.inf, -np.inf, -np.inf
    values = x if axis == 1 else x.T
    (y,), (rounded,) = launch("softmax", [values], ["float32"], axis=axis)
    y = y if axis == 1 else y.T
    assert np.isnan(y[[0, 1, 3]]).all()
    assert y[2, 60] == 0
    golden = reference.forward(rounded, axis)
    assert_accurate(y, golden if axis == 1 else golden.T, "float32")


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes(dtype):
    """The largest numbers, denormals and zeros of either sign; sums near the largest number do not overflow."""
    largest = {"float16": 65504.0}.get(dtype, 3.3e38)
    x = np.array([[largest, largest, -largest], [-largest] * 3, [1e-40, -1e-40, 0.0], [0.0, -0.0, 0.0]])
    (y,), (rounded,) = launch("softmax", [x], [dtype])
    assert_accurate(y, reference.forward(rounded), dtype)
