"""Decides which implementation answers a call: `Fixed`, `Fastest` or `AB`."""

from __future__ import annotations

import logging
import random
import zlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ms_ascend_ops.deprecation import warn_renamed
from ms_ascend_ops.dispatch.implementations import Form, Implementation
from ms_ascend_ops.dispatch.measurements import Measurements
from ms_ascend_ops.dispatch.sequential import SignTest

if TYPE_CHECKING:
    from ms_ascend_ops.dispatch.comparison import Difference  # imports MindSpore

__all__ = ["AB", "CallSite", "Fastest", "Fixed", "Policy", "request"]

_log = logging.getLogger("ms_ascend_ops.dispatch")
_request: ContextVar[str | None] = ContextVar("ms_ascend_ops_request", default=None)


@contextmanager
def request(identifier: object) -> Iterator[None]:
    """Say that the calls of this block belong to one request: with `AB(by="request")` all go to the same side.

    Args:
        identifier: anything whose text tells requests apart.
    """
    token = _request.set(str(identifier))
    try:
        yield
    finally:
        _request.reset(token)


class CallSite(Protocol):
    """Tells a policy where an operator is called: one operator, one set of attributes, one device."""

    operator: str

    def key(self, form: Form) -> str:
        """The name of a call's kind in the cache of what was measured."""

    def able(self, form: Form) -> tuple[Implementation, ...]:
        """Return those that can answer such a call."""

    def measure(self, form: Form, tensors: tuple[Any, ...], budget: float) -> dict[str, float]:
        """Medians in microseconds by identity, of all that can answer; infinite where one fails or is wrong."""

    def difference(self, tensors: tuple[Any, ...], results: Any, version: str) -> Difference | None:
        """Compare results with another implementation's; None where that cannot answer, or inputs are written."""

    def take_out(self, version: str, kind: str, why: str, forever: bool = False) -> None:
        """Open the breaker of an implementation."""

    def decided(self) -> None:
        """The policy came to a decision."""


class Policy:
    """Names the implementations that are to answer a call, best first. Others follow in their own order."""

    timed = False  # whether `took` wants to know how long a call took
    is_stable = True  # whether calls with equal shapes and dtypes have the same order, until something changes

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "settled" in vars(cls):
            warn_renamed(f"{cls.__qualname__}.settled", "is_stable")
            cls.is_stable = vars(cls)["settled"]

    def check(self, operator: str, versions: list[str]) -> None:
        """Check that the operator has the implementations that the policy names.

        Args:
            operator: its name.
            versions: the implementations that it has.

        Raises:
            ValueError: it has not.
        """

    def order(self, site: CallSite, form: Form, tensors: tuple[Any, ...]) -> tuple[str, ...]:
        """Name the implementations that may answer a call by Python, best first.

        Args:
            site: where the operator is called.
            form: shapes and dtypes of the call.
            tensors: its inputs.
        """
        raise NotImplementedError

    def order_in_graph(self, site: CallSite, form: Form) -> tuple[tuple[str, ...], str]:
        """Name those that may be put into a graph, and say why. Nothing is measured there.

        Args:
            site: where the operator is called.
            form: shapes and dtypes, where they are known.
        """
        raise NotImplementedError

    def took(self, site: CallSite, form: Form, version: str, seconds: float, tensors: tuple[Any, ...], out: Any) -> str:
        """Learn of a call that has ended, if `timed`.

        Args:
            site: where the operator was called.
            form: shapes and dtypes of the call.
            version: the implementation that answered.
            seconds: how long it took.
            tensors: the inputs of the call.
            out: its results.

        Returns:
            Why its results may not be used; empty: they may.
        """
        return ""

    def describe(self) -> str:
        """Describe the policy in one line, for a report."""
        raise NotImplementedError


@dataclass(frozen=True)
class Fixed(Policy):
    """The first of these versions that can answer; none given: the order in which an operator has them.

    Args:
        versions: their names, best first.
    """

    versions: tuple[str, ...] = ()

    def __init__(self, *versions: str):
        object.__setattr__(self, "versions", versions)

    def check(self, operator: str, versions: list[str]) -> None:
        for version in self.versions:
            _known(operator, version, versions)

    def order(self, site: CallSite, form: Form, tensors: tuple[Any, ...]) -> tuple[str, ...]:
        return self.versions

    def order_in_graph(self, site: CallSite, form: Form) -> tuple[tuple[str, ...], str]:
        return self.versions, self.describe()

    def describe(self) -> str:
        return f"fixed: {', '.join(self.versions)}" if self.versions else "fixed"


class Fastest(Policy):
    """The fastest one, measured once for each shape bucket, on the tensors of its first call.

    Implementations whose results differ from the first one's beyond rounding are left out. A graph takes what was
    measured before, and is never measured itself.

    Args:
        cache: the file of what was measured; default: that of `measurements.default_path`.
        budget: seconds for a measurement of one implementation, after a warm-up as long.
    """

    def __init__(self, cache: str | Path | None = None, budget: float = 0.02):
        self._cache = Path(cache) if cache is not None else None
        self.budget = budget
        self._measurements: Measurements | None = None

    @property
    def measurements(self) -> Measurements:
        """Return what was measured so far, on this machine."""
        if self._measurements is None:
            self._measurements = Measurements(self._cache)
        return self._measurements

    def order(self, site: CallSite, form: Form, tensors: tuple[Any, ...]) -> tuple[str, ...]:
        known = self._known(site, form)
        if known is None:
            times = site.measure(form, tensors, self.budget)
            if not times:
                return ()
            self.measurements.keep(site.key(form), times)
            known = self._known(site, form) or ()
        return known

    def order_in_graph(self, site: CallSite, form: Form) -> tuple[tuple[str, ...], str]:
        known = self._known(site, form)
        if known is None:
            return (), "not measured for these shapes: the first in order"
        return known, f"fastest, measured for {form.bucket}"

    def _known(self, site: CallSite, form: Form) -> tuple[str, ...] | None:
        """None: something that could answer was not measured."""
        names = {one.identity: one.version for one in site.able(form)}
        times = self.measurements.times(site.key(form))
        if times is None or not set(names) <= set(times):
            return None
        return tuple(names[identity] for identity in sorted(names, key=lambda identity: times[identity]))

    def describe(self) -> str:
        return f"fastest, by {self.measurements.path}"


@dataclass
class AB(Policy):
    """A share of the calls goes to a candidate, until a sequential test says which one is faster.

    Then the faster one gets all of them, unless `promote` is False. A candidate whose results differ from the
    baseline's beyond rounding has lost at once. Times are those of calls by Python, results included, that each follow
    one of the other side; a graph takes the baseline, or the winner.

    Args:
        candidate: its version.
        baseline: the other one.
        share: of the calls, or requests, that go to the candidate.
        by: "call", or "request": all calls within a block of `request` go to one side.
        compare: of the candidate's calls, the share whose results are compared with the baseline's.
        alpha: how likely the test may be wrong.
        margin: by which share the median time has to differ for a decision.
        most_pairs: after so many pairs of times without a decision, there is no difference.
        warm_up: the first calls of each side in a shape bucket that do not count.
        promote: whether the winner gets all calls.
        seed: of the random choices.
    """

    candidate: str
    baseline: str = "kernel"
    share: float = 0.5
    by: str = "call"
    compare: float = 0.05
    alpha: float = 0.001
    margin: float = 0.05
    most_pairs: int = 20000
    warm_up: int = 10
    promote: bool = True
    seed: int = 0
    timed = True
    is_stable = False
    verdict: str = field(default="", init=False)  # "", "faster", "slower", "no difference" or "wrong"
    differences: list[float] = field(default_factory=list, init=False)  # ULP, of each compared call
    calls: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not 0 < self.share < 1 or not 0 <= self.compare <= 1 or not 0 < self.alpha < 1 or self.margin < 0:
            raise ValueError(
                f"AB: share and alpha must be within 0 and 1, compare 0 to 1, margin 0 or more, got {self.share}, "
                f"{self.alpha}, {self.compare}, {self.margin}"
            )
        if self.by not in ("call", "request"):
            raise ValueError(f"AB: by must be 'call' or 'request', got {self.by!r}")
        if self.candidate == self.baseline:
            raise ValueError(f"AB: candidate and baseline must be two versions, got {self.candidate!r} twice")
        self.test = SignTest(self.alpha, self.most_pairs, self.margin)
        self._random = random.Random(self.seed)
        self._seen: dict[tuple[str, str], int] = defaultdict(int)
        self._last: dict[str, str] = {}  # by bucket, who answered
        self._waiting: dict[str, float] = {}  # by bucket, the first time of a pair

    def check(self, operator: str, versions: list[str]) -> None:
        _known(operator, self.candidate, versions)
        _known(operator, self.baseline, versions)

    @property
    def winner(self) -> str:
        """Whom the verdict favours; empty: there is none yet."""
        if not self.verdict:
            return ""
        return self.candidate if self.verdict == "faster" else self.baseline

    def order(self, site: CallSite, form: Form, tensors: tuple[Any, ...]) -> tuple[str, ...]:
        if self.winner and (self.promote or self.verdict == "wrong"):
            return (self.winner,)
        identifier = _request.get() if self.by == "request" else None
        if identifier is not None:
            taken = zlib.crc32(f"{self.seed}:{identifier}".encode()) < self.share * 2**32
        else:
            taken = self._random.random() < self.share
        return (self.candidate, self.baseline) if taken else (self.baseline, self.candidate)

    def order_in_graph(self, site: CallSite, form: Form) -> tuple[tuple[str, ...], str]:
        if self.winner and self.promote:
            return (self.winner,), f"winner of {self.describe()}"
        return (self.baseline,), "a graph is not split: the baseline"

    def took(self, site: CallSite, form: Form, version: str, seconds: float, tensors: tuple[Any, ...], out: Any) -> str:
        self.calls[version] = self.calls.get(version, 0) + 1
        if self.verdict or version not in (self.candidate, self.baseline):
            return ""
        if version == self.candidate and self._random.random() < self.compare:
            difference = site.difference(tensors, out, self.baseline)
            if difference is not None:
                self.differences.append(difference.ulps)
                if difference.reasons:
                    why = "; ".join(difference.reasons)
                    self._decide(site, "wrong", why)
                    return why
        bucket = form.bucket
        self._seen[version, bucket] += 1
        if self._seen[version, bucket] <= self.warm_up:
            return ""
        # A pair is of calls that each follow one of the other side, close to each other: what a change of sides costs
        # (caches, threads that sleep) is in both. Which side is the first of a pair is drawn, too.
        changed, self._last[bucket] = self._last.get(bucket, version) != version, version
        if not changed:
            return ""
        before = self._waiting.pop(bucket, None)
        if before is None:
            if self._random.random() < 0.5:
                self._waiting[bucket] = seconds
            return ""
        pair = (before, seconds) if version == self.candidate else (seconds, before)
        if decision := self.test.add(*pair):
            self._decide(site, decision, f"median ratio {self.test.ratio:.3f} in {self.test.pairs} pairs")
        return ""

    def _decide(self, site: CallSite, verdict: str, why: str) -> None:
        self.verdict = verdict
        _log.warning("%s: %s is %s beside %s: %s", site.operator, self.candidate, verdict, self.baseline, why)
        if verdict == "wrong":
            site.take_out(self.candidate, "wrong result", why, forever=True)
        site.decided()

    def describe(self) -> str:
        state = self.verdict or "undecided"
        return f"A/B of {self.candidate} beside {self.baseline}: {state} after {self.test.pairs} pairs"


def _known(operator: str, version: str, versions: list[str]) -> None:
    if version not in versions:
        raise ValueError(f"{operator}: there is no implementation {version!r}; there are {', '.join(versions)}")
