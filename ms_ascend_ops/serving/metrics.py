"""Counts and times the server's work for Prometheus: `GET /metrics`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from ms_ascend_ops.serving.statistics import Statistics

__all__ = ["CONTENT_TYPE", "Metrics", "ModelMetrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST

_PREFIX = "ms_ascend_ops_serving"
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MODEL = ("model", "version")


class Metrics:
    """Holds all that is counted.

    Without a registry it has one of its own, with memory and CPU time of the process, too.
    """

    def __init__(self, registry: CollectorRegistry | None = None):
        if registry is None:
            registry = CollectorRegistry(auto_describe=True)
            ProcessCollector(registry=registry)
            PlatformCollector(registry=registry)
        self.registry = registry

        def counter(name: str, text: str, labels: tuple[str, ...]) -> Counter:
            return Counter(f"{_PREFIX}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, labels: tuple[str, ...]) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, labels, registry=registry)

        def histogram(
            name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...] = _SECONDS
        ) -> Histogram:
            return Histogram(f"{_PREFIX}_{name}", text, labels, buckets=buckets, registry=registry)

        operation = ("protocol", "operation")
        self._requests = counter("requests", "Answers by protocol, operation and status.", (*operation, "status"))
        self._request_seconds = histogram(
            "request_seconds", "From request to end of answer.", ("protocol", "operation")
        )
        self._in_flight = gauge("requests_in_flight", "Requests without an answer.", ("protocol",))
        self._hung_up = counter("hung_up", "Requests whose client left before the answer.", ("protocol",))
        self.model_requests = counter("model_requests", "Requests that a version of a model took.", _MODEL)
        self.queue_length = gauge("queue_length", "Requests that wait.", _MODEL)
        self.running = gauge("running_sequences", "Sequences that a language model works on.", _MODEL)
        self.cancelled = counter("cancelled", "Requests that left before they were done.", _MODEL)
        self.queue_seconds = histogram("queue_seconds", "Time in the queue.", _MODEL)
        self.run_seconds = histogram("run_seconds", "Time of a run of a network.", _MODEL)
        self.batch_rows = histogram("batch_rows", "Rows of a run of a network.", _MODEL, _ROWS)
        self.tokens = counter("tokens", "Tokens: prompt, those of it in the cache, generated.", (*_MODEL, "kind"))
        self.first_token_seconds = histogram("first_token_seconds", "From request to first text.", _MODEL)

    def arrived(self, protocol: str) -> None:
        """Count a request that came."""
        self._in_flight.labels(protocol).inc()

    def answered(self, protocol: str, operation: str, status: str | int, seconds: float) -> None:
        """Count an answer that is out, or whose client is gone."""
        self._in_flight.labels(protocol).dec()
        self._requests.labels(protocol, operation, str(status)).inc()
        self._request_seconds.labels(protocol, operation).observe(seconds)

    def hung_up(self, protocol: str) -> None:
        """Count a client that left before its answer."""
        self._hung_up.labels(protocol).inc()

    def of_model(self, model: str, version: str) -> ModelMetrics:
        """Return those of one version of a model."""
        return ModelMetrics(self, model, version)

    def text(self) -> bytes:
        """Return what Prometheus reads."""
        return generate_latest(self.registry)


@dataclass(frozen=True)
class ModelMetrics:
    """Holds what is counted for one version of a model."""

    metrics: Metrics
    model: str
    version: str
    statistics: Statistics = field(default_factory=Statistics)

    def requested(self) -> None:
        """Count a request that was given to it."""
        self.metrics.model_requests.labels(self.model, self.version).inc()

    def queued(self, length: int) -> None:
        """Say how many requests wait now."""
        self.metrics.queue_length.labels(self.model, self.version).set(length)

    def waited(self, seconds: float) -> None:
        """Record how long a request was in the queue."""
        self.statistics.add("queue", seconds)
        self.metrics.queue_seconds.labels(self.model, self.version).observe(seconds)

    def ran(self, seconds: float, rows: int, requests: int = 1) -> None:
        """Record a run of the network."""
        self.statistics.ran(seconds, rows, requests)
        self.metrics.run_seconds.labels(self.model, self.version).observe(seconds)
        self.metrics.batch_rows.labels(self.model, self.version).observe(rows)

    def cancelled(self) -> None:
        """Count a request that left before it was done."""
        self.metrics.cancelled.labels(self.model, self.version).inc()

    def working_on(self, sequences: int) -> None:
        """Record how many sequences a language model works on."""
        self.metrics.running.labels(self.model, self.version).set(sequences)

    def first_token(self, seconds: float) -> None:
        """Record when the first text of an answer came."""
        self.metrics.first_token_seconds.labels(self.model, self.version).observe(seconds)

    def counted(self, tokens: Mapping[str, int]) -> None:
        """Count tokens of each kind."""
        for kind, count in tokens.items():
            self.metrics.tokens.labels(self.model, self.version, kind).inc(count)
