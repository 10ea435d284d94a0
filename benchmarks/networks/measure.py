"""Measures the variants of a network, alternating, after it has checked that they compute the same."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Tensor
from ms_ascend_ops.benchmarks.harness import TOLERANCES, Sampling, repeat, warm_up
from ms_ascend_ops.benchmarks.networks.sharing import Budget, Machine
from ms_ascend_ops.benchmarks.networks.target import Phase, build
from ms_ascend_ops.benchmarks.networks.variants import ABLATED, STOCK, VARIANTS, files, opened, training_step
from numpy.typing import NDArray

from ms_ascend_ops.library import native

__all__ = ["TRAINING", "Row", "Series", "Task", "measure"]

TRAINING = "training step"


@dataclass
class Series:
    """Holds the times of one variant: seconds of the calls of each round."""

    rounds: list[list[float]] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)  # bytes: "before" and "peak" of a process of its own
    profile: dict[str, tuple[float, float]] = field(default_factory=dict)  # by operator: seconds and calls, of a call

    @property
    def median(self) -> float:
        return statistics.median(second for calls in self.rounds for second in calls)


@dataclass
class Row:
    """Holds the times of one phase of one network."""

    network: str
    size: str
    dtype: str
    phase: str
    items: int
    unit: str
    series: dict[str, Series] = field(default_factory=dict)
    omitted: list[str] = field(default_factory=list)  # what there was no time for

    @property
    def rounds(self) -> int:
        """Count the rounds in which every variant has had its turn."""
        return min((len(series.rounds) for series in self.series.values()), default=0)

    @property
    def name(self) -> str:
        return f"{self.network} {self.size} {self.dtype}: {self.phase}"

    def ratios(self, variant: str) -> list[float]:
        """Return by how much a variant is faster than stock, round by round."""
        pairs = zip(self.series[STOCK].rounds, self.series[variant].rounds, strict=False)
        return [statistics.median(stock) / statistics.median(own) for stock, own in pairs]

    def speedup(self, variant: str) -> float:
        return self.series[STOCK].median / self.series[variant].median

    def reached(self, variant: str) -> float | None:
        """Return what a variant saves, as a share of what removing the operators would; None where that is nothing."""
        stock, ceiling = self.series[STOCK].median, self.series[ABLATED].median
        # Below this share a ratio is noise.
        return None if stock - ceiling < 0.02 * stock else (stock - self.series[variant].median) / (stock - ceiling)


@dataclass(frozen=True)
class Task:
    """Says what is measured of each network, and how long."""

    machine: Machine
    sampling: Sampling
    seconds: float  # for a network, about; every phase is measured in at least one round
    memory: bool = True  # run each variant once more, in a process of its own, for its peak memory
    profile: bool = False  # the same, for its time by operator; not of training
    threads: Sequence[int] = ()  # of this library, to measure level O2 with, besides the present number


def measure(
    name: str,
    size: str,
    dtype: str,
    wanted: Callable[[str], bool],
    task: Task,
    tell: Callable[[str], None],
    keep: Callable[[Row], None],
) -> None:
    """Measure every phase of a network whose name is `wanted`.

    Args:
        name: of the network.
        size: of the network.
        dtype: of its parameters.
        wanted: whether a phase is measured.
        task: what to measure.
        tell: is told what is going on.
        keep: gets a row as soon as it has times, also of an interrupted phase that has had a round; memory and profile
            come later.
    """
    start = time.perf_counter()
    target = build(name, size, dtype)
    phases = [phase for phase in target.phases if wanted(phase.name)]
    trained = target.loss is not None and wanted(TRAINING)
    parts = len(phases) * (1 + task.memory + task.profile) + trained * (1 + task.memory)
    run = _Run(task, Budget(task.seconds - (time.perf_counter() - start), parts), tell, keep)
    for phase in phases:
        run.phase(Row(name, size, dtype, phase.name, phase.items, phase.unit), phase)
    if trained:
        run.training(Row(name, size, dtype, TRAINING, target.items, target.unit))


@dataclass
class _Run:
    """Measures one network."""

    task: Task
    budget: Budget
    tell: Callable[[str], None]
    keep: Callable[[Row], None]

    def phase(self, row: Row, phase: Phase) -> None:
        self.budget.begin()
        with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-bench-") as folder:
            self.tell(f"{row.name}: exporting")
            made = files(phase, Path(folder))
            self.tell(f"{row.name}: compiling")
            self._time(row, {variant: opened(path, phase.inputs) for variant, path in made.items()}, self.task.threads)
            inputs = Path(folder, "inputs.npz")
            _save(phase.inputs, inputs)
            arguments = {variant: {"mindir": str(path), "inputs": str(inputs)} for variant, path in made.items()}
            if self.task.memory:
                self._memory(row, arguments)
            if self.task.profile:
                with self._alone(row):
                    for variant, profile in self._children(row, "profile", arguments):
                        row.series[variant].profile = profile

    def training(self, row: Row) -> None:
        """Measure training. Each variant is a network of its own, with the same parameters at the start."""
        self.budget.begin()
        runs = {}
        for variant in VARIANTS:
            self.tell(f"{row.name}: compiling {variant}")
            runs[variant] = training_step(build(row.network, row.size, row.dtype), variant)
        self._time(row, runs, ())
        if self.task.memory:
            of_row = {"network": row.network, "size": row.size, "dtype": row.dtype}
            self._memory(row, {variant: {**of_row, "variant": variant} for variant in VARIANTS})

    def _time(self, row: Row, runs: dict[str, Callable[[], list[Tensor]]], threads: Sequence[int]) -> None:
        _compare(row, {variant: run() for variant, run in runs.items()}, TOLERANCES[row.dtype])
        with self._alone(row):
            for run in runs.values():
                warm_up(run)
            try:
                _alternate(row, runs, self.task.sampling, threads, self.budget, self.tell)
            finally:
                if row.rounds:
                    self.keep(row)

    def _memory(self, row: Row, arguments: dict[str, dict[str, str]]) -> None:
        for variant, memory in self._children(row, "memory", arguments):
            row.series[variant].memory = memory

    @contextmanager
    def _alone(self, row: Row) -> Iterator[None]:
        self.tell(f"{row.name}: waiting for the machine")
        with self.task.machine.alone() as waited:
            self.budget.add(waited)
            yield

    def _children(self, row: Row, task: str, arguments: dict[str, dict[str, str]]) -> Iterator[tuple[str, Any]]:
        """Yield what `worker.py` finds out of each variant, as long as there is time for another."""
        self.budget.begin()
        for index, (variant, given) in enumerate(arguments.items()):
            seconds = self.budget.left() / (len(arguments) - index)
            if not seconds:
                labels = [VARIANTS[name].label for name in list(arguments)[index:]]
                row.omitted.append(f"{task} of {', '.join(labels)}" if index else task)
                break
            self.tell(f"{row.name}: {task}, {variant}")
            yield variant, child(task, seconds=str(seconds), **given)


def _alternate(
    row: Row,
    runs: dict[str, Callable[[], Any]],
    sampling: Sampling,
    threads: Sequence[int],
    budget: Budget,
    tell: Callable[[str], None],
) -> None:
    """Fill the row: in each round every variant has its turn. There is at least one round; none is left half done."""
    usual = native().get_thread_num()
    turns = {variant: (usual, run) for variant, run in runs.items()}
    for count in threads:
        turns[f"fused, threads {count}"] = (count, runs["fused"])
    for variant in turns:
        row.series[variant] = Series()
    try:
        for index in range(sampling.rounds):
            if index and not budget.left():
                break
            tell(f"{row.name}: round {index + 1} of at most {sampling.rounds}")
            for variant, (count, run) in turns.items():
                native().set_thread_num(count)
                times = repeat(run, sampling.untimed_seconds)
                # Leftover threads of the previous variant do not show in a longer call.
                if times[0] < 100 * sampling.untimed_seconds:
                    times = repeat(run, sampling.timed_seconds)
                row.series[variant].rounds.append(times)
    finally:
        native().set_thread_num(usual)
        rounds = row.rounds
        for series in row.series.values():
            del series.rounds[rounds:]


def _compare(row: Row, results: dict[str, list[Tensor]], tolerance: float) -> None:
    """Check that a variant's outputs are those of stock, except where operators are missing."""
    expected = [_float(value) for value in results[STOCK]]
    for variant, outputs in results.items():
        if variant == ABLATED:
            continue
        for value, stock in zip(map(_float, outputs), expected, strict=True):
            error = np.abs(value - stock).max(initial=0.0) / max(np.abs(stock).max(initial=0.0), 1e-30)
            if not error <= 10 * tolerance:  # of a whole network
                raise ValueError(f"{row.name}: {variant} differs from stock by {error:.1e}")


def _float(value: Tensor) -> NDArray[Any]:
    import mindspore as ms

    array: NDArray[Any] = value.astype(ms.float32).asnumpy()
    return array


def _save(inputs: Sequence[Tensor], path: Path) -> None:
    """Save the arrays. NumPy has no bfloat16: the child gets the dtype from the file of the network."""
    np.savez(path, *[_float(value) if value.is_floating_point() else value.asnumpy() for value in inputs])


def child(task: str, **arguments: str) -> Any:
    """Return what `worker.py` finds out in a process of its own."""
    command = [sys.executable, "-m", "ms_ascend_ops.benchmarks.networks.worker", task, json.dumps(arguments)]
    environment = {**os.environ, "MS_ASCEND_OPS_NUM_THREADS": str(native().get_thread_num())}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{task} of {arguments} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
