"""Writes statistics and configurations of models, as Triton's extensions have them.

Source: https://github.com/triton-inference-server/server (docs/protocol: extension_statistics.md,
extension_model_configuration.md).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ms_ascend_ops.serving.service import Version

__all__ = ["DATA_TYPES", "Statistics", "config_of", "statistics_of"]

_NS = 1_000_000_000
# inference.DataType of Triton: the place is the number.
DATA_TYPES = (
    "TYPE_INVALID", "TYPE_BOOL", "TYPE_UINT8", "TYPE_UINT16", "TYPE_UINT32", "TYPE_UINT64", "TYPE_INT8", "TYPE_INT16",
    "TYPE_INT32", "TYPE_INT64", "TYPE_FP16", "TYPE_FP32", "TYPE_FP64", "TYPE_STRING", "TYPE_BF16",
)  # fmt: skip
_DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")


class Statistics:
    """Counts what one version of a model did so far, and its times. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._batches: dict[int, tuple[int, float]] = {}
        self._last_ms = self._inferences = self._executions = 0

    def add(self, name: str, seconds: float, count: int = 1) -> None:
        """Count requests that spent this time in all with `name`: "success", "fail", "queue" and so on."""
        with self._lock:
            self._counts[name] += count
            self._seconds[name] += seconds
            if name in ("success", "fail"):
                self._last_ms = round(time.time() * 1000)

    def ran(self, seconds: float, rows: int, requests: int) -> None:
        """Record a run of a network with the rows of some requests."""
        self.add("compute_infer", seconds * requests, requests)
        with self._lock:
            self._inferences += rows
            self._executions += 1
            count, total = self._batches.get(rows, (0, 0.0))
            self._batches[rows] = count + 1, total + seconds

    def fields(self) -> dict[str, Any]:
        """Return them as the protocol has them."""
        with self._lock:
            return {
                "last_inference": self._last_ms,
                "inference_count": self._inferences,
                "execution_count": self._executions,
                "inference_stats": {name: _duration(self._counts[name], self._seconds[name]) for name in _DURATIONS},
                "batch_stats": [
                    {"batch_size": rows, "compute_infer": _duration(count, seconds)}
                    for rows, (count, seconds) in sorted(self._batches.items())
                ],
            }


def _duration(count: int, seconds: float) -> dict[str, int]:
    return {"count": count, "ns": round(seconds * _NS)}


def statistics_of(version: Version) -> dict[str, Any]:
    """Return the statistics of a version."""
    return {"name": version.name, "version": str(version.number), **version.metrics.statistics.fields()}


def config_of(version: Version) -> dict[str, Any]:
    """Return the configuration of a version: what of it Triton has a field for."""
    batches = not version.is_language_model and version.options.max_batch_size > 1

    def tensors(specs: Any) -> list[dict[str, Any]]:
        # The axis of the batch is not among the dimensions there, either.
        return [
            {"name": one["name"], "data_type": f"TYPE_{one['datatype']}", "dims": one["shape"][1 if batches else 0 :]}
            for one in (spec.metadata() for spec in specs)
        ]

    config: dict[str, Any] = {
        "name": version.name,
        "platform": version.platform,
        "backend": "ms_ascend_ops",
        "max_batch_size": version.options.max_batch_size if batches else 0,
        "input": tensors(version.inputs),
        "output": tensors(version.outputs),
    }
    if batches:
        delay = round(version.options.batch_delay_ms * 1000)
        config["dynamic_batching"] = {"max_queue_delay_microseconds": delay}
    return config
