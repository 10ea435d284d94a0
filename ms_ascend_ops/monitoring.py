"""Counts calls, latencies, bytes, failures and fallbacks of operators, for Prometheus and OpenTelemetry. docs/trust.md.

    from ms_ascend_ops import monitoring

    monitoring.start()           # from now on; off by default
    monitoring.start(port=9464)  # and /metrics, by prometheus_client's own server

Kernels are counted by the kernel library, whoever calls them: Python, a graph, a language model, PyTorch. A launch adds
to figures of its own thread, which are summed up when Prometheus asks. What is no kernel of a library (a function, a
composition of stock operators) is counted by dispatch where Python calls it. Needs no MindSpore.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_ascend_ops import library
from ms_ascend_ops.dispatch import table

__all__ = ["Figures", "Monitor", "start", "stop"]

_LABELS = ("operator", "version", "shape")
_NANO = 1e-9

Key = tuple[str, str, str]  # operator, version, shape bucket


@dataclass
class Figures:
    """Holds figures of the calls of one key.

    Args:
        calls: how many took up to each bound of the histogram, and longer.
        seconds: of all calls.
        nbytes: of their inputs and outputs.
        failures: calls that raised.
    """

    calls: list[int]
    seconds: float = 0.0
    nbytes: int = 0
    failures: int = 0

    def add(self, other: Figures, sign: int = 1) -> None:
        """Add those of another source; or take away what was there before.

        Args:
            other: what is added.
            sign: 1, or -1 to take it away.
        """
        self.calls = [mine + sign * theirs for mine, theirs in zip(self.calls, other.calls, strict=True)]
        self.seconds += sign * other.seconds
        self.nbytes += sign * other.nbytes
        self.failures += sign * other.failures


class Monitor:
    """Listens to dispatch, and collects figures for prometheus_client.

    With a tracer of OpenTelemetry it hears of every call by Python, and makes a span of each.

    Args:
        tracer: of OpenTelemetry; None: no spans.
    """

    def __init__(self, tracer: Any = None):
        self.every = tracer is not None
        self._tracer = tracer
        # The histogram has these bounds, in seconds.
        self.bounds = [round(nanoseconds * _NANO, 9) for nanoseconds in library.native().count_bounds()]
        self._lock = threading.Lock()
        self._functions: dict[Key, Figures] = {}
        self._failures: dict[Key, int] = {}
        self._fallbacks: dict[Key, int] = {}
        self._before = self._of_libraries()

    def called(self, operator: str, version: str, bucket: str, seconds: float, nbytes: int, counted: bool) -> None:
        """Count a call.

        Args:
            operator: its name.
            version: the implementation that answered.
            bucket: shapes and dtypes, rounded up.
            seconds: how long the call took.
            nbytes: of its inputs and outputs.
            counted: whether the library has counted the call already.
        """
        if not counted:
            with self._lock:
                figures = self._functions.setdefault((operator, version, bucket), self._none())
                figures.calls[bisect_left(self.bounds, seconds)] += 1
                figures.seconds += seconds
                figures.nbytes += nbytes
        if self._tracer is not None:
            self._span(operator, version, bucket, seconds, nbytes)

    def failed(self, operator: str, version: str, kind: str) -> None:
        """Count a failure.

        Args:
            operator: its name.
            version: the implementation that failed.
            kind: as `dispatch.status` names failures.
        """
        with self._lock:
            key = (operator, version, kind)
            self._failures[key] = self._failures.get(key, 0) + 1

    def fell_back(self, operator: str, version: str, to: str) -> None:
        """Count a call that another implementation answered.

        Args:
            operator: its name.
            version: the implementation that should have answered.
            to: the one that did.
        """
        with self._lock:
            key = (operator, version, to)
            self._fallbacks[key] = self._fallbacks.get(key, 0) + 1

    def figures(self) -> dict[Key, Figures]:
        """Return the figures since the start, of libraries and functions."""
        found = self._of_libraries()
        for key, before in self._before.items():
            found.setdefault(key, self._none()).add(before, -1)
        with self._lock:
            for key, mine in self._functions.items():
                found.setdefault(key, self._none()).add(mine)
        return {key: one for key, one in sorted(found.items()) if any(one.calls) or one.failures}

    def collect(self) -> Iterable[Any]:
        """Yield what prometheus_client asks for."""
        from prometheus_client.core import (  # noqa: PLC0415 - of an extra
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        latency = HistogramMetricFamily("ms_ascend_ops_call_seconds", "Time of calls of operators.", labels=_LABELS)
        moved = CounterMetricFamily("ms_ascend_ops_bytes", "Bytes of inputs and outputs.", labels=_LABELS)
        errors = CounterMetricFamily("ms_ascend_ops_errors", "Launches of kernels that raised.", labels=_LABELS)
        for key, one in self.figures().items():
            counts, below = [], 0
            for bound, count in zip([*(f"{bound:g}" for bound in self.bounds), "+Inf"], one.calls, strict=True):
                below += count
                counts.append((bound, below))
            latency.add_metric(key, buckets=counts, sum_value=one.seconds)
            moved.add_metric(key, one.nbytes)
            errors.add_metric(key, one.failures)
        failures = CounterMetricFamily(
            "ms_ascend_ops_failures", "Implementations that dispatch took out.", labels=("operator", "version", "kind")
        )
        fallbacks = CounterMetricFamily(
            "ms_ascend_ops_fallbacks",
            "Calls that another implementation answered.",
            labels=("operator", "version", "to"),
        )
        with self._lock:
            for family, counted in ((failures, self._failures), (fallbacks, self._fallbacks)):
                for names, number in sorted(counted.items()):
                    family.add_metric(names, number)
        out = GaugeMetricFamily(
            "ms_ascend_ops_out", "1: dispatch does not use the implementation now.", labels=("operator", "version")
        )
        for operator in sorted(table.used()):
            for status in table.status(operator):
                out.add_metric((operator, status.version), float(status.state != "closed"))
        yield from (latency, moved, errors, failures, fallbacks, out)

    def _none(self) -> Figures:
        return Figures([0] * (len(self.bounds) + 1))

    def _of_libraries(self) -> dict[Key, Figures]:
        found = {}
        for path, module in library.opened():
            names = {} if path is None else table.versions_of(Path(path))
            for kernel, bucket, calls, nanoseconds, nbytes, failures in module.counts():
                version = "kernel"
                if path is not None:
                    version = names.get(kernel.removesuffix("_grad"), Path(path).name)
                found[kernel, version, bucket] = Figures(list(calls), nanoseconds * _NANO, nbytes, failures)
        return found

    def _span(self, operator: str, version: str, bucket: str, seconds: float, nbytes: int) -> None:
        end = time.time_ns()
        attributes = {"ms_ascend_ops.version": version, "ms_ascend_ops.shape": bucket, "ms_ascend_ops.bytes": nbytes}
        span = self._tracer.start_span(operator, start_time=end - int(seconds / _NANO), attributes=attributes)
        span.end(end_time=end)


_running: list[tuple[Monitor, Any]] = []


def start(port: int | None = None, registry: Any = None, spans: bool = False) -> Monitor:
    """Count from now on.

    Args:
        port: of a server with /metrics; None: none, as an application has one of its own.
        registry: of prometheus_client; default: its global one.
        spans: a span of OpenTelemetry for each call by Python, from the tracer provider that the application has set.

    Raises:
        RuntimeError: it runs already; or prometheus_client, or opentelemetry-api for spans, is not installed.
    """
    if _running:
        raise RuntimeError("monitoring: it runs already; stop() ends it")
    try:
        import prometheus_client  # noqa: PLC0415 - of an extra

        tracer = None
        if spans:
            from opentelemetry import trace  # noqa: PLC0415 - of an extra

            tracer = trace.get_tracer("ms_ascend_ops")
    except ImportError as error:
        raise RuntimeError(
            f"monitoring: {error.name} is not installed: pip install 'ms_ascend_ops[monitoring]'"
        ) from error
    registry = registry or prometheus_client.REGISTRY
    monitor = Monitor(tracer)
    registry.register(monitor)
    _running.append((monitor, registry))
    table.listen(monitor)
    library.count_launches(True)
    if port is not None:
        try:
            prometheus_client.start_http_server(port, registry=registry)
        except OSError:
            stop()
            raise
    return monitor


def stop() -> None:
    """Count no more, and take the figures out of the registry."""
    while _running:
        monitor, registry = _running.pop()
        library.count_launches(False)
        table.unlisten(monitor)
        registry.unregister(monitor)
