"""A predicted launch in time: Chrome / Perfetto trace events, and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.prediction import Prediction
from ms_ascend_ops.profiler.simulator import Run
from ms_ascend_ops.profiler.trace import Kind, Pipe, Trace

__all__ = ["write_chrome_trace", "write_picture"]

_ROWS = (Pipe.MTE2, Pipe.V, Pipe.MTE3, Pipe.S)
_COLORS = {Pipe.MTE2: "#4477aa", Pipe.V: "#228833", Pipe.MTE3: "#ee6677", Pipe.S: "#bbbbbb"}
_MAX_BARS = 4000  # in a picture


def _core_name(run: Run) -> str:
    others = f" and {len(run.cores) - 1} alike" if len(run.cores) > 1 else ""
    return f"core {run.cores[0]}{others}"


def write_chrome_trace(path: Path, trace: Trace, runs: list[Run], chip: Chip, prediction: Prediction) -> None:
    """Write a JSON file that chrome://tracing and ui.perfetto.dev open: a process for each distinct core.

    Times are in microseconds since the first instruction.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        core, events = run.cores[0], trace.cores[run.cores[0]]
        rows.append({"ph": "M", "name": "process_name", "pid": core, "args": {"name": _core_name(run)}})
        rows += [
            {"ph": "M", "name": "thread_name", "pid": core, "tid": int(pipe), "args": {"name": pipe.name}}
            for pipe in _ROWS
        ]
        rows += [
            {"ph": "M", "name": "thread_sort_index", "pid": core, "tid": int(pipe), "args": {"sort_index": position}}
            for position, pipe in enumerate(_ROWS)
        ]
        for i in range(len(run.program)):
            pipe = Pipe(run.program.pipe[i])
            begin, end = float(run.begin[i]), float(run.end[i])
            if pipe == Pipe.S and end - begin < 1e-9:
                continue
            event = events[run.program.event[i]] if len(events) else None
            if event is None:
                continue
            arguments: dict[str, Any] = {"place": trace.places[int(event["place"])]}
            if event["kind"] == Kind.VECTOR:
                arguments |= {"repeats": int(event["repeats"]), "elements": int(event["elements"])}
            elif event["kind"] == Kind.COPY:
                arguments |= {"pieces": int(event["pieces"]), "piece_bytes": int(event["piece_bytes"])}
            rows.append(
                {
                    "ph": "X",
                    "name": "issue" if pipe == Pipe.S else trace.names[int(event["name"])],
                    "pid": core,
                    "tid": int(pipe),
                    "ts": chip.us(begin),
                    "dur": chip.us(end - begin),
                    "args": arguments,
                }
            )
    data = {
        "traceEvents": rows,
        "displayTimeUnit": "ns",
        "otherData": {
            "predicted": f"by a timing model of {chip.name}; nothing was measured",
            "kernel": prediction.kernel,
            "predicted_us": prediction.us,
        },
    }
    path.write_text(json.dumps(data), encoding="utf-8")


def write_picture(path: Path, trace: Trace, runs: list[Run], chip: Chip, prediction: Prediction) -> None:
    """Draw the pipes of the slowest core as bars over time (PNG, or what the path's ending says).

    Raises:
        RuntimeError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError as error:
        raise RuntimeError("a picture needs matplotlib: pip install matplotlib") from error
    run = max(runs, key=lambda candidate: candidate.cycles)
    figure = Figure(figsize=(12, 3.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    until = run.cycles
    if len(run.program) > _MAX_BARS:  # the beginning, with bars that can still be told apart
        until = float(sorted(run.end)[_MAX_BARS])
    for row, pipe in enumerate(reversed(_ROWS)):
        mine = [
            (chip.us(float(run.begin[i])), chip.us(float(run.end[i] - run.begin[i])))
            for i in range(len(run.program))
            if run.program.pipe[i] == pipe and run.begin[i] < until
        ]
        axes.broken_barh(mine, (row + 0.1, 0.8), facecolors=_COLORS[pipe], edgecolors="white", linewidth=0.15)
    axes.set_yticks([row + 0.5 for row in range(len(_ROWS))], [pipe.name for pipe in reversed(_ROWS)])
    axes.set_xlim(0, chip.us(until) * 1.01)
    part = "" if until == run.cycles else f", the first {chip.us(until):.1f} of {chip.us(run.cycles):.1f} us"
    axes.set_xlabel(f"predicted microseconds, {_core_name(run)}{part}")
    axes.set_title(
        f"{prediction.kernel} on {prediction.chip}: predicted {prediction.us:.1f} us, "
        f"{100 * prediction.hbm_share:.0f} % of the HBM bound, bounded by {prediction.bound_by}",
        fontsize=10,
    )
    figure.savefig(path, dpi=130)
