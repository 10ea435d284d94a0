import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import add as reference

# A scalar, one element, less than one instruction, tails, more than the Unified Buffer of every core, rank 4.
SHAPES = [(), (1,), (31,), (4097,), (3, 65537), (2, 3, 5, 256)]


@cover("shape", SHAPES, dtype=FLOATS)
def test_forward(shape, dtype):
    rng = np.random.default_rng(len(shape))
    (z,), rounded = launch("add", [draw(rng, shape), draw(rng, shape)], [dtype] * 2)
    terms = np.abs(rounded[0]) + np.abs(rounded[1])
    assert_accurate(z, reference.forward(*rounded), dtype, terms)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype):
    x = np.array([np.inf, np.inf, np.nan, 0.0, -0.0, 1.0, 1e-40])
    y = np.array([1.0, -np.inf, 1.0, -0.0, -0.0, -1.0, 1e-40])
    (z,), rounded = launch("add", [x, y], [dtype] * 2)
    with np.errstate(invalid="ignore"):
        assert_accurate(z, reference.forward(*rounded), dtype)
    assert np.signbit(z[3:5]).tolist() == [False, True]
