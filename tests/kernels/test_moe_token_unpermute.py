import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.acceptance import assert_accurate, assert_close
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import moe_token_unpermute as reference

CASES = [  # tokens, experts of a token, elements of a token
    (1, 1, 1),
    (1, 2, 64),  # one token
    (5, 2, 7),  # rows that fill no block
    (300, 8, 130),  # several chunks and cores, with tails
    (4, 3, 9000),  # tokens in pieces, with tails
    (2, 256, 24),  # as many experts as there may be
    (7, 3, 0),  # tokens without elements
    (0, 2, 8),  # no tokens
]
TYPES = [
    ("float16", "float16"),
    ("float16", "float32"),
    ("bfloat16", "bfloat16"),
    ("bfloat16", "float32"),
    ("float32", "float32"),
]


def arrays(rng, case, has_probs):
    """dtokens, permuted, sorted_indices, probs."""
    count, chosen, size = case
    places = rng.permutation(count * chosen).reshape(count, chosen)
    probs = rng.uniform(size=(count, chosen)) if has_probs else None
    return draw(rng, (count, size)), draw(rng, (count, chosen, size)), places, probs


def add_up(inputs, types):
    return launch("moe_token_unpermute", inputs, [types[0], "int32", types[1]])


def differentiate(inputs, types):
    return launch("moe_token_unpermute_grad", inputs, [types[0], types[0], "int32", types[1]])


def check(case, types, has_probs):
    """Forward and gradient."""
    inputs = arrays(np.random.default_rng(sum(case)), case, has_probs)
    (y,), rounded = add_up(inputs[1:], types)
    magnitudes = [None if x is None else np.abs(x) for x in rounded]
    assert_accurate(y, reference.forward(*rounded), types[0], reference.forward(*magnitudes))
    results, rounded = differentiate(inputs, types)
    golden, terms = reference.backward(*rounded), reference.backward_terms(*rounded)
    for result, value, term, dtype in zip(results, golden, terms, (types[0], "float32"), strict=True):
        assert_accurate(result, value, dtype, term)


@cover("case", CASES, types=TYPES, has_probs=[True, False])
def test_forward_and_gradient(case, types, has_probs):
    check(case, types, has_probs)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(1, 90), st.integers(1, 12), st.integers(1, 300), st.sampled_from(TYPES), st.booleans())
def test_any_tokens(count, chosen, size, types, has_probs):
    check((count, chosen, size), types, has_probs)


@pytest.mark.parametrize("wrong", [-1, 600, 2**31 - 1])
def test_a_row_that_there_is_not(wrong):
    types = ("float32", "float32")
    dtokens, permuted, places, probs = arrays(np.random.default_rng(0), (300, 2, 100), True)
    places[-1, 1] = wrong
    with pytest.raises(RuntimeError, match="moe_token_unpermute"):
        add_up([permuted, places, probs], types)
    with pytest.raises(RuntimeError, match="moe_token_unpermute_grad"):
        differentiate([dtokens, permuted, places, probs], types)


def test_nan_stays_with_its_token():
    _, permuted, places, probs = arrays(np.random.default_rng(0), (5, 2, 40), True)
    expected = reference.forward(permuted, places, probs)
    permuted.reshape(10, 40)[places[3, 1]] = np.nan
    probs[3, 1] = 0
    (y,), _ = add_up([permuted, places, probs], ("float32", "float32"))
    assert np.isnan(y[3]).all()
    assert_close(np.delete(y, 3, 0), np.delete(expected, 3, 0), rtol=1e-5, atol=1e-5)
