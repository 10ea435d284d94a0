"""Reads a vector core's trace as instructions of its pipes: how long each takes, and what it waits for.

The scalar unit (S) goes through the program in order. A call for another pipe costs it a few cycles and goes into that
pipe's queue; each pipe takes its queue in order. S itself waits only for what it reads, a barrier of all pipes, and
SyncAll. So S is a list of stretches, and an instruction of V, MTE2 or MTE3 is issued a fixed time after the begin of
the stretch that it belongs to. Instructions of M are requests to the cube core (cube.py): the message goes the way of
the copies to global memory, and S waits for the answer where the kernel does.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.cube import ProductPlan, Transfer, plan_product, transfer
from ms_ascend_ops.profiler.trace import Array, Event, Kind, Pipe, Product, Queue, Sync, Trace, rows

__all__ = ["BARRIER", "VECTOR_CORES", "Program", "ProgramError", "alike", "alike_groups", "compile_core"]

BARRIER = -2  # in `waits`: all cores
VECTOR_CORES = 2  # that share a cube core
_DATA_PIPES = (Pipe.V, Pipe.MTE2, Pipe.MTE3)
_NO_EVENT = -1


class ProgramError(ValueError):
    """Refuses a trace that would hang on the chip."""


@dataclass
class Program:
    """Holds the instructions of one core. A stretch of S is an instruction too. Times in cycles, data in bytes.

    An instruction begins when everything it waits for has completed, its issue is due, and its pipe is free. It holds
    its pipe for `busy` cycles and its transfers, and is complete `drain` cycles later.
    """

    pipe: list[int] = field(default_factory=list)
    event: list[int] = field(default_factory=list)  # index in the trace; of a stretch of S its first call
    busy: list[float] = field(default_factory=list)
    drain: list[float] = field(default_factory=list)
    stretch: list[int] = field(default_factory=list)  # instruction of S that issues it
    offset: list[float] = field(default_factory=list)  # from the stretch's begin
    waits: list[tuple[int, ...]] = field(default_factory=list)  # instructions, or BARRIER
    delay: list[float] = field(default_factory=list)  # from the last of `waits` to the begin
    transfer: list[Transfer | None] = field(default_factory=list)
    products: dict[int, ProductPlan] = field(default_factory=dict)  # by instruction of M

    def __len__(self) -> int:
        return len(self.pipe)


def vector_cycles(event: Event, names: list[str], chip: Chip) -> float:
    """Return the cycles that a vector instruction spends on its repeats."""
    rate = chip.lanes_per_cycle(names[event.name], event.element_bytes)
    return float(event.repeats * event.repeat_lanes / rate)


class _Compiler:
    def __init__(self, trace: Trace, core: int, chip: Chip, hbm_bytes: Array, hf32: bool):
        self.trace = trace
        self.chip = chip
        self.hf32 = hf32
        self.events = rows(trace.cores[core])
        self.hbm_bytes = hbm_bytes
        self.core = core
        self.program = Program()
        self.last = dict.fromkeys((*_DATA_PIPES, Pipe.M, Pipe.S), _NO_EVENT)  # instruction, by pipe
        # Instructions that the next one of a pipe waits for.
        self.pending: dict[int, set[int]] = {pipe: set() for pipe in (*_DATA_PIPES, Pipe.M)}
        self.asked: dict[int, int] = {}  # product -> instruction
        self.has_started_cube = False
        self.marks: dict[tuple[object, ...], int] = {}  # queue or flag -> instruction that was last before it
        self.previous: Event | None = None  # of V
        self.begin_stretch(0)

    # ---- the scalar unit

    def begin_stretch(self, event: int, waits: tuple[int, ...] = (), delay: float = 0.0) -> None:
        program = self.program
        program.pipe.append(Pipe.S)
        program.event.append(event)
        program.busy.append(0.0)
        program.drain.append(0.0)
        program.stretch.append(self.last[Pipe.S])
        program.offset.append(0.0)
        program.waits.append(waits)
        program.delay.append(delay)
        program.transfer.append(None)
        self.last[Pipe.S] = len(program) - 1

    def spend(self, cycles: float) -> None:
        self.program.busy[self.last[Pipe.S]] += cycles

    def everything(self, pipes: tuple[Pipe, ...] = _DATA_PIPES) -> tuple[int, ...]:
        """Return what has to complete so that these pipes are empty, and so is what they would wait for."""
        found = {self.last[pipe] for pipe in pipes} | {wait for pipe in pipes for wait in self.pending[pipe]}
        return tuple(sorted(found - {_NO_EVENT}))

    # ---- the other pipes

    def issue(self, pipe: Pipe, event: int, busy: float, drain: float, extra: tuple[int, ...] = ()) -> int:
        program = self.program
        waits = self.pending[pipe] | set(extra)
        self.pending[pipe] = set()
        waits.discard(_NO_EVENT)
        stretch = self.last[Pipe.S]
        program.pipe.append(pipe)
        program.event.append(event)
        program.busy.append(busy)
        program.drain.append(drain)
        program.stretch.append(stretch)
        program.offset.append(program.busy[stretch])
        # A pipe that waits for itself (a barrier) has no flag to see.
        foreign = any(program.pipe[wait] != pipe for wait in waits)
        program.waits.append(tuple(sorted(waits)))
        program.delay.append(self.chip.flag_cycles if foreign else 0.0)
        program.transfer.append(None)
        self.last[pipe] = len(program) - 1
        return self.last[pipe]

    def vector(self, index: int, event: Event) -> None:
        chip, name = self.chip, self.trace.names[event.name]
        drain = chip.reduce_drain_cycles if "Reduce" in name else chip.drain_cycles
        busy = chip.issue_cycles + vector_cycles(event, self.trace.names, chip)
        extra = (self.last[Pipe.V],) if self.previous is not None and _depends(event, self.previous) else ()
        self.issue(Pipe.V, index, busy, drain, extra)
        self.previous = event

    def copy(self, index: int, event: Event) -> None:
        writes = bool(event.written)
        pipe, mte = (Pipe.MTE3, self.chip.mte3) if writes else (Pipe.MTE2, self.chip.mte2)
        size = event.pieces * event.piece_bytes
        efficiency = self.unaligned(event, mte.unaligned_efficiency) * (
            mte.atomic_efficiency if event.written == 2 else 1.0
        )
        self.issue(pipe, index, mte.setup_cycles, 0.0)
        self.program.transfer[-1] = transfer(size, float(self.hbm_bytes[index]), event.pieces, mte, efficiency)

    def unaligned(self, event: Event, efficiency: float) -> float:
        line = self.chip.line_bytes
        stride = event.stride if event.pieces > 1 else 0
        # A piece that is shorter than a line is not cut into more requests for being off.
        aligned = event.piece_bytes <= line or (event.offset % line == 0 and stride % line == 0)
        return 1.0 if aligned else efficiency

    def product(self, index: int, event: Event) -> None:
        call = Product(event.call)
        if call == Product.INIT and not self.has_started_cube:
            self.has_started_cube = True
            self.spend(self.chip.cycles(self.chip.cube.start_us))
        elif call == Product.ITERATE_ALL:
            # The message is behind all that the core has copied to global memory so far.
            asked = self.issue(Pipe.M, index, 0.0, 0.0, (self.last[Pipe.MTE3],))
            operands = slice(index + 1, index + 4)
            self.program.products[asked] = plan_product(
                event, self.events[operands], self.hbm_bytes[operands].tolist(), self.chip, self.hf32
            )
            self.asked[event.id] = asked
            if event.is_local:
                self.begin_stretch(index, (asked,), self.chip.flag_cycles)
        elif call == Product.WAIT and event.id in self.asked:
            self.begin_stretch(index, (self.asked[event.id],), self.chip.flag_cycles)

    # ---- order

    def queue(self, event: Event) -> None:
        call = Queue(event.call)
        full, free = ("queue", event.buffer, "full"), ("queue", event.buffer, "free")
        producer, consumer = Pipe(event.producer), Pipe(event.consumer)
        if call == Queue.ENQUE:
            self.marks[full] = self.last[producer]
        elif call == Queue.DEQUE:
            self.pending[consumer].add(self.marks.get(full, _NO_EVENT))
        elif call == Queue.FREE:
            self.marks[free] = self.last[consumer]
        else:
            self.pending[producer].add(self.marks.get(free, _NO_EVENT))

    def sync(self, index: int, event: Event) -> None:
        call = Sync(event.call)
        producer, consumer = Pipe(event.producer), Pipe(event.consumer)
        flag = ("flag", int(producer), int(consumer), event.id)
        if call == Sync.SET_FLAG:
            self.marks[flag] = self.last[producer]
        elif call == Sync.WAIT_FLAG:
            if flag not in self.marks:
                place = self.trace.places[event.place]
                raise ProgramError(f"{place}: WaitFlag of a flag that core {self.core} never sets: it would hang")
            mark = self.marks.pop(flag)
            if consumer == Pipe.S:
                self.begin_stretch(index, (mark,) if mark != _NO_EVENT else (), self.chip.flag_cycles)
            else:
                self.pending[consumer].add(mark)
        elif call == Sync.PIPE_BARRIER:
            if event.pipe == Pipe.ALL:
                self.begin_stretch(index, self.everything(), self.chip.flag_cycles)
            elif event.pipe in _DATA_PIPES:
                pipe = Pipe(event.pipe)
                self.pending[pipe].add(self.last[pipe])
        else:
            self.begin_stretch(index, self.everything())
            self.begin_stretch(index, (BARRIER,), self.chip.cycles(self.chip.sync_all_us))

    def scalar(self, index: int, event: Event) -> None:
        if event.is_local:
            self.begin_stretch(index, self.everything((Pipe.V,)), self.chip.flag_cycles)
            self.spend(self.chip.local_access_cycles)
        else:
            self.begin_stretch(index, self.everything((Pipe.MTE3,)))
            self.spend(self.chip.global_access_cycles)

    def run(self) -> Program:
        for index, event in enumerate(self.events):
            kind = event.kind
            if kind == Kind.OPERAND:
                continue  # of the product before
            self.spend(self.chip.setting_cycles if kind == Kind.SETTING else self.chip.call_cycles)
            if kind == Kind.VECTOR:
                self.vector(index, event)
            elif kind == Kind.COPY:
                self.copy(index, event)
            elif kind == Kind.QUEUE:
                self.queue(event)
            elif kind == Kind.SYNC:
                self.sync(index, event)
            elif kind == Kind.SCALAR:
                self.scalar(index, event)
            elif kind == Kind.PRODUCT:
                self.product(index, event)
        return self.program


def alike(trace: Trace, chip: Chip, hbm_bytes: list[Array]) -> list[list[int]]:
    """Return the cores in groups whose programs take the same time."""
    groups: dict[bytes, list[int]] = {}
    for core, digest in enumerate(_digests(trace, chip, hbm_bytes)):
        groups.setdefault(digest, []).append(core)
    return list(groups.values())


def alike_groups(trace: Trace, chip: Chip, hbm_bytes: list[Array]) -> list[list[list[int]]]:
    """Return the cores of a kernel that uses cube cores: for all cube cores that do the same, their first and
    second cores.
    """
    digests = _digests(trace, chip, hbm_bytes)
    groups: dict[bytes, list[list[int]]] = {}
    for first in range(0, len(digests), VECTOR_CORES):
        members = list(range(first, min(first + VECTOR_CORES, len(digests))))
        group = groups.setdefault(b"".join(digests[core] for core in members), [[] for _ in members])
        for position, core in zip(group, members, strict=True):
            position.append(core)
    return list(groups.values())


def _digests(trace: Trace, chip: Chip, hbm_bytes: list[Array]) -> list[bytes]:
    found = []
    for core, events in enumerate(trace.cores):
        # The destination of a copy does not matter, but its layout does.
        matters = (events["piece_bytes"] > chip.line_bytes) | (events["kind"] == Kind.OPERAND)
        digest = hashlib.blake2b(np.where(matters, events["offset"] % chip.line_bytes, 0).tobytes())
        digest.update(hbm_bytes[core].tobytes())
        for name in Event._fields:
            if name != "offset":
                digest.update(np.ascontiguousarray(events[name]).tobytes())
        found.append(digest.digest())
    return found


def _depends(event: Event, previous: Event) -> bool:
    """Tell whether an instruction touches what the one before writes, or writes what it reads."""
    mine, theirs = event.ranges, previous.ranges

    def overlap(a: list[int], b: list[int]) -> bool:
        return a[0] < b[1] and b[0] < a[1]

    return any(overlap(part, theirs[0]) for part in mine) or any(overlap(mine[0], part) for part in theirs[1:])


def compile_core(trace: Trace, core: int, chip: Chip, hbm_bytes: Array, hf32: bool = False) -> Program:
    """Compile the program of one core. `hbm_bytes`: of every event, as memory.traffic() gives them.

    With `hf32`, products of floats round their operands to HF32.

    Raises:
        ProgramError: the core waits for a flag that it never sets.
    """
    return _Compiler(trace, core, chip, hbm_bytes, hf32).run()
