import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance import assert_accurate, assert_close
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import grouped_matmul as reference

CASES = [  # k, n; rows of the groups
    (1, 1, [1]),
    (16, 8, [3, 5]),
    (37, 70, [4, 0, 9, 1]),  # an empty group, tails of blocks; few rows and many
    (20, 33, [0, 0, 40, 0]),  # all rows in one group
    (64, 520, [130, 1, 70]),  # several tiles each way, with tails
    (24, 1100, [600, 3]),  # tiles of a host's sizes
    (8, 12, [1] * 20),  # a token for each of many
    (130, 530, [2, 2]),  # a few rows by tiles of columns
    (8, 8, [0, 0, 0]),  # no rows
    (0, 5, [3, 2]),  # sums of nothing
    (7, 0, [2, 1]),  # no columns
]


def arrays(rng, case, transpose_weight):
    k, n, rows = case
    weight = draw(rng, (len(rows), k, n)) / max(1, k) ** 0.5
    return draw(rng, (sum(rows), k)), weight.swapaxes(-1, -2) if transpose_weight else weight, np.cumsum(rows)


def multiply(inputs, dtype, **attributes):
    return launch("grouped_matmul", inputs, [dtype, dtype, "int32"], **attributes)


def check(case, dtype, transpose_weight):
    """Forward and gradient."""
    rng = np.random.default_rng(sum(case[:2]) + len(case[2]))
    inputs = arrays(rng, case, transpose_weight)
    attributes = {"transpose_weight": transpose_weight}
    (y,), rounded = multiply(inputs, dtype, **attributes)
    terms = reference.forward(*map(np.abs, rounded), **attributes)
    # The order of a library's sums is its own: some ULP of the terms.
    assert_accurate(y, reference.forward(*rounded, **attributes), dtype, 8 * terms)
    dy = draw(rng, y.shape)
    results, rounded = launch("grouped_matmul_grad", [dy, inputs[0], inputs[2]], [dtype, dtype, "int32"], **attributes)
    terms = reference.backward_weight(*map(np.abs, rounded), **attributes)
    assert_accurate(results[0], reference.backward_weight(*rounded, **attributes), dtype, 8 * terms)


@cover("case", CASES, dtype=FLOATS, transpose_weight=[False, True])
def test_products_and_gradient(case, dtype, transpose_weight):
    check(case, dtype, transpose_weight)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.integers(1, 70), st.integers(1, 70), st.lists(st.integers(0, 40), min_size=1, max_size=9),
    st.sampled_from(FLOATS), st.booleans(),
)  # fmt: skip
def test_any_groups(k, n, rows, dtype, transpose_weight):
    check((k, n, rows), dtype, transpose_weight)


@pytest.mark.parametrize("dtype", FLOATS)
def test_other_groups_have_no_part(dtype):
    """Neither their rows nor their matrices, whatever they are."""
    rng = np.random.default_rng(0)
    x, weight, _ = arrays(rng, (40, 24, [30, 140, 9]), False)
    (alone,), _ = multiply([x[30:170], weight[1:2], [140]], dtype)
    x[:30], x[170:], weight[0], weight[2] = np.nan, np.inf, np.inf, np.nan
    (y,), _ = multiply([x, weight, [30, 170, 179]], dtype)
    # With AVX2 the order in which oneDNN adds up, and so the last bit, can depend on where its operands lie in memory.
    bound = 1e-5 if dtype == "float32" else 0
    assert_close(y[30:170], alone, rtol=bound, atol=bound)


@pytest.mark.parametrize("ends", [[3, 2, 5], [-1, 2, 5], [2, 6, 5], [1, 2, 4], [5, 5, 6]])
def test_ends_that_are_wrong(ends):
    x, weight = np.ones((5, 4)), np.ones((3, 4, 6))
    with pytest.raises(RuntimeError, match="grouped_matmul"):
        multiply([x, weight, ends], "float32")
    with pytest.raises(RuntimeError, match="grouped_matmul_grad"):
        launch("grouped_matmul_grad", [np.ones((5, 6)), x, ends], ["float32"] * 2 + ["int32"])
