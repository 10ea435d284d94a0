import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS, STORAGE, decode
from tests.inputs import draw
from tests.native import launch, tiles_of_a_chip
from tests.reference import sparse_matmul as reference

CASES = [  # values of each row; rows and columns of the dense factor
    ([1], 1, 1),
    ([3, 0, 5, 1], 7, 20),  # an empty row, tails of blocks
    ([0, 0, 9, 0], 9, 33),  # one row has all, the last none
    ([40, 1, 300, 2, 0, 0, 7] * 6, 400, 130),  # tasks that share rows, rows longer than a task
    ([500, 3], 600, 1100),  # a row of many tasks
    ([2] * 70, 64, 64),  # more values than rows of the dense factor: packed on a host
    ([4, 30, 2, 17, 5, 9, 11, 3, 21, 6], 32, 1),  # one column, of rows that are summed side by side
    ([4, 30, 2, 17, 5, 9, 11, 3, 21], 32, 65),  # one column behind others
    ([5, 3], 40, 8200),  # several stretches of columns
    ([0, 0, 0], 5, 8),  # no values
    ([], 3, 4),  # no rows
    ([0, 0], 0, 6),  # no rows of the dense factor
    ([2, 1], 3, 0),  # no columns
]


def arrays(rng, counts, inner, cols):
    indices = [column for count in counts for column in sorted(rng.choice(inner, count, replace=False))]
    values = draw(rng, (len(indices),)) / max(1, max(counts, default=1)) ** 0.5
    return np.cumsum(counts, dtype=int), np.array(indices, dtype=int), values, draw(rng, (inner, cols))


def multiply(inputs, dtype):
    return launch("sparse_matmul", inputs, ["int32", "int32", dtype, dtype])


def gradient(inputs, dtype):
    return launch("sparse_matmul_grad", inputs, [dtype, "int32", "int32", dtype])


def check(case, dtype):
    rng = np.random.default_rng(sum(case[0]) + case[1] + case[2])
    ends, indices, values, dense = arrays(rng, *case)
    (y,), rounded = multiply([ends, indices, values, dense], dtype)
    terms = reference.forward(*rounded[:2], *map(np.abs, rounded[2:]))
    assert_accurate(y, reference.forward(*rounded), dtype, 8 * terms)
    dy = draw(rng, y.shape)
    (dvalues,), rounded = gradient([dy, ends, indices, dense], dtype)
    terms = reference.backward_values(np.abs(rounded[0]), *rounded[1:3], np.abs(rounded[3]))
    assert_accurate(dvalues, reference.backward_values(*rounded), dtype, 8 * terms)


@cover("case", CASES, dtype=FLOATS, chip=[0, 1])
def test_product_and_gradient(case, dtype, chip):
    with tiles_of_a_chip(chip):
        check(case, dtype)


def test_repeated_and_unsorted_columns():
    """They are added up one after the other, whatever their order."""
    ends, indices, values = [3, 5], [2, 0, 2, 1, 1], [1.0, 2.0, 4.0, 8.0, 16.0]
    dense = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(
        multiply([ends, indices, values, dense], "float32")[0][0], reference.forward(ends, indices, values, dense)
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_values_of_16_bits_become_scalars(dtype):
    """Of every kind: subnormal, normal, infinite, of both signs."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        values = decode(np.arange(0, 2**16, 37).astype(np.uint16).view(STORAGE[dtype]), dtype)
    values = values[~np.isnan(values)]
    ones = np.ones((1, 1))
    (y,), _ = multiply([np.arange(1, len(values) + 1), np.zeros(len(values)), values, ones], dtype)
    np.testing.assert_array_equal(y[:, 0], values)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values_stay_in_their_rows(dtype):
    rng = np.random.default_rng(0)
    ends, indices, values, dense = arrays(rng, [4, 2, 3], 8, 40)
    values[4], dense[7] = np.nan, np.inf
    indices[:4], indices[6:] = [0, 1, 2, 3], [4, 5, 7]
    indices[4:6] = [1, 2]
    (y,), _ = multiply([ends, indices, values, dense], dtype)
    assert np.isfinite(y[0]).all()
    assert np.isnan(y[1]).all()
    assert np.isinf(y[2]).all()


@pytest.mark.parametrize(
    ("ends", "indices"),
    [
        ([3, 2, 5], [0] * 5),  # falls
        ([-1, 2, 5], [0] * 5),
        ([2, 6, 5], [0] * 5),  # behind the values
        ([1, 2, 4], [0] * 5),  # does not end with them
        ([1, 2, 6], [0] * 5),
        ([1, 2, 5], [0, 1, 4, 0, 0]),  # no such row of the dense factor
        ([1, 2, 5], [0, 1, 0, -1, 0]),
    ],
)
def test_patterns_that_are_wrong(ends, indices):
    dense = np.ones((4, 6))
    with pytest.raises(RuntimeError, match="sparse_matmul"):
        multiply([ends, indices, np.ones(5), dense], "float32")
    with pytest.raises(RuntimeError, match="sparse_matmul_grad"):
        gradient([np.ones((3, 6)), ends, indices, dense], "float32")
