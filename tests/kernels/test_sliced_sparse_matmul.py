import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_ascend_ops.sliced import LANES, SlicedPattern
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import sliced_sparse_matmul as reference

CASES = [  # values of each row; columns of the matrix; rows of x; the longest piece
    ([3, 0, 1], 5, 1, None),
    ([2] * 64, 7, 3, None),  # a whole slice and group
    ([1] * 65 + [0] * 70, 9, 2, None),  # tails of both, and a group of empty rows
    ([150, 3, 0, 90], 200, 2, 7),  # rows of many pieces
    ([40] * 130, 60, 1, 40),  # several chunks of positions, some of two slices
    ([0, 0], 4, 2, None),  # no values
    ([2, 1], 3, 0, None),  # no rows of x
    ([3000, 5], 5000, 1, 64),  # a row of x that is loaded in parts
    ([20] * 20, 20000, 2, None),  # and a long one, beside which chunks are half as large
]


def arrays(rng, counts, columns, rows, piece):
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(int)
    chosen = [np.sort(rng.choice(columns, count, replace=False)) for count in counts]
    pattern = SlicedPattern.of(indptr, np.concatenate([np.zeros(0, int), *chosen]).astype(int), columns, piece)
    values = draw(rng, (indptr[-1],)) / max(1, *counts) ** 0.5
    return draw(rng, (rows, columns)), pattern, values


def inputs(x, pattern, values):
    placed = np.append(values, 0.0)[pattern.places]
    return [x, pattern.slice_ends, pattern.indices, placed, pattern.group_ends, pattern.pieces]


def multiply(tensors, dtype):
    return launch("sliced_sparse_matmul", tensors, [dtype, "int32", "int32", dtype, "int32", "int32"])


@cover("case", CASES, dtype=FLOATS)
def test_product(case, dtype):
    (y,), rounded = multiply(inputs(*arrays(np.random.default_rng(len(case[0])), *case)), dtype)
    assert_accurate(y, reference.forward(*rounded), dtype, reference.forward_terms(*rounded))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=150),
    st.integers(12, 80),
    st.integers(1, 3),
    st.sampled_from([None, 1, 2, 5]),
    st.integers(0, 2**16),
)
def test_any_pattern(counts, columns, rows, piece, seed):
    """The pattern holds the matrix, and the product is that of the dense one."""
    rng = np.random.default_rng(seed)
    x, pattern, values = arrays(rng, counts, columns, rows, piece)
    lanes = sorted(pattern.places[pattern.places < len(values)].tolist())
    assert lanes == list(range(len(values)))
    (y,), (x, *_, placed, _, _) = multiply(inputs(x, pattern, values), "float32")
    dense = np.zeros((-(-len(counts) // LANES) * LANES, columns))
    owner = np.repeat(np.arange(len(counts)), counts)
    values = placed[pattern.places < len(values)][np.argsort(pattern.places[pattern.places < len(values)])]
    rng = np.random.default_rng(seed)
    chosen = [np.sort(rng.choice(columns, count, replace=False)) for count in counts]
    dense[owner, np.concatenate([np.zeros(0, int), *chosen]).astype(int)] = values
    assert_accurate(y, x @ dense.T, "float32", 8 * np.abs(x) @ np.abs(dense.T))


WRONG = [
    ("slice_ends", 1, [2, 1, 3]),  # they fall
    ("slice_ends", 1, [-1, 2, 3]),
    ("slice_ends", 1, [1, 2, 4]),  # the last is not the number of positions
    ("group_ends", 4, [2]),
    ("indices", 2, 6),  # beyond the zero behind the last element
    ("indices", 2, -1),
    ("pieces", 5, 3 * LANES + 1),
    ("pieces", 5, -1),
]


@pytest.mark.parametrize(("name", "place", "value"), WRONG)
def test_patterns_that_are_wrong(name, place, value):
    indices, pieces = np.zeros((3, LANES)), np.zeros((3, LANES))
    tensors = [np.ones((1, 5)), np.array([1, 2, 3]), indices, np.ones((3, LANES)), np.array([3]), pieces]
    tensors[place] = np.array(value) if isinstance(value, list) else tensors[place]
    if not isinstance(value, list):
        tensors[place][2, 63] = value
    with pytest.raises(RuntimeError, match="sliced_sparse_matmul"):
        multiply(tensors, "float32")


def test_elements_that_nobody_names_change_nothing():
    x, pattern, values = arrays(np.random.default_rng(0), [2, 1], 6, 1, None)
    named = np.unique(pattern.indices[pattern.indices < 6])
    spoilt = np.full_like(x, np.nan)
    spoilt[:, named] = x[:, named]
    results = [multiply(inputs(given, pattern, values), "float32")[0][0] for given in (x, spoilt)]
    np.testing.assert_array_equal(*results)
