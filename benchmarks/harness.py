"""Measures providers, alternating, after it has checked that they compute the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ms_ascend_ops.benchmarks.providers import PROVIDERS, REFERENCE, Prepared
from ms_ascend_ops.samples.cases import Case
from numpy.typing import NDArray

from ms_ascend_ops import loop_compiler
from ms_ascend_ops.library import native

__all__ = ["TOLERANCES", "Outcome", "Result", "Sampling", "measure", "repeat", "wait_until_idle", "warm_up"]

# How far a result may be from ours, as a share of the largest magnitude: a few roundings of the dtype, and for the
# gradient of gamma the sum over all rows.
TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 4e-2}


_LONG_CALL_SECONDS = 0.1
_IDLE_SECONDS = 0.004


@dataclass(frozen=True)
class Sampling:
    """Says how long to measure. Each round measures every provider: an idle time, untimed calls, then timed ones.

    What a provider has left of the caches to the next one takes that some calls to get back, so all make as many: a
    slower one would be measured with colder caches than a copy otherwise.
    """

    rounds: int = 15
    idle_seconds: float = 0.2  # at most: until no thread of the provider before spins any more, OpenMP's for 30 ms
    untimed_seconds: float = 0.004
    untimed_calls: int = 8
    timed_seconds: float = 0.02
    timed_calls: int = 4
    warm_up_seconds: float = 0.05  # twice, before the first round
    most_seconds: float = 3.0  # for one provider and case; at least three rounds are made


@dataclass
class Result:
    """Holds one provider on one case: seconds of every call, or the reason why there are none."""

    provider: str
    seconds: list[float] = field(default_factory=list)
    reason: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Outcome:
    """Holds the results of all providers on one case."""

    case: Case
    results: dict[str, Result]

    def fastest(self, names: list[str]) -> Result | None:
        """Return the fastest of these providers that was measured."""
        measured = [self.results[name] for name in names if name in self.results and self.results[name].seconds]
        return min(measured, key=lambda result: result.median, default=None)


def measure(case: Case, names: list[str], threads: int, sampling: Sampling, tell: Callable[[str], None]) -> Outcome:
    """Check and time the providers on one case. `tell` is told what is going on."""
    results = {name: Result(name) for name in names}
    reference = [values.copy() for values in _check(PROVIDERS[REFERENCE].prepare(case, threads), None, case)]
    ready: dict[str, Prepared] = {}
    for name in names:
        tell(f"{case.name}: preparing {name}")
        try:
            prepared = PROVIDERS[name].prepare(case, threads)
            _check(prepared, reference, case)
            ready[name] = prepared
        except Exception as error:  # whatever another library raises is the reason
            results[name].reason = _one_line(error)
        else:
            with prepared.turn():
                warm_up(prepared.run, sampling.warm_up_seconds)
    tell(case.name)
    spent = dict.fromkeys(ready, 0.0)
    for index in range(sampling.rounds):
        for name, prepared in ready.items():
            if index >= 3 and spent[name] > sampling.most_seconds:
                continue
            start = time.perf_counter()
            wait_until_idle(sampling.idle_seconds)
            with prepared.turn():
                repeat(prepared.run, sampling.untimed_seconds, sampling.untimed_calls)
                results[name].seconds += repeat(prepared.run, sampling.timed_seconds, sampling.timed_calls)
            spent[name] += time.perf_counter() - start
    return Outcome(case, results)


def wait_until_idle(seconds: float) -> None:
    """Wait until all threads of this process are idle, but no longer than that."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        busy = time.process_time()
        time.sleep(_IDLE_SECONDS)
        if time.process_time() - busy < _IDLE_SECONDS / 10:
            return


def warm_up(run: Callable[[], Any], seconds: float = Sampling.warm_up_seconds) -> None:
    """Run as long as our loops need to be recorded and compiled. What follows a first compiled one may be recorded
    later; calls so long that one fills the time are not made for that again.
    """
    for _ in range(2):
        calls = repeat(run, seconds)
        loop_compiler.wait(native())
        if len(calls) == 1:
            break


def repeat(run: Callable[[], Any], seconds: float, calls: int = 1) -> list[float]:
    """Call at least so many times, until the time is over. Returns the seconds of every call.

    Calls that take a tenth of a second and more are made once: for these it makes no difference what came before.
    """
    times: list[float] = []
    start = time.perf_counter()
    end = start + seconds
    while start < end or not times or (len(times) < calls and times[0] < _LONG_CALL_SECONDS):
        run()
        now = time.perf_counter()
        times.append(now - start)
        start = now
    return times


def _check(prepared: Prepared, reference: list[NDArray[Any]] | None, case: Case) -> list[NDArray[Any]]:
    """Return the results of one call, as float32; they must be those of `reference`."""
    with prepared.turn():
        results = [np.asarray(values, np.float32) for values in prepared.results(prepared.run())]
    if reference is None or not results:
        return results
    for values, expected in zip(results, reference, strict=True):
        error = float(np.abs(values - expected).max() / (np.abs(expected).max() or 1.0))
        if not error <= case.operator.tolerances.get(case.dtype, TOLERANCES[case.dtype]):  # a NaN is an error too
            raise ValueError(f"wrong result, not timed: differs by {error:.1e} of the largest magnitude")
    return results


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip(" -")]
    unsupported = [line for line in lines if line.startswith("Unsupported op")]
    text = (unsupported or lines or [type(error).__name__])[0]
    return text.partition(", Please")[0][:120]
