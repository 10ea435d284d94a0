"""Perplexity against the float64 network."""

import numpy as np
import pytest

from ms_ascend_ops.llm.perplexity import perplexity
from tests.llm import reference, tiny
from tests.llm.test_network import executor, ids


def loss(weights, tokens, targets):
    rows = reference.logits(tiny.CONFIG, weights, tokens)
    chances = np.log(np.exp(rows - rows.max(-1, keepdims=True)).sum(-1)) + rows.max(-1)
    return [chances[i] - rows[i, targets[i]] for i in range(len(tokens))]


@pytest.mark.parametrize("step", [None, 4])
def test_windows(tmp_path, step):
    runs, weights = executor(tmp_path)
    tokens = ids(210)
    results = list(perplexity(runs, tokens, 100, step=step))
    losses = [
        value for first in (0, 100) for value in loss(weights, tokens[first : first + 99], tokens[first + 1 :])[49:]
    ]
    assert [result.tokens for result in results] == [50, 100]
    assert results[-1].value == pytest.approx(np.exp(np.mean(losses)), rel=1e-5)
    error = np.exp(np.mean(losses)) * np.std(losses, ddof=1) / 10
    assert results[-1].error == pytest.approx(error, rel=1e-4)


def test_first_token(tmp_path):
    runs, weights = executor(tmp_path)
    tokens = ids(100)
    (result, *_) = perplexity(runs, tokens, 50, begin=7)
    expected = loss(weights, [7, *tokens[1:49]], tokens[1:])[24:]
    assert result.value == pytest.approx(np.exp(np.mean(expected)), rel=1e-5)


def test_short_text(tmp_path):
    runs, weights = executor(tmp_path)
    tokens = ids(30)
    (result,) = perplexity(runs, tokens, 100)
    assert result.tokens == 29
    assert result.value == pytest.approx(np.exp(np.mean(loss(weights, tokens[:-1], tokens[1:]))), rel=1e-5)


def test_bad_arguments(tmp_path):
    runs, _ = executor(tmp_path)
    with pytest.raises(ValueError, match="at least 2 tokens, got 1"):
        next(perplexity(runs, [1], 100))
    with pytest.raises(ValueError, match="window must be 2 to 256, got 999"):
        next(perplexity(runs, ids(50), 999))
