import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_ascend_ops.library import get_num_threads, set_num_threads
from tests.cover import cover
from tests.dtypes import FLOATS, decode, encode
from tests.inputs import draw
from tests.native import launch
from tests.reference import moe_token_permute as reference

CASES = [  # tokens, experts of a token, experts, elements of a token
    (1, 1, 1, 1),
    (1, 2, 8, 64),  # one token
    (5, 2, 4, 7),  # rows that fill no block
    (40, 2, 8, 130),
    (700, 8, 60, 33),  # several cores and tiles, with tails
    (300, 6, 1024, 16),  # as many experts as there may be, most without tokens
    (64, 1, 3, 20000),  # tokens in pieces
    (3, 256, 300, 8),  # as many experts of a token as there may be
    (20, 3, 5, 0),  # tokens without elements
    (0, 2, 4, 8),  # no tokens
]


def permute(tokens, indices, experts, dtype):
    return launch("moe_token_permute", [tokens, indices], [dtype, "int32"], num_experts=experts)[0]


def check(tokens, indices, experts, dtype):
    results = permute(tokens, indices, experts, dtype)
    for result, golden in zip(
        results, reference.forward(decode(encode(tokens, dtype), dtype), indices, experts), strict=True
    ):
        np.testing.assert_array_equal(result, golden)


@cover("case", CASES, dtype=FLOATS)
def test_forward(case, dtype):
    count, chosen, experts, size = case
    rng = np.random.default_rng(sum(case))
    check(draw(rng, (count, size)), rng.integers(0, experts, (count, chosen)), experts, dtype)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.integers(0, 200), st.integers(1, 9), st.integers(1, 40), st.integers(1, 90), st.integers(0, 99))
def test_any_tokens(count, chosen, experts, size, seed):
    """Experts drawn from some of them only."""
    rng = np.random.default_rng(seed)
    first = int(rng.integers(0, experts))
    check(rng.normal(size=(count, size)), rng.integers(first, experts, (count, chosen)), experts, "float32")


@pytest.mark.parametrize("expert", [0, 3, 6])
def test_all_tokens_at_one_expert(expert):
    check(np.arange(600.0).reshape(200, 3), np.full((200, 2), expert), 7, "float32")


def test_bits_are_copied():
    tokens = np.array([[np.nan, -0.0], [np.inf, 1e-40], [-np.inf, 3.0]])
    permuted = permute(tokens, [[2], [0], [1]], 3, "float32")[0]
    np.testing.assert_array_equal(permuted[:, 0], np.float32(tokens)[[1, 2, 0]])
    assert np.signbit(permuted[2, 0, 1])


@pytest.mark.parametrize("wrong", [-1, 4, 2**31 - 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_an_expert_that_there_is_not(wrong, threads):
    indices, before = np.zeros((300, 2), int), get_num_threads()
    indices[-1, 1] = wrong
    try:
        set_num_threads(threads)
        with pytest.raises(RuntimeError, match="moe_token_permute"):
            permute(np.ones((300, 100)), indices, 4, "float32")
    finally:
        set_num_threads(before)
