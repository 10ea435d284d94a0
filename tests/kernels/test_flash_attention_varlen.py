import numpy as np
import pytest

from ms_ascend_ops.library import get_num_threads, set_num_threads
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.kernels.test_flash_attention import SEEN, TERMS
from tests.native import launch
from tests.reference import flash_attention_varlen as reference

CASES = [  # heads, key heads, head size, value size; lengths of queries, of keys
    (1, 1, 1, 1, [1], [1]),
    (2, 2, 8, 8, [5, 3], [7, 2]),
    (4, 2, 32, 32, [130, 1, 200], [130, 1, 200]),  # several tiles of rows, with tails; one of one row
    (2, 1, 40, 24, [20, 7], [700, 300]),  # several tiles of keys, sizes of their own
    (6, 2, 33, 17, [0, 9, 0, 4, 0], [3, 9, 0, 0, 5]),  # no queries, no keys, neither; queries that see nothing
    (8, 2, 64, 64, [1] * 12, list(range(1, 13))),  # a token of each of many
    (2, 1, 256, 256, [9, 40], [9, 40]),  # heads that leave room for few rows
    (3, 1, 16, 16, [20], [10]),  # with `causal` some queries see no key
    (2, 2, 8, 8, [0, 0], [4, 3]),  # no queries at all
    (2, 2, 8, 8, [4, 3], [0, 0]),  # no keys at all
]


def arrays(rng, case):
    """dout, query, key, value, and both cumulative lengths."""
    heads, key_heads, size, value_size, queries, keys = case
    shapes = [(sum(queries), heads, value_size), (sum(queries), heads, size)]
    shapes += [(sum(keys), key_heads, size), (sum(keys), key_heads, value_size)]
    return [*(draw(rng, shape) / 2 for shape in shapes), np.cumsum(queries), np.cumsum(keys)]


def attributes_of(case, seen):
    causal, window = SEEN[seen]
    return {"scale": case[2] ** -0.5, "causal": causal, "window": window}


def attend(inputs, dtype, **attributes):
    return launch("flash_attention_varlen", inputs, [dtype] * 3 + ["int32"] * 2, **attributes)


def differentiate(inputs, out, lse, dtype, **attributes):
    """Of dout, query, key, value and lengths."""
    dout, *others, query_lengths, key_lengths = inputs
    lse = np.where(np.isfinite(lse), lse, 3e38)
    delta = (out * dout).sum(-1).T
    inputs = [dout, *others, lse, delta, query_lengths, key_lengths]
    dtypes = [dtype] * 4 + ["float32"] * 2 + ["int32"] * 2
    return launch("flash_attention_varlen_grad", inputs, dtypes, **attributes)


@cover("case", CASES, dtype=FLOATS, seen=list(SEEN))
def test_forward(case, dtype, seen):
    inputs = arrays(np.random.default_rng(sum(case[:4])), case)[1:]
    attributes = attributes_of(case, seen)
    (out, lse), rounded = attend(inputs, dtype, **attributes)
    golden, golden_lse = reference.forward(*rounded, **attributes)
    assert_accurate(lse, golden_lse, "float32", np.abs(golden_lse) + 1)
    query, key, value, *lengths = rounded
    terms = reference.forward(query, key, np.abs(value), *lengths, **attributes)[0]
    assert_accurate(out, golden, dtype, terms * TERMS[dtype])


@cover("case", CASES, dtype=FLOATS, seen=list(SEEN))
def test_gradient(case, dtype, seen):
    inputs = arrays(np.random.default_rng(sum(case[:4])), case)
    attributes = attributes_of(case, seen)
    (out, lse), _ = attend(inputs[1:], dtype, **attributes)
    results, rounded = differentiate(inputs, out, lse, dtype, **attributes)
    exact = [*rounded[:4], *rounded[6:]]
    golden = reference.backward(*exact, **attributes)
    terms = reference.backward_terms(*exact, **attributes)
    for result, value, term in zip(results, golden, terms, strict=True):
        assert_accurate(result, value, dtype, term * TERMS[dtype])


def test_gradient_reference_is_the_derivative():
    rng = np.random.default_rng(0)
    dout, *inputs, query_lengths, key_lengths = arrays(rng, (4, 2, 3, 5, [2, 0, 3], [4, 1, 2]))
    lengths, attributes = (query_lengths, key_lengths), {"scale": 0.7, "causal": True, "window": 2}
    for place, gradient in enumerate(reference.backward(dout, *inputs, *lengths, **attributes)):
        for i in np.ndindex(gradient.shape):
            sums = []
            for step in (1e-6, -1e-6):
                moved = [array.copy() for array in inputs]
                moved[place][i] += step
                sums.append((reference.forward(*moved, *lengths, **attributes)[0] * dout).sum())
            assert np.isclose(gradient[i], (sums[0] - sums[1]) / 2e-6, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_sequence_alone_gives_the_same_bits(dtype):
    """What stands beside a sequence has no part in it, whatever it is."""
    rng = np.random.default_rng(0)
    case = (4, 2, 16, 8, [30, 140, 9], [50, 300, 9])
    query, key, value, *lengths = arrays(rng, case)[1:]
    queries, keys = slice(30, 170), slice(50, 350)
    (alone, alone_lse), _ = attend([query[queries], key[keys], value[keys], [140], [300]], dtype, causal=True)
    for array, rows in ((query, queries), (key, keys), (value, keys)):
        array[: rows.start] = np.nan
        array[rows.stop :] = np.inf
    (out, lse), _ = attend([query, key, value, *lengths], dtype, causal=True)
    np.testing.assert_array_equal(out[queries], alone)
    np.testing.assert_array_equal(lse[:, queries], alone_lse)


@pytest.mark.parametrize(
    ("queries", "keys"),
    [
        ([3, 2, 6], [3, 4, 6]),  # falls
        ([-1, 2, 6], [3, 4, 6]),
        ([3, 4, 7], [3, 4, 6]),  # more than there are
        ([3, 4, 5], [3, 4, 6]),  # fewer: rows of no sequence
        ([3, 4, 6], [3, 7, 6]),
        ([3, 4, 6], [3, 4, 5]),
        ([], []),
    ],
    ids=str,
)
def test_wrong_lengths_stop_the_kernel(queries, keys):
    inputs = [np.ones((6, 2, 4))] * 3
    with pytest.raises(RuntimeError, match="Trap"):
        attend([*inputs, np.array(queries), np.array(keys)], "float32")
    (out, _), _ = attend([*inputs, np.array([3, 4, 6]), np.array([3, 4, 6])], "float32")
    np.testing.assert_array_equal(out, 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_results_do_not_depend_on_the_number_of_threads(dtype):
    inputs = arrays(np.random.default_rng(0), (4, 2, 32, 32, [150, 7, 20], [300, 1, 40]))
    results, before = [], get_num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            forward, _ = attend(inputs[1:], dtype, causal=True)
            results.append([*forward, *differentiate(inputs, *forward, dtype, causal=True)[0]])
    finally:
        set_num_threads(before)
    for one, several in zip(*results, strict=True):
        np.testing.assert_array_equal(one, several)
