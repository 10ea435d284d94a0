"""What the model says of a launch: time, bounds, waits, the dearest instructions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.memory import traffic
from ms_ascend_ops.profiler.program import alike, compile_core, vector_cycles
from ms_ascend_ops.profiler.simulator import AT_ONCE, ISSUE, SYNC, Run, simulate
from ms_ascend_ops.profiler.trace import PIPES, Kind, Pipe, Trace, rows

__all__ = ["Hotspot", "Prediction", "predict"]

# Of the kernel's time: from here on a resource is what bounds it.
_SATURATED = 0.85


@dataclass
class Hotspot:
    """All calls of one instruction at one place of the kernel, over all cores."""

    instruction: str
    place: str
    pipe: str
    calls: int
    us: float  # of its pipe, mean over the cores
    share: float  # of the kernel's time
    lane_efficiency: float | None = None  # vector instructions
    tensor: str | None = None  # copies
    bytes: int | None = None
    bytes_per_call: float | None = None


@dataclass
class Prediction:
    """A predicted launch. Nothing here was measured."""

    kernel: str
    chip: str
    us: float  # with the launch
    kernel_us: float  # without
    minimal_bytes: int  # every input once, every output once
    hbm_bytes: float  # that the model moves
    bound_us: float  # minimal_bytes at the full bandwidth of HBM
    hbm_share: float  # bound_us / us: "% of the HBM bound"
    kernel_hbm_share: float  # bound_us / kernel_us
    bound_by: str
    busy: dict[str, float]  # of the kernel's time, by pipe, mean over the cores
    waits: dict[str, dict[str, float]]  # by pipe: what it waited for, as a share of the kernel's time
    hbm_busy: float
    lane_efficiency: float
    imbalance: float  # slowest core / mean
    cores: int
    chip_cores: int
    ub_used_bytes: int
    ub_bytes: int
    instructions: int
    copies: int
    bytes_per_copy: float
    hotspots: list[Hotspot]
    tiling: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"predicted": True, **asdict(self)}


def predict(trace: Trace, chip: Chip, warm: bool = False) -> tuple[Prediction, list[Run]]:
    """Run a trace through the model.

    Args:
        trace: what the traced library recorded.
        chip: the chip.
        warm: the launch finds in L2 what fits of its tensors.

    Raises:
        ProgramError: the kernel would hang.
    """
    moved = traffic(trace, chip, warm)
    groups = alike(trace, chip, moved.hbm_bytes)
    programs = [compile_core(trace, cores[0], chip, moved.hbm_bytes[cores[0]]) for cores in groups]
    runs = simulate(programs, groups, chip)
    return _summarize(trace, chip, runs, float(sum(hbm.sum() for hbm in moved.hbm_bytes))), runs


def _summarize(trace: Trace, chip: Chip, runs: list[Run], hbm_bytes: float) -> Prediction:
    cycles = max(run.cycles for run in runs)
    core_cycles = np.concatenate([np.full(len(run.cores), run.cycles) for run in runs])
    count = len(core_cycles)
    kernel_us = chip.us(cycles)
    us = kernel_us + chip.launch_us
    bound_us = trace.minimal_bytes / (chip.hbm_gb_per_s * 1e3)
    busy, waits = _pipes(runs, cycles, count)
    hbm_busy = hbm_bytes / max(cycles * chip.hbm_bytes_per_cycle, 1e-9)
    events = np.concatenate(trace.cores)
    vectors, copies = events[events["kind"] == Kind.VECTOR], events[events["kind"] == Kind.COPY]
    lanes = (vectors["repeats"].astype(np.float64) * vectors["repeat_lanes"]).sum()
    copied = (copies["pieces"].astype(np.float64) * copies["piece_bytes"]).sum()
    return Prediction(
        kernel=trace.kernel,
        chip=chip.name,
        us=us,
        kernel_us=kernel_us,
        minimal_bytes=trace.minimal_bytes,
        hbm_bytes=hbm_bytes,
        bound_us=bound_us,
        hbm_share=bound_us / us if us else 0.0,
        kernel_hbm_share=bound_us / kernel_us if kernel_us else 0.0,
        bound_by=_bound(busy, hbm_busy, kernel_us, chip),
        busy=busy,
        waits=waits,
        hbm_busy=hbm_busy,
        lane_efficiency=float(vectors["elements"].sum() / lanes) if lanes else 1.0,
        imbalance=float(cycles / core_cycles.mean()) if cycles else 1.0,
        cores=count,
        chip_cores=chip.cores,
        ub_used_bytes=trace.ub_used_bytes,
        ub_bytes=chip.ub_bytes,
        instructions=len(vectors),
        copies=len(copies),
        bytes_per_copy=float(copied / len(copies)) if len(copies) else 0.0,
        hotspots=_hotspots(trace, chip, runs, cycles, count),
        tiling=dict(trace.tiling),
    )


def _bound(busy: dict[str, float], hbm_busy: float, kernel_us: float, chip: Chip) -> str:
    if kernel_us < chip.launch_us:
        return "launch"
    if hbm_busy >= _SATURATED:
        return "HBM"
    pipe = max(busy, key=lambda name: busy[name])
    return pipe if busy[pipe] >= _SATURATED else f"latency ({pipe} at most)"


def _pipes(runs: list[Run], cycles: float, count: int) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """How long each pipe works, and what it waits for in between; shares of the kernel's time, mean over the cores."""
    busy = {pipe.name: 0.0 for pipe in PIPES}
    waits: dict[str, dict[str, float]] = {pipe.name: defaultdict(float) for pipe in PIPES}
    for run in runs:
        kinds = np.array(run.program.pipe)
        weight = len(run.cores) / max(cycles * count, 1e-9)
        for pipe in PIPES:
            mine = np.flatnonzero(kinds == pipe)
            if not len(mine):
                continue
            begin, end = run.begin[mine], run.end[mine]
            busy[pipe.name] += float((end - begin).sum()) * weight
            idle = begin - np.concatenate([[0.0], end[:-1]])
            for i, gap in zip(mine, idle, strict=True):
                if gap > 1e-9:
                    waits[pipe.name][_reason(run, int(i))] += float(gap) * weight
            waits[pipe.name]["end of the kernel"] += float(cycles - end[-1]) * weight
    return busy, {name: dict(sorted(found.items(), key=lambda item: -item[1])) for name, found in waits.items()}


def _reason(run: Run, i: int) -> str:
    cause = int(run.cause[i])
    if cause == SYNC:
        return "other cores"
    if cause == ISSUE:
        return "issue by S"
    if cause == AT_ONCE:
        return "nothing"
    pipe, own = Pipe(run.program.pipe[cause]), Pipe(run.program.pipe[i])
    if pipe == own:
        return "its own result"
    if (own, pipe) in ((Pipe.MTE2, Pipe.V), (Pipe.V, Pipe.MTE3)):
        return f"a free buffer ({pipe.name})"
    return f"data from {pipe.name}"


def _hotspots(trace: Trace, chip: Chip, runs: list[Run], cycles: float, count: int) -> list[Hotspot]:
    time: dict[tuple[int, int, int, int], float] = defaultdict(float)
    for run in runs:
        events = trace.cores[run.cores[0]]
        names, places, arguments = (events[key].tolist() for key in ("name", "place", "argument"))
        spent = ((run.end - run.begin) * len(run.cores)).tolist()
        for pipe, event, cycles_spent in zip(run.program.pipe, run.program.event, spent, strict=True):
            if pipe != Pipe.S:
                time[names[event], places[event], pipe, arguments[event]] += cycles_spent
    events = np.concatenate(trace.cores)
    found = []
    for (name, place, pipe, argument), spent_cycles in time.items():
        mine = events[(events["name"] == name) & (events["place"] == place) & (events["argument"] == argument)]
        share = spent_cycles / count / max(cycles, 1e-9)
        spot = Hotspot(
            trace.names[name], trace.places[place], Pipe(pipe).name, len(mine), chip.us(spent_cycles / count), share
        )
        if pipe == Pipe.V:
            lanes = float((mine["repeats"].astype(np.float64) * mine["repeat_lanes"]).sum())
            spot.lane_efficiency = float(mine["elements"].sum()) / lanes if lanes else 1.0
        else:
            spot.tensor = trace.arguments[argument].name if argument >= 0 else "workspace"
            spot.bytes = int((mine["pieces"].astype(np.int64) * mine["piece_bytes"]).sum())
            spot.bytes_per_call = spot.bytes / max(1, len(mine))
        found.append(spot)
    return sorted(found, key=lambda spot: -spot.us)


def vector_bound_us(trace: Trace, chip: Chip) -> float:
    """The least time that the vector instructions of the busiest core take: repeats only."""
    return max(
        (
            chip.us(
                sum(vector_cycles(event, trace.names, chip) for event in rows(events[events["kind"] == Kind.VECTOR]))
            )
            for events in trace.cores
        ),
        default=0.0,
    )
