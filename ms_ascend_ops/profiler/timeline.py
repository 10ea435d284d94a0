"""Shows a predicted launch in time: Chrome / Perfetto trace events, and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.prediction import Prediction
from ms_ascend_ops.profiler.program import VECTOR_CORES
from ms_ascend_ops.profiler.simulator import Run
from ms_ascend_ops.profiler.trace import Kind, Pipe, Trace

__all__ = ["write_chrome_trace", "write_picture"]

_ROWS = (Pipe.MTE2, Pipe.V, Pipe.MTE3, Pipe.S)
_CUBE_ROWS = (Pipe.MTE2, Pipe.MTE1, Pipe.M, Pipe.FIX, Pipe.S)
_CUBE_PROCESSES = 10000  # the number of the first cube core's process in a trace
_COLORS = {
    Pipe.MTE2: "#4477aa",
    Pipe.V: "#228833",
    Pipe.MTE3: "#ee6677",
    Pipe.S: "#bbbbbb",
    Pipe.MTE1: "#66ccee",
    Pipe.M: "#aa3377",
    Pipe.FIX: "#ccbb44",
}
_MAX_BARS = 4000  # in a picture
_CUBE_NAMES = {
    Pipe.S: "request",
    Pipe.MTE2: "load L1",
    Pipe.MTE1: "load L0",
    Pipe.M: "Mmad",
    Pipe.FIX: "Fixpipe",
}


def _core_name(run: Run) -> str:
    others = f" and {len(run.cores) - 1} alike" if len(run.cores) > 1 else ""
    return f"core {run.cores[0]}{others}"


def write_chrome_trace(path: Path, trace: Trace, runs: list[Run], chip: Chip, prediction: Prediction) -> None:
    """Write a JSON file that chrome://tracing and ui.perfetto.dev open: a process for each distinct core.

    A cube core is a process, too; requests to it are the slices "IterateAll" of its vector cores. Times are in
    microseconds since the first instruction.
    """
    rows: list[dict[str, Any]] = []
    for run in runs:
        core, events = run.cores[0], trace.cores[run.cores[0]]
        rows.append({"ph": "M", "name": "process_name", "pid": core, "args": {"name": _core_name(run)}})
        rows += _threads(core, _ROWS)
        for i in range(len(run.program)):
            pipe = Pipe(run.program.pipe[i])
            begin, end = float(run.begin[i]), float(run.end[i])
            if pipe == Pipe.M:  # several at a time, so in no row
                about = {"cat": "cube", "name": "IterateAll", "id": i, "pid": core, "tid": int(Pipe.S)}
                place = trace.places[int(events["place"][run.program.event[i]])]
                rows.append({"ph": "b", **about, "ts": chip.us(begin), "args": {"place": place}})
                rows.append({"ph": "e", **about, "ts": chip.us(end)})
                continue
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
    cubes = {id(run.cube): run for run in reversed(runs) if run.cube is not None}  # the first run of each
    for run in cubes.values():
        rows += _cube_rows(trace, runs, run, chip)
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


def _threads(process: int, pipes: tuple[Pipe, ...]) -> list[dict[str, Any]]:
    about = [{"ph": "M", "pid": process, "tid": int(pipe)} for pipe in pipes]
    return [
        *({**row, "name": "thread_name", "args": {"name": pipe.name}} for row, pipe in zip(about, pipes, strict=True)),
        *({**row, "name": "thread_sort_index", "args": {"sort_index": i}} for i, row in enumerate(about)),
    ]


def _cube_name(run: Run) -> str:
    cube = run.cores[0] // VECTOR_CORES
    others = f" and {len(run.cores) - 1} alike" if len(run.cores) > 1 else ""
    return f"cube core {cube}{others}"


def _cube_rows(trace: Trace, runs: list[Run], run: Run, chip: Chip) -> list[dict[str, Any]]:
    assert run.cube is not None
    process = _CUBE_PROCESSES + run.cores[0] // VECTOR_CORES
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "args": {"name": _cube_name(run)}},
        *_threads(process, _CUBE_ROWS),
    ]
    for bar in run.cube.bars:
        asking = runs[bar.owner]
        event = trace.cores[asking.cores[0]][asking.program.event[bar.instruction]]
        rows.append(
            {
                "ph": "X",
                "name": _CUBE_NAMES[bar.pipe],
                "pid": process,
                "tid": int(bar.pipe),
                "ts": chip.us(bar.begin),
                "dur": chip.us(bar.end - bar.begin),
                "args": {"place": trace.places[int(event["place"])], "core": asking.cores[0]},
            }
        )
    return rows


def _bars(run: Run, pipe: Pipe, until: float) -> list[tuple[float, float]]:
    return [
        (float(run.begin[i]), float(run.end[i]))
        for i in range(len(run.program))
        if run.program.pipe[i] == pipe and run.begin[i] < until
    ]


def _cube_bars(run: Run, pipe: Pipe, until: float) -> list[tuple[float, float]]:
    assert run.cube is not None
    return [(bar.begin, bar.end) for bar in run.cube.bars if bar.pipe == pipe and bar.begin < until]


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
    figure = Figure(figsize=(12, 3.4 if run.cube is None else 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    until = run.cycles
    if len(run.program) > _MAX_BARS:  # the beginning, with bars that can still be told apart
        until = float(sorted(run.end)[_MAX_BARS])
    lanes = [(pipe.name, _COLORS[pipe], _bars(run, pipe, until)) for pipe in _ROWS]
    if run.cube is not None:
        lanes += [(f"cube {pipe.name}", _COLORS[pipe], _cube_bars(run, pipe, until)) for pipe in _CUBE_ROWS]
    for row, (_, color, bars) in enumerate(reversed(lanes)):
        in_us = [(chip.us(begin), chip.us(end - begin)) for begin, end in bars]
        axes.broken_barh(in_us, (row + 0.1, 0.8), facecolors=color, edgecolors="white", linewidth=0.15)
    axes.set_yticks([row + 0.5 for row in range(len(lanes))], [name for name, _, _ in reversed(lanes)])
    axes.set_xlim(0, chip.us(until) * 1.01)
    part = "" if until == run.cycles else f", the first {chip.us(until):.1f} of {chip.us(run.cycles):.1f} us"
    axes.set_xlabel(f"predicted microseconds, {_core_name(run)}{part}")
    axes.set_title(
        f"{prediction.kernel} on {prediction.chip}: predicted {prediction.us:.1f} us, "
        f"{100 * prediction.hbm_share:.0f} % of the HBM bound, bounded by {prediction.bound_by}",
        fontsize=10,
    )
    figure.savefig(path, dpi=130)
