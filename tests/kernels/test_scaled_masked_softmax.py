import numpy as np
import pytest

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import scaled_masked_softmax as reference

TYPES = [(row["T"], row["M"]) for row in registry.signature("scaled_masked_softmax").types]

CASES = [  # x, mask
    ((64,), (64,)),
    ((5, 31), (31,)),  # one row for all
    ((5, 31), (5, 31)),
    ((2, 3, 7, 65), (7, 65)),  # causal: the same for all batches and heads
    ((2, 3, 7, 65), (2, 1, 1, 65)),  # padding: the same for all heads and queries
    ((2, 3, 7, 65), (2, 1, 7, 65)),
    ((2, 3, 7, 65), (1, 3, 1, 65)),
    ((2, 3, 1, 4097), (2, 1, 1, 4097)),  # decoding
    ((2, 2, 3, 65537), (2, 1, 3, 65537)),  # rows larger than the Unified Buffer
    ((2, 2, 2, 3, 2, 2, 3, 5), (2, 1, 2, 1, 2, 1, 3, 5)),  # every dim a group of its own
    ((1, 2, 1, 3, 1, 2, 3, 5), (2, 1, 3, 1, 1, 1, 5)),
]


def causal(rng, x_shape, mask_shape):
    """About a third left out, never a whole row."""
    mask = np.where(rng.random(mask_shape) < 0.3, -np.inf, rng.normal(size=mask_shape))
    mask[..., 0] = 0.0
    return draw(rng, x_shape), mask


@cover("x_shape, mask_shape", CASES, types=TYPES)
def test_forward(x_shape, mask_shape, types):
    inputs = causal(np.random.default_rng(len(x_shape)), x_shape, mask_shape)
    (y,), rounded = launch("scaled_masked_softmax", inputs, types, scale=0.125)
    assert_accurate(y, reference.forward(*rounded, 0.125), types[0])


@cover("shape", [(31,), (2, 3, 7, 65), (2, 4097), (1, 65537)], dtype=FLOATS)
def test_gradient(shape, dtype):
    rng = np.random.default_rng(shape[-1])
    y, dy = reference.forward(*causal(rng, shape, shape), 0.125), draw(rng, shape)
    (dx,), exact = launch("scaled_masked_softmax_grad", [dy, y], [dtype, dtype], scale=0.125)
    golden, terms = (f(*exact, 0.125) for f in (reference.backward, reference.backward_terms))
    assert_accurate(dx, golden, dtype, terms)


@pytest.mark.parametrize("n", [7, 64, 100, 129, 2000, 70000])
def test_a_row_that_is_masked_as_a_whole_is_zeros(n):
    rng = np.random.default_rng(0)
    x, mask = rng.normal(size=(4, n)), np.zeros((4, n))
    mask[1], mask[2, 3], x[3, 5] = -np.inf, -np.inf, np.nan
    (y,), rounded = launch("scaled_masked_softmax", [x, mask], ["float32", "float32"], scale=2.0)
    assert (y[1] == 0).all()
    assert y[2, 3] == 0
    assert np.isnan(y[3]).all()
    assert_accurate(y, reference.forward(*rounded, 2.0), "float32")
    (dx,), _ = launch("scaled_masked_softmax_grad", [rng.normal(size=(4, n)), y], ["float32"] * 2, scale=2.0)
    assert (dx[1] == 0).all()


def test_the_lowest_number_as_mask():
    """Networks write it for -inf; x of the same sign must not make it one."""
    lowest = np.finfo(np.float16).min
    mask = np.array([[0.0, lowest, lowest], [lowest] * 3])
    (y,), rounded = launch("scaled_masked_softmax", [np.full((2, 3), -3.0), mask], ["float16", "float16"])
    assert_accurate(y, reference.forward(*rounded, 1.0), "float16")
