"""Holds what the model says of a launch: time, bounds, waits, the dearest instructions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.cube import CubeCore
from ms_ascend_ops.profiler.memory import traffic
from ms_ascend_ops.profiler.program import alike, alike_groups, compile_core
from ms_ascend_ops.profiler.simulator import AT_ONCE, ISSUE, SYNC, Run, simulate
from ms_ascend_ops.profiler.trace import CUBE_PIPES, PIPES, Kind, Pipe, Product, Trace

__all__ = ["CUBE", "CubeUse", "Hotspot", "Prediction", "predict"]

CUBE = "cube "  # before the name of a cube core's pipe

# From this share of the kernel's time on a resource is what bounds it.
_SATURATED = 0.85


@dataclass
class Hotspot:
    """Sums up all calls of one instruction at one place of the kernel, over all cores."""

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
class CubeUse:
    """Says how a kernel that multiplies matrices uses the cube cores."""

    flops: float  # 2 m n k of all products
    bound_us: float  # on all cube cores of the chip
    share: float  # bound_us / us: "% of the cube bound"
    kernel_share: float  # without the launch
    block_efficiency: float  # of the multiply-adds; the rest fills blocks up to 16 x 16
    products: int
    cores: int
    chip_cores: int
    tflops: float  # reached, with the launch


@dataclass
class Prediction:
    """Holds a predicted launch. Nothing here was measured."""

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
    busy: dict[str, float]  # of the kernel's time, by pipe, mean over the cores; "cube M" is one of a cube core
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
    cube: CubeUse | None = None
    low_us: float = 0.0  # the range of times that the error of the model leaves (Chip.low_ratio, high_ratio)
    high_us: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"predicted": True, **asdict(self)}


def predict(trace: Trace, chip: Chip, warm: bool = False, hf32: bool = False) -> tuple[Prediction, list[Run]]:
    """Run a trace through the model.

    Args:
        trace: what the traced library recorded.
        chip: the chip.
        warm: the launch finds in L2 what fits of its tensors.
        hf32: products of floats round their operands to HF32.

    Raises:
        ProgramError: the kernel would hang.
    """
    moved = traffic(trace, chip, warm)
    if trace.has_products:
        together = alike_groups(trace, chip, moved.hbm_bytes)
        groups = [cores for group in together for cores in group]
        cubes = [number for number, group in enumerate(together) for _ in group]
    else:
        groups, cubes = alike(trace, chip, moved.hbm_bytes), []
    programs = [compile_core(trace, cores[0], chip, moved.hbm_bytes[cores[0]], hf32) for cores in groups]
    runs = simulate(programs, groups, chip, cubes)
    return _summarize(trace, chip, runs, float(sum(hbm.sum() for hbm in moved.hbm_bytes)), hf32), runs


def _summarize(trace: Trace, chip: Chip, runs: list[Run], hbm_bytes: float, hf32: bool) -> Prediction:
    cycles = max(run.cycles for run in runs)
    core_cycles = np.concatenate([np.full(len(run.cores), run.cycles) for run in runs])
    count = len(core_cycles)
    kernel_us = chip.us(cycles)
    us = kernel_us + chip.launch_us
    bound_us = trace.minimal_bytes / (chip.hbm_gb_per_s * 1e3)
    busy, waits = _pipes(runs, cycles, count)
    busy |= _cube_pipes(runs, cycles)
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
        cube=_cube_use(trace, chip, runs, us, hf32) if trace.has_products else None,
        low_us=us * chip.low_ratio,
        high_us=us * chip.high_ratio,
    )


def _cubes(runs: list[Run]) -> list[tuple[CubeCore, int]]:
    """Return the different cube cores, and how many there are of each."""
    found = {id(run.cube): (run.cube, len(run.cores)) for run in runs if run.cube is not None}
    return list(found.values())


def _cube_pipes(runs: list[Run], cycles: float) -> dict[str, float]:
    cubes = _cubes(runs)
    count = sum(many for _, many in cubes)
    busy = {f"{CUBE}{pipe.name}": 0.0 for pipe in CUBE_PIPES} if cubes else {}
    for cube, many in cubes:
        for bar in cube.bars:
            busy[f"{CUBE}{bar.pipe.name}"] += (bar.end - bar.begin) * many / max(cycles * count, 1e-9)
    return busy


def _cube_use(trace: Trace, chip: Chip, runs: list[Run], us: float, hf32: bool) -> CubeUse:
    plans = [(plan, len(run.cores)) for run in runs for plan in run.program.products.values()]
    flops = sum(plan.flops * many for plan, many in plans)
    macs = sum(plan.macs * many for plan, many in plans)
    events = np.concatenate(trace.cores)
    asked = events[(events["kind"] == Kind.PRODUCT) & (events["call"] == Product.ITERATE_ALL)]
    element_bytes = int(asked["element_bytes"].max(initial=2))
    bound_us = chip.us(flops / 2 / chip.cube.macs(element_bytes, hf32) / chip.cube.cores)
    return CubeUse(
        flops=flops,
        bound_us=bound_us,
        share=bound_us / us if us else 0.0,
        kernel_share=bound_us / (us - chip.launch_us) if us > chip.launch_us else 0.0,
        block_efficiency=flops / 2 / macs if macs else 1.0,
        products=len(asked),
        cores=sum(many for _, many in _cubes(runs)),
        chip_cores=chip.cube.cores,
        tflops=flops / us / 1e6 if us else 0.0,
    )


def _bound(busy: dict[str, float], hbm_busy: float, kernel_us: float, chip: Chip) -> str:
    if kernel_us < chip.launch_us:
        return "launch"
    if hbm_busy >= _SATURATED:
        return "HBM"
    pipe = max(busy, key=lambda name: busy[name])
    if pipe == f"{CUBE}{Pipe.M.name}" and busy[pipe] >= _SATURATED:
        return "cube"
    return pipe if busy[pipe] >= _SATURATED else f"latency ({pipe} at most)"


def _pipes(runs: list[Run], cycles: float, count: int) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Returns how long each pipe works, and what it waits for; shares of the kernel's time, mean over the cores."""
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


_CAUSES = {SYNC: "other cores", ISSUE: "issue by S", AT_ONCE: "nothing"}


def _reason(run: Run, i: int) -> str:
    cause = int(run.cause[i])
    if cause in _CAUSES:
        return _CAUSES[cause]
    pipe, own = Pipe(run.program.pipe[cause]), Pipe(run.program.pipe[i])
    if pipe == own:
        return "its own result"
    if pipe == Pipe.M:
        return "the cube core"
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
            if pipe not in (Pipe.S, Pipe.M):
                time[names[event], places[event], pipe, arguments[event]] += cycles_spent
    events = np.concatenate(trace.cores)
    found = _products(trace, chip, runs, cycles)
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


def _products(trace: Trace, chip: Chip, runs: list[Run], cycles: float) -> list[Hotspot]:
    """Return the products of each place, by the pipes of the cube cores."""
    time: dict[tuple[int, Pipe], float] = defaultdict(float)
    calls: dict[int, int] = defaultdict(int)
    for run in runs:
        events = trace.cores[run.cores[0]]
        for i in run.program.products:
            calls[int(events["place"][run.program.event[i]])] += len(run.cores)
    for cube, many in _cubes(runs):
        for bar in cube.bars:
            run = runs[bar.owner]
            event = run.program.event[bar.instruction]
            time[int(trace.cores[run.cores[0]]["place"][event]), bar.pipe] += (bar.end - bar.begin) * many
    count = max(1, sum(many for _, many in _cubes(runs)))
    return [
        Hotspot(
            "IterateAll",
            trace.places[place],
            f"{CUBE}{pipe.name}",
            calls[place],
            chip.us(spent / count),
            spent / count / max(cycles, 1e-9),
        )
        for (place, pipe), spent in time.items()
    ]
