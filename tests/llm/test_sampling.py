"""Samplers against their definitions."""

import numpy as np
import pytest

from ms_ascend_ops.llm.sampling import Sampler, Sampling, probabilities

RNG = np.random.default_rng(0)
LOGITS = (3 * RNG.standard_normal(50)).astype(np.float32)


def softmax(logits):
    chances = np.exp(logits.astype(np.float64) - logits.max())
    return chances / chances.sum()


def full(sampling, logits=LOGITS):
    tokens, chances = probabilities(logits, sampling)
    result = np.zeros(len(logits))
    result[tokens] = chances
    return result


def test_greedy():
    assert Sampler(Sampling()).choose(LOGITS) == LOGITS.argmax()
    assert Sampler(Sampling()).choose(np.zeros(4, np.float32)) == 0  # of equal ones, the first


def test_temperature():
    np.testing.assert_allclose(full(Sampling(temperature=0.7)), softmax(LOGITS / 0.7), rtol=1e-6)


def test_top_k():
    kept = np.argsort(-LOGITS)[:5]
    expected = np.zeros(50)
    expected[kept] = softmax(LOGITS[kept])
    np.testing.assert_allclose(full(Sampling(temperature=1, top_k=5)), expected, rtol=1e-6)
    np.testing.assert_allclose(full(Sampling(temperature=1, top_k=90)), softmax(LOGITS), rtol=1e-6)
    tokens, _ = probabilities(np.ones(6, np.float32), Sampling(temperature=1, top_k=2))
    assert tokens.tolist() == [0, 1]  # of equal ones, the first


def test_top_p():
    chances = softmax(LOGITS)
    order = np.argsort(-chances)
    count = next(n for n in range(1, 51) if chances[order[:n]].sum() >= 0.8)
    expected = np.zeros(50)
    expected[order[:count]] = chances[order[:count]] / chances[order[:count]].sum()
    np.testing.assert_allclose(full(Sampling(temperature=1, top_p=0.8)), expected, rtol=1e-6)
    np.testing.assert_allclose(full(Sampling(temperature=1, top_p=0.8, top_k=50)), expected, rtol=1e-6)
    tokens, _ = probabilities(LOGITS, Sampling(temperature=1, top_p=1e-9))
    assert tokens.tolist() == [LOGITS.argmax()]


@pytest.mark.parametrize("top_p", [0.5, 0.999])
def test_top_p_of_many_tokens(top_p):
    """More tokens than are looked at first, of which these are enough, or are not."""
    logits = RNG.standard_normal(3000).astype(np.float32) * (4 if top_p == 0.5 else 0.1)
    chances = softmax(logits)
    order = np.argsort(-chances, kind="stable")
    count = int((np.cumsum(chances[order]) < top_p).sum()) + 1
    tokens, kept = probabilities(logits, Sampling(temperature=1, top_p=top_p))
    assert (count > 512) == (top_p > 0.9)
    np.testing.assert_array_equal(tokens, order[:count])
    np.testing.assert_allclose(kept, chances[tokens] / chances[tokens].sum(), rtol=1e-6)


def test_min_p():
    chances = softmax(LOGITS)
    expected = np.where(chances >= 0.1 * chances.max(), chances, 0)
    np.testing.assert_allclose(full(Sampling(temperature=1, min_p=0.1)), expected / expected.sum(), rtol=1e-6)


def test_order():
    """top_p sees what top_k has left, with probabilities that sum to 1 again."""
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.1], np.float32))
    tokens, chances = probabilities(logits, Sampling(temperature=1, top_k=2, top_p=0.6))
    assert tokens.tolist() == [0, 1]
    tokens, chances = probabilities(logits, Sampling(temperature=1, top_k=2, top_p=0.55))
    assert tokens.tolist() == [0]
    np.testing.assert_allclose(chances, [1])


def test_repetition_penalty():
    logits = np.array([2.0, 1.9, -1.0, -0.9], np.float32)
    assert Sampler(Sampling(repetition_penalty=1.2), prompt=[0]).choose(logits) == 1
    only_negative = np.array([-1.0, -1.1], np.float32)
    assert Sampler(Sampling(repetition_penalty=1.2), prompt=[0]).choose(only_negative) == 1
    sampler = Sampler(Sampling(repetition_penalty=1.2))
    assert [sampler.choose(logits) for _ in range(2)] == [0, 1]
    np.testing.assert_array_equal(logits, np.array([2.0, 1.9, -1.0, -0.9], np.float32))


def test_frequencies():
    """Of 5000 draws, each token as often as its probability says, within 5 standard deviations."""
    sampling = Sampling(temperature=1.3, top_k=10, seed=7)
    sampler, draws = Sampler(sampling), 5000
    counts = np.bincount([sampler.choose(LOGITS) for _ in range(draws)], minlength=50)
    expected = full(sampling) * draws
    assert (np.abs(counts - expected) <= 5 * np.sqrt(expected) + 1e-9).all()


def test_seed():
    def draw(seed):
        sampler = Sampler(Sampling(temperature=2, seed=seed))
        return [sampler.choose(LOGITS) for _ in range(20)]

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": -1}, "temperature must be >= 0, got -1"),
        ({"top_k": -1}, "top_k must be >= 0"),
        ({"top_p": 0}, "top_p must be > 0 and <= 1, got 0"),
        ({"min_p": 1.5}, "min_p must be >= 0 and <= 1"),
        ({"repetition_penalty": 0}, "repetition_penalty must be > 0"),
        ({"temperature": float("nan")}, "temperature must be >= 0, got nan"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=f"sampling: {message}"):
        Sampling(**arguments)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_overflow(value):
    with pytest.raises(ValueError, match="largest logit must be finite"):
        Sampler(Sampling()).choose(np.full(4, value, np.float32))


def test_tokens_that_are_ruled_out():
    logits = np.array([-np.inf, 0, -np.inf], np.float32)
    sampler = Sampler(Sampling(temperature=1, seed=0))
    assert {sampler.choose(logits) for _ in range(50)} == {1}
