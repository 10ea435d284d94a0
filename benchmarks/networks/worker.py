"""Runs one variant of a network in a process of its own: its peak memory, or its time by operator.

`python -m ms_ascend_ops.benchmarks.networks.worker memory|profile '{"mindir": ..., "inputs": ..., "seconds": ...}'`
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CALLS = 20


def main(task: str, arguments: dict[str, str]) -> dict[str, Any]:
    """Do a task; see `_memory` and `_profile`."""
    import mindspore as ms

    ms.set_context(mode=ms.GRAPH_MODE)
    tasks: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"memory": _memory, "profile": _profile}
    return tasks[task](arguments)


def _prepared(arguments: dict[str, str]) -> Callable[[], Any]:
    from ms_ascend_ops.benchmarks.networks import target, variants

    if "mindir" not in arguments:
        made = target.build(arguments["network"], arguments["size"], arguments["dtype"])
        return variants.training_step(made, arguments["variant"])
    import numpy as np
    from mindspore import Tensor
    from ms_ascend_ops.export import load

    with np.load(arguments["inputs"]) as stored:
        arrays = [stored[name] for name in stored.files]
    dtypes = [spec.dtype for spec in load(arguments["mindir"]).inputs]
    inputs = tuple(Tensor(array).astype(dtype) for array, dtype in zip(arrays, dtypes, strict=True))
    return variants.opened(Path(arguments["mindir"]), inputs)


def _repeat(run: Callable[[], Any], calls: int, seconds: float) -> None:
    """Call at least once, then until either is used up."""
    end = time.perf_counter() + seconds
    for _ in range(calls):
        run()
        if time.perf_counter() > end:
            break


def _memory(arguments: dict[str, str]) -> dict[str, int]:
    """Return the resident set sizes: what MindSpore alone takes, and the peak."""
    import ms_ascend_ops.benchmarks.networks.variants  # noqa: F401

    before = _status("VmRSS")
    run = _prepared(arguments)
    _repeat(run, 3, float(arguments["seconds"]))
    return {"before": before, "peak": _status("VmHWM")}


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def _profile(arguments: dict[str, str]) -> dict[str, tuple[float, float]]:
    """Return, by operator, seconds and calls in one call of the network, as MindSpore's profiler counts them."""
    from mindspore import profiler

    run = _prepared(arguments)
    seconds = float(arguments["seconds"])
    _repeat(run, CALLS // 4, seconds / 4)
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-profile-") as folder:
        handler = profiler.tensorboard_trace_handler(folder)
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU], on_trace_ready=handler):
            _repeat(run, CALLS, seconds)
        (file,) = Path(folder).rglob("cpu_op_execute_timestamp_*.txt")
        return by_operator(file.read_text(encoding="utf-8"))


def by_operator(text: str) -> dict[str, tuple[float, float]]:
    """Return seconds and calls by the type of operator, from what MindSpore's profiler writes of each of its nodes.

    A line is `Default/MatMul-op3;HostCpuOps;start,milliseconds,thread start,milliseconds,thread ...`. The median of a
    node's times counts: some hold a millisecond in which the scheduler had another thread run.
    """
    total: dict[str, tuple[float, float]] = {}
    for line in text.splitlines():
        name, _, times = line.split(";", 2)
        kind = name.rpartition("/")[2].rpartition("-op")[0]
        seconds, calls = total.get(kind, (0.0, 0.0))
        each = [float(entry.split(",")[1]) / 1e3 for entry in times.split()]
        total[kind] = (seconds + statistics.median(each), calls + 1)
    return total


if __name__ == "__main__":
    os.environ.setdefault("GLOG_v", "3")
    print(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]))))
