"""linear_silu_mul and linear_gelu_mul, which share all but the activation."""

import numpy as np
import pytest

from ms_ascend_ops.library import get_num_threads, set_num_threads
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import linear_gelu_mul, linear_silu_mul

CASES = [  # dims of x but the last, k, n
    ((1,), 1, 1),
    ((), 40, 24),  # a vector
    ((1,), 300, 700),  # one row, several tiles
    ((4,), 37, 70),  # a few rows: all at once, with tails of vectors
    ((7,), 130, 530),  # and in two groups
    ((17,), 33, 65),  # sizes that fill no block
    ((200,), 64, 520),  # several tiles each way, with tails
    ((1300,), 20, 1100),  # several full tiles each way, more than a chip has cores for: as large as they may be
    ((2, 3, 5), 16, 8),  # rows of all batches are one matrix
    ((3, 0), 8, 8),  # no rows
    ((4,), 6, 0),  # no columns
    ((3,), 0, 5),  # sums of nothing
]
FORMS = {  # operator, its reference, attributes
    "silu": ("linear_silu_mul", linear_silu_mul, {}),
    "gelu": ("linear_gelu_mul", linear_gelu_mul, {"approximate": "none"}),
    "tanh": ("linear_gelu_mul", linear_gelu_mul, {"approximate": "tanh"}),
}


def arrays(rng, case):
    rows, k, n = case
    gate_weight, up_weight = (draw(rng, (n, k)) / max(1, k) ** 0.5 for _ in range(2))
    return [draw(rng, (*rows, k)), gate_weight, up_weight]


@cover("case", CASES, dtype=FLOATS, form=list(FORMS))
def test_forward(case, dtype, form):
    name, reference, attributes = FORMS[form]
    inputs = arrays(np.random.default_rng(sum(case[1:])), case)
    (y,), rounded = launch(name, inputs, [dtype] * 3, **attributes)
    # The order of a library's sums is its own: some ULP of the terms.
    assert_accurate(y, reference.forward(*rounded, **attributes), dtype, 8 * reference.forward_terms(*rounded))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype, form):
    """What the activation gives for the product. A NaN touches its row, or its column."""
    name, reference, attributes = FORMS[form]
    x = np.array([[1.0], [-1.0], [np.nan], [0.0], [100.0]])
    gate_weight, up_weight = np.array([[1.0], [-3.0], [np.nan], [2.0]]), np.array([[2.0], [1.0], [1.0], [np.nan]])
    (y,), rounded = launch(name, [x, gate_weight, up_weight], [dtype] * 3, **attributes)
    assert_accurate(y, reference.forward(*rounded, **attributes), dtype)
    infinite = [np.array([[1.0], [-1.0]]), np.full((1, 1), np.inf), np.ones((1, 1))]
    (y,), rounded = launch(name, infinite, [dtype] * 3, **attributes)
    assert_accurate(y, reference.forward(*rounded, **attributes), dtype)


def test_products_are_not_rounded_before_they_meet():
    """An activation that is rounded to float16 overflows here, and the product of both does not."""
    inputs = [np.full((1, 2), 200.0), np.full((1, 2), 200.0), np.full((1, 2), 1e-5)]
    (y,), rounded = launch("linear_silu_mul", inputs, ["float16"] * 3)
    golden = linear_silu_mul.forward(*rounded)
    assert 300 < golden < 400
    assert_accurate(y, golden, "float16")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_core_takes_several_tiles(dtype, form):
    """While it finishes one the next is calculated. Results do not depend on the number of threads."""
    name, reference, attributes = FORMS[form]
    inputs = arrays(np.random.default_rng(0), ((150,), 130, 700))
    results, before = [], get_num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            (y,), rounded = launch(name, inputs, [dtype] * 3, **attributes)
            assert_accurate(y, reference.forward(*rounded, **attributes), dtype, 8 * reference.forward_terms(*rounded))
            results.append(y)
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(*results)
