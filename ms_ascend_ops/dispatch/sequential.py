"""Tells which of two is faster, by a sequential test that may be looked at after every pair of times.

Times of calls have long tails and no known distribution, so the test counts signs. A pair is a time of each, of calls
of one shape bucket close to each other. If both take equally long, each is the faster one of a pair with probability
1/2. Against that stands a mixture over all probabilities with uniform weights: after s wins in n pairs the ratio of the
likelihoods is

    2^n * s! (n - s)! / (n + 1)!

a martingale under equality. By Ville's inequality it ever exceeds 1 / alpha with a probability of at most alpha,
however often it is looked at (Robbins, Statistical Methods Related to the Law of the Iterated Logarithm, 1970).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import median

__all__ = ["SignTest"]

_KEPT = 4096  # ratios for the median: the newest


@dataclass
class SignTest:
    """Times of a candidate beside those of a baseline.

    Args:
        alpha: how likely a decision may be wrong.
        most_pairs: after so many pairs without a decision there is no difference worth having.
        margin: by which share the median of the ratios has to differ from 1 for a decision.
        least_pairs: none is taken before: what disturbs a machine lasts for more than one pair.
    """

    alpha: float = 0.001
    most_pairs: int = 20000
    margin: float = 0.0
    least_pairs: int = 50
    pairs: int = 0
    wins: int = 0  # pairs in which the candidate took less time
    decision: str = ""  # "", "faster", "slower" or "no difference"
    _ratios: deque[float] = field(default_factory=lambda: deque(maxlen=_KEPT))

    def add(self, baseline: float, candidate: float) -> str:
        """One pair; returns the decision, "" while there is none. A tie says nothing."""
        if self.decision or baseline == candidate or baseline <= 0:
            return self.decision
        self.pairs += 1
        self.wins += candidate < baseline
        self._ratios.append(candidate / baseline)
        if self.pairs >= self.least_pairs and self.evidence >= 1 / self.alpha and abs(self.ratio - 1) >= self.margin:
            self.decision = "faster" if 2 * self.wins > self.pairs else "slower"
        elif self.pairs >= self.most_pairs:
            self.decision = "no difference"
        return self.decision

    @property
    def evidence(self) -> float:
        """The ratio of the likelihoods; 1 / alpha decides."""
        n, s = self.pairs, self.wins
        logarithm = n * math.log(2) + math.lgamma(s + 1) + math.lgamma(n - s + 1) - math.lgamma(n + 2)
        return math.exp(min(logarithm, 700))

    @property
    def ratio(self) -> float:
        """The median of candidate / baseline, of the newest pairs; NaN without any."""
        return median(self._ratios) if self._ratios else math.nan
