"""Measures the variants of a network in turn, after it has checked that they compute the same."""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from mindspore import Tensor
from ms_ascend_ops.benchmarks.harness import TOLERANCES, Effort, repeat
from ms_ascend_ops.benchmarks.networks.subject import Subject, build
from ms_ascend_ops.benchmarks.networks.variants import ABLATED, STOCK, VARIANTS, files, opened, training_step

from ms_ascend_ops.library import native

__all__ = ["TRAINING", "Machine", "Row", "Series", "measure", "training"]

TRAINING = "training step"


class Machine:
    """A machine that several runs share: they prepare together, and each has it for itself while it measures.

    The lock is that of a file, which the command flock(1) knows, too. Without a file nothing is locked.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else path.open("a", encoding="utf-8")
        self._lock(fcntl.LOCK_SH)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _lock(self, kind: int) -> None:
        if self._file is not None:
            fcntl.flock(self._file, kind)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else who keeps to the lock does anything within the block."""
        self._lock(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self._lock(fcntl.LOCK_SH)


@dataclass
class Series:
    """The times of one variant: seconds of the calls of each round."""

    rounds: list[list[float]] = field(default_factory=list)
    memory: dict[str, int] = field(default_factory=dict)  # bytes: "before" and "peak" of a process of its own
    profile: dict[str, tuple[float, float]] = field(default_factory=dict)  # by operator: seconds and calls, of a call
    reason: str = ""

    @property
    def median(self) -> float:
        return statistics.median(second for calls in self.rounds for second in calls)


@dataclass
class Row:
    """One phase of one network."""

    network: str
    size: str
    dtype: str
    phase: str
    items: int
    unit: str
    series: dict[str, Series] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.network} {self.size} {self.dtype}: {self.phase}"

    def ratios(self, variant: str) -> list[float]:
        """By how much a variant is faster than stock, round by round."""
        pairs = zip(self.series[STOCK].rounds, self.series[variant].rounds, strict=False)
        return [statistics.median(stock) / statistics.median(own) for stock, own in pairs]

    def speedup(self, variant: str) -> float:
        return self.series[STOCK].median / self.series[variant].median

    def reached(self, variant: str) -> float | None:
        """What a variant saves, as a share of what removing the operators would save; None where that is nothing."""
        stock, ceiling = self.series[STOCK].median, self.series[ABLATED].median
        # Below that it is a quotient of noise.
        return None if stock - ceiling < 0.02 * stock else (stock - self.series[variant].median) / (stock - ceiling)


def measure(
    name: str,
    size: str,
    dtype: str,
    wanted: Callable[[str], bool],
    effort: Effort,
    tell: Callable[[str], None],
    *,
    machine: Machine,
    memory: bool = True,
    profile: bool = False,
    threads: Sequence[int] = (),
) -> list[Row]:
    """Every phase of a network whose name is `wanted`, except training.

    Args:
        name: of the network.
        size: of the network.
        dtype: of its parameters.
        wanted: whether a phase is measured.
        effort: how long.
        tell: is told what is going on.
        machine: where it is alone while it measures.
        memory: run each variant once more, in a process of its own, for its peak memory.
        profile: the same, for its time by operator.
        threads: numbers of threads of this library to measure level O2 with, besides the present one.
    """
    subject = build(name, size, dtype)
    rows = []
    for phase in subject.phases:
        if not wanted(phase.name):
            continue
        row = Row(name, size, dtype, phase.name, phase.items, phase.unit)
        rows.append(row)
        with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-bench-") as folder:
            tell(f"{row.name}: exporting")
            made = files(phase, Path(folder))
            tell(f"{row.name}: compiling")
            runs = {variant: opened(path, phase.inputs) for variant, path in made.items()}
            _compare(row, {variant: run() for variant, run in runs.items()}, TOLERANCES[dtype])
            tell(f"{row.name}: waiting for the machine")
            with machine.alone():
                tell(row.name)
                _alternate(row, runs, effort, threads)
            del runs
            inputs = Path(folder, "inputs.npz")
            _save(phase.inputs, inputs)
            arguments = {variant: {"mindir": str(path), "inputs": str(inputs)} for variant, path in made.items()}
            if memory:
                for variant in made:
                    tell(f"{row.name}: memory, {variant}")
                    row.series[variant].memory = child("memory", **arguments[variant])
            if profile:
                tell(f"{row.name}: waiting for the machine")
                with machine.alone():
                    for variant in made:
                        tell(f"{row.name}: profile, {variant}")
                        row.series[variant].profile = child("profile", **arguments[variant])
    return rows


def training(
    name: str,
    size: str,
    dtype: str,
    effort: Effort,
    tell: Callable[[str], None],
    *,
    machine: Machine,
    memory: bool = True,
) -> Row | None:
    """The step of training. Each variant is a network of its own, with the same parameters at the start."""
    runs = {}
    subject: Subject | None = None
    for variant in VARIANTS:
        subject = build(name, size, dtype)
        if subject.loss is None:
            return None
        tell(f"{name} {size} {dtype}: {TRAINING}, compiling {variant}")
        runs[variant] = training_step(subject, variant)
    assert subject is not None
    row = Row(name, size, dtype, TRAINING, subject.items, subject.unit)
    _compare(row, {variant: run() for variant, run in runs.items()}, TOLERANCES[dtype])
    tell(f"{row.name}: waiting for the machine")
    with machine.alone():
        tell(row.name)
        _alternate(row, runs, effort, ())
    for variant in VARIANTS:
        if memory:
            tell(f"{row.name}: memory, {variant}")
            row.series[variant].memory = child("memory", network=name, size=size, dtype=dtype, variant=variant)
    return row


def _alternate(row: Row, runs: dict[str, Callable[[], Any]], effort: Effort, threads: Sequence[int]) -> None:
    """Fill the row: in each round every variant has its turn."""
    usual = native().get_thread_num()
    turns = {variant: (usual, run) for variant, run in runs.items()}
    for count in threads:
        turns[f"fused, threads {count}"] = (count, runs["fused"])
    for variant in turns:
        row.series[variant] = Series()
    spent = 0.0
    try:
        for index in range(effort.rounds):
            if index >= 3 and spent > effort.most_seconds * len(turns):
                break
            for variant, (count, run) in turns.items():
                native().set_thread_num(count)
                settled = repeat(run, effort.settle_seconds)
                times = repeat(run, effort.turn_seconds)
                row.series[variant].rounds.append(times)
                spent += sum(settled) + sum(times)
    finally:
        native().set_thread_num(usual)


def _compare(row: Row, results: dict[str, list[Tensor]], tolerance: float) -> None:
    """Outputs of a variant must be those of stock, except where operators are missing."""
    expected = [_float(value) for value in results[STOCK]]
    for variant, outputs in results.items():
        if variant == ABLATED:
            continue
        for value, stock in zip(map(_float, outputs), expected, strict=True):
            error = np.abs(value - stock).max(initial=0.0) / max(np.abs(stock).max(initial=0.0), 1e-30)
            if not error <= 10 * tolerance:  # of a whole network
                raise ValueError(f"{row.name}: {variant} differs from stock by {error:.1e}")


def _float(value: Tensor) -> np.ndarray:
    import mindspore as ms

    return value.astype(ms.float32).asnumpy()


def _save(inputs: Sequence[Tensor], path: Path) -> None:
    """NumPy has no bfloat16: the child gets the dtype from the file of the network."""
    np.savez(path, *[_float(value) if value.is_floating_point() else value.asnumpy() for value in inputs])


def child(task: str, **arguments: str) -> Any:
    """What `worker.py` finds out in a process of its own."""
    command = [sys.executable, "-m", "ms_ascend_ops.benchmarks.networks.worker", task, json.dumps(arguments)]
    environment = {**os.environ, "MS_ASCEND_OPS_NUM_THREADS": str(native().get_thread_num())}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(f"{task} of {arguments} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])
