import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.native import launch
from tests.reference import grouped_quant_matmul as reference

CASES = [  # k, n; rows of the groups
    (1, 1, [1]),
    (16, 8, [3, 5]),
    (37, 70, [4, 0, 9, 1]),  # an empty group, tails of blocks; few rows and many
    (20, 33, [0, 0, 40, 0]),  # all rows in one group
    (64, 520, [130, 1, 70]),  # several tiles each way, with tails
    (1030, 130, [9, 300]),  # in two stretches of k
    (8, 12, [1] * 20),  # a token for each of many
    (8, 8, [0, 0, 0]),  # no rows
    (7, 0, [2, 1]),  # no columns
]
TYPES = ["float16", "bfloat16", "float32"]


def arrays(rng, case, has_row_scale):
    k, n, rows = case
    x, weight = (rng.integers(-128, 128, shape) for shape in ((sum(rows), k), (len(rows), n, k)))
    scale = rng.uniform(0.5, 1.5, (len(rows), n)) / (127 * k**0.5)
    return [x, weight, scale, np.cumsum(rows), rng.uniform(0.5, 1.5, sum(rows)) / 127 if has_row_scale else None]


def run(inputs, dtype):
    return launch("grouped_quant_matmul", inputs, ["int8", "int8", dtype, "int32", "float32"])


@cover("case", CASES, dtype=TYPES, has_row_scale=[1, 0])
def test_products(case, dtype, has_row_scale):
    (y,), rounded = run(arrays(np.random.default_rng(sum(case[:2])), case, has_row_scale), dtype)
    golden = reference.forward(*rounded)
    # The product and its scales have some roundings in float32.
    assert_accurate(y, golden, dtype, 4 * np.abs(golden))


@pytest.mark.parametrize("k", [64, 9000])
def test_sums_are_exact(k):
    """Also of the largest magnitudes, where sums of two products do not fit 16 bits, and floats round the sum."""
    rng = np.random.default_rng(k)
    x, weight = (np.where(rng.random((*n, k)) < 0.9, -128, 127) for n in ((40,), (2, 24)))
    x[0], weight[:, 0], weight[:, 1] = -128, -128, 127
    (y,), _ = run([x, weight, np.ones((2, 24)), np.array([3, 40]), None], "float32")
    exact = np.concatenate([x[:3] @ weight[0].T, x[3:] @ weight[1].T])
    np.testing.assert_array_equal(y, exact.astype(np.float32))


def test_scales_of_other_groups_have_no_part():
    x, weight, scale, ends, row_scale = arrays(np.random.default_rng(0), (40, 24, [30, 140, 9]), 1)
    (alone,), _ = run([x[30:170], weight[1:2], scale[1:2], [140], row_scale[30:170]], "float32")
    scale[0], scale[2], row_scale[:30] = np.nan, np.inf, np.nan
    (y,), _ = run([x, weight, scale, ends, row_scale], "float32")
    np.testing.assert_array_equal(y[30:170], alone)
    assert np.isnan(y[:30]).all()


@pytest.mark.parametrize("ends", [[3, 2, 5], [-1, 2, 5], [2, 6, 5], [1, 2, 4], [5, 5, 6]])
def test_ends_that_are_wrong(ends):
    with pytest.raises(RuntimeError, match="grouped_quant_matmul"):
        run([np.ones((5, 4)), np.ones((3, 6, 4)), np.ones((3, 6)), ends, None], "float32")
