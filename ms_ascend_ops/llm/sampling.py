"""Samples a token from logits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Sampler", "Sampling", "TokenLogprob", "log_probability", "probabilities"]

Array = np.ndarray[Any, Any]

_FEW = 512  # tokens


@dataclass(frozen=True)
class Sampling:
    """Says how tokens are chosen.

    Args:
        temperature: 0 chooses the most likely token; otherwise logits are divided by it.
        top_k: only the k most likely tokens; 0: all.
        top_p: only the most likely tokens whose probabilities together reach p; 1: all.
        min_p: only tokens that are at least min_p times as likely as the most likely one; 0: all.
        repetition_penalty: logits of tokens that occurred are divided by it where positive, multiplied where negative.
        presence_penalty: is taken from the logits of tokens that were generated.
        frequency_penalty: is taken from them once for each time.
        logit_bias: token and what is added to its logit, in pairs.
        seed: of the random numbers; the same seed gives the same tokens. None: another one each time.

    They apply in this order: penalties, bias, temperature, top_k, top_p, min_p.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        rules = (
            ("temperature", self.temperature >= 0, ">= 0"),
            ("top_k", self.top_k >= 0, ">= 0"),
            ("top_p", 0 < self.top_p <= 1, "> 0 and <= 1"),
            ("min_p", 0 <= self.min_p <= 1, ">= 0 and <= 1"),
            ("repetition_penalty", self.repetition_penalty > 0, "> 0"),
            ("presence_penalty", np.isfinite(self.presence_penalty), "finite"),
            ("frequency_penalty", np.isfinite(self.frequency_penalty), "finite"),
            ("logit_bias", all(np.isfinite(bias) for _, bias in self.logit_bias), "finite"),
        )
        for name, kept, rule in rules:
            if not kept:
                raise ValueError(f"sampling: {name} must be {rule}, got {getattr(self, name)}")


class Sampler:
    """Chooses the tokens of one sequence, with random numbers of its own."""

    def __init__(self, sampling: Sampling, prompt: Iterable[int] = ()):
        self.sampling = sampling
        self._random = np.random.default_rng(sampling.seed)
        self._seen = set(prompt)
        self._generated: Counter[int] = Counter()

    def choose(self, logits: Array, allowed: Array | None = None) -> int:
        """Choose the next token.

        Args:
            logits: of the vocabulary.
            allowed: the numbers of the tokens that may be chosen; None: all.

        Raises:
            ValueError: a logit is NaN, or none is finite.
        """
        top = logits.max(initial=-np.inf)
        if np.isnan(top) or not np.isfinite(top):
            raise ValueError(f"sampling: the largest logit must be finite, got {top}: the network has overflowed")
        if self.sampling.repetition_penalty != 1 and self._seen:
            logits = penalized(logits, self._seen, self.sampling.repetition_penalty)
        logits = biased(logits, self.sampling, self._generated)
        token = self._among(logits if allowed is None else logits[allowed])
        token = token if allowed is None else int(allowed[token])
        self._seen.add(token)
        self._generated[token] += 1
        return token

    def _among(self, logits: Array) -> int:
        if self.sampling.temperature == 0:
            return int(logits.argmax())
        tokens, chances = probabilities(logits, self.sampling)
        # Draw one random number a token: a place in the cumulative sum of the probabilities.
        place = int(np.searchsorted(np.cumsum(chances), self._random.random(), side="right"))
        return int(tokens[min(place, len(tokens) - 1)])


def penalized(logits: Array, seen: Iterable[int], penalty: float) -> Array:
    """Make tokens that occurred less likely.

    Source: Keskar et al., CTRL, 2019; negative logits are multiplied, as in transformers.
    """
    logits = logits.copy()
    ids = np.fromiter(seen, np.int64)
    values = logits[ids]
    logits[ids] = np.where(values > 0, values / penalty, values * penalty)
    return logits


def biased(logits: Array, sampling: Sampling, generated: Mapping[int, int]) -> Array:
    """Make generated tokens less likely, and add the logit bias.

    Source: OpenAI's API: c times frequency_penalty, and presence_penalty, for a token that came c times.
    """
    penalizes = bool(generated) and (sampling.presence_penalty != 0 or sampling.frequency_penalty != 0)
    if not penalizes and not sampling.logit_bias:
        return logits
    logits = logits.copy()
    if penalizes:
        ids = np.fromiter(generated, np.int64)
        counts = np.fromiter(generated.values(), np.float64)
        logits[ids] -= sampling.presence_penalty + sampling.frequency_penalty * counts
    for token, bias in sampling.logit_bias:
        logits[token] += bias
    return logits


@dataclass(frozen=True)
class TokenLogprob:
    """Holds the logarithm of the probability of a token, and of the most likely tokens beside it, the likeliest
    first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def log_probability(logits: Array, token: int, count: int = 0) -> TokenLogprob:
    """Return the logarithm of the softmax of a token in float64, before penalties and temperature."""
    values = logits.astype(np.float64)
    highest = values.max()
    total = highest + np.log(np.exp(values - highest).sum())
    top = tuple((int(place), float(values[place] - total)) for place in (_largest(values, count) if count else ()))
    return TokenLogprob(token, float(values[token] - total), top)


def probabilities(logits: Array, sampling: Sampling) -> tuple[Array, Array]:
    """Return tokens that may be chosen, and their probabilities in float64, which sum to 1.

    The most likely come first if top_k or top_p says how many there are; otherwise they come by their numbers.

    Source: Holtzman et al., The Curious Case of Neural Text Degeneration, 2020 (top_p); Nguyen et al., Turning Up the
    Heat, 2024 (min_p).
    """
    scaled = logits.astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled.max())
    if 0 < sampling.top_k < len(scaled):
        tokens = _largest(scaled, sampling.top_k)
        weights = weights[tokens]
        if sampling.top_p < 1:
            weights = _nucleus(weights, sampling.top_p * weights.sum())
            tokens = tokens[: len(weights)]
    elif sampling.top_p < 1:
        # Sorting all would take longer than a layer; a few hundred are mostly enough.
        tokens = _largest(scaled, _FEW)
        if weights[tokens].sum() < sampling.top_p * weights.sum():
            tokens = _largest(scaled, len(scaled))
        total, weights = weights.sum(), weights[tokens]
        weights = _nucleus(weights, sampling.top_p * total)
        tokens = tokens[: len(weights)]
    else:
        tokens = np.arange(len(scaled))
    if sampling.min_p:
        kept = weights >= sampling.min_p * weights.max()
        tokens, weights = tokens[kept], weights[kept]
    return tokens, weights / weights.sum()


def _largest(values: Array, count: int) -> Array:
    """Return where the largest values are, the largest first; of equal ones, those with lower numbers."""
    if count < len(values):
        border = np.partition(values, -count)[-count]
        places = np.flatnonzero(values >= border)
    else:
        places = np.arange(len(values))
    order: Array = places[np.argsort(-values[places], kind="stable")][:count]
    return order


def _nucleus(weights: Array, share: float) -> Array:
    """Return the first weights that together reach a share: the one with which they do is the last."""
    return weights[: int(np.searchsorted(np.cumsum(weights), share, side="left")) + 1]
