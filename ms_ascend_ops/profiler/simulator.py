"""Simulates the pipes of all cores in time.

Vector and scalar instructions take a time known beforehand, so their begin and end follow as soon as that of what they
wait for is known. Copies share the bandwidth of HBM and of L2: at any time it is divided evenly among the running
transfers, none of which gets more than its core can take (max-min fairness). Cores that run the same program do the
same at the same time, and are simulated once. Of a kernel that uses cube cores those are groups: a cube core (cube.py)
and its vector cores.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from ms_ascend_ops.profiler.chip import Chip
from ms_ascend_ops.profiler.cube import CubeCore, Transfer
from ms_ascend_ops.profiler.program import BARRIER, Program, ProgramError
from ms_ascend_ops.profiler.trace import PIPES, Array, Pipe

__all__ = ["Run", "simulate"]

AT_ONCE = -1  # cause: the pipe was never idle before
ISSUE = -2  # cause: the scalar unit had not issued it
SYNC = -3  # cause: the other cores


@dataclass
class Run:
    """Simulates one program in time, in cycles. `cause` of an instruction is what it waited for last."""

    program: Program
    cores: list[int]
    begin: Array
    end: Array  # of the time it holds its pipe
    complete: Array
    cause: Array  # index of an instruction, or AT_ONCE, ISSUE, SYNC
    cube: CubeCore | None = None  # that computes its products; `owner` of its bars is a position in the list of runs

    @property
    def cycles(self) -> float:
        return float(self.complete.max(initial=0.0))


class _Flows:
    """Shares a bandwidth among transfers. Those with the same limit move at the same rate."""

    def __init__(self, bandwidth: float):
        self.bandwidth = bandwidth
        self.moved: dict[float, float] = {}  # by limit: bytes that a transfer has moved since the beginning
        self.count: dict[float, int] = {}
        self.rate: dict[float, float] = {}
        self.ends: dict[float, list[tuple[float, int, int, int]]] = {}  # moved, core class, instruction, multiplicity

    def add(self, limit: float, size: float, owner: int, instruction: int, multiplicity: int) -> None:
        moved = self.moved.setdefault(limit, 0.0)
        heapq.heappush(self.ends.setdefault(limit, []), (moved + size, owner, instruction, multiplicity))
        self.count[limit] = self.count.get(limit, 0) + multiplicity

    def share(self, bandwidth: float) -> float:
        """Divide the bandwidth; returns what is used of it."""
        left, transfers = bandwidth, sum(self.count.values())
        used = 0.0
        for limit in sorted(self.count):
            if self.count[limit] == 0:
                continue
            self.rate[limit] = min(limit, left / transfers)
            left -= self.rate[limit] * self.count[limit]
            used += self.rate[limit] * self.count[limit]
            transfers -= self.count[limit]
        return used

    def next_end(self) -> float:
        """Return the cycles until the first transfer ends."""
        return min(
            ((ends[0][0] - self.moved[limit]) / self.rate[limit] for limit, ends in self.ends.items() if ends),
            default=float("inf"),
        )

    def advance(self, cycles: float) -> None:
        for limit, count in self.count.items():
            if count:
                self.moved[limit] += self.rate[limit] * cycles

    def ended(self) -> list[tuple[int, int]]:
        """Remove the transfers that have ended."""
        done = []
        for limit, ends in self.ends.items():
            # Rounding: what is within a thousandth of a byte has arrived.
            while ends and ends[0][0] <= self.moved[limit] + 1e-3:
                _, owner, instruction, multiplicity = heapq.heappop(ends)
                self.count[limit] -= multiplicity
                done.append((owner, instruction))
        return done


class _Simulator:
    def __init__(self, programs: list[Program], cores: list[list[int]], chip: Chip, groups: list[int] | None):
        self.programs = programs
        self.cores = cores
        self.chip = chip
        self.now = 0.0
        self.hbm = _Flows(chip.hbm_bytes_per_cycle)
        self.l2 = _Flows(chip.l2_bytes_per_cycle if groups else chip.vector_l2_bytes_per_cycle)
        self.starts: list[tuple[float, int, int]] = []  # transfers to come
        self.at_barrier: list[tuple[int, int, float]] = []
        self.runs = [
            Run(
                program,
                members,
                np.full(len(program), np.nan),
                np.full(len(program), np.nan),
                np.full(len(program), np.nan),
                np.full(len(program), AT_ONCE),
            )
            for program, members in zip(programs, cores, strict=True)
        ]
        # Plain lists are faster here.
        self.begin = [[0.0] * len(p) for p in programs]
        self.end = [[0.0] * len(p) for p in programs]
        self.complete = [[0.0] * len(p) for p in programs]
        self.cause = [[AT_ONCE] * len(p) for p in programs]
        self.ready = [[0.0] * len(p) for p in programs]  # the earliest begin known so far
        self.missing = [[0] * len(p) for p in programs]  # how much of what decides it is not known yet
        self.followers: list[list[list[tuple[int, int]]]] = []  # (instruction, how it depends)
        self.jobs: list[tuple[Callable[[], None], Transfer | None, int]] = []  # of cube cores; the last is how many
        cubes: dict[int, CubeCore] = {}
        for owner, group in enumerate(groups or []):
            if group not in cubes:
                cubes[group] = self.cube_core(len(cores[owner]))
            self.runs[owner].cube = cubes[group]
        self.wire()

    def cube_core(self, multiplicity: int) -> CubeCore:
        return CubeCore(
            self.chip,
            at=self.call_at,
            move=partial(self.move, multiplicity),
            now=lambda: self.now,
            done=self.product_done,
        )

    # Jobs of cube cores have the owner -1 and a number instead of an instruction.

    def call_at(self, time: float, then: Callable[[], None]) -> None:
        self.jobs.append((then, None, 1))
        heapq.heappush(self.starts, (time, _CUBE, len(self.jobs) - 1))

    def move(self, multiplicity: int, transfer: Transfer, then: Callable[[], None]) -> None:
        self.jobs.append((then, transfer, multiplicity))
        self.start_transfer(_CUBE, len(self.jobs) - 1)

    def product_done(self, owner: int, i: int) -> None:
        self.end[owner][i] = self.complete[owner][i] = self.now
        for able in self.tell(owner, i):
            self.set_begin(owner, able)

    def wire(self) -> None:
        """Note which instructions are told when the times of one are known."""
        for owner, program in enumerate(self.programs):
            followers: list[list[tuple[int, int]]] = [[] for _ in range(len(program))]
            previous = dict.fromkeys(PIPES, -1)
            missing = self.missing[owner]
            for i in range(len(program)):
                pipe = Pipe(program.pipe[i])
                if previous.get(pipe, -1) >= 0 and pipe != Pipe.M:  # requests may overtake nobody, but do not wait
                    followers[previous[pipe]].append((i, _PIPE))
                    missing[i] += 1
                if pipe != Pipe.S:
                    followers[program.stretch[i]].append((i, _ISSUE))
                    missing[i] += 1
                for wait in program.waits[i]:
                    if wait != BARRIER:
                        followers[wait].append((i, _WAIT))
                    missing[i] += 1
                previous[pipe] = i
            self.followers.append(followers)

    def run(self) -> list[Run]:
        for owner, program in enumerate(self.programs):
            if len(program):
                self.set_begin(owner, 0)
        while True:
            used = self.hbm.share(self.hbm.bandwidth)
            self.l2.share(max(self.l2.bandwidth - used, 1e-6))
            step = min(self.hbm.next_end(), self.l2.next_end())
            if self.starts:
                step = min(step, self.starts[0][0] - self.now)
            if step == float("inf"):
                break
            step = max(step, 0.0)
            self.hbm.advance(step)
            self.l2.advance(step)
            self.now += step
            for owner, i in self.hbm.ended():
                self.after_hbm(owner, i)
            for owner, i in self.l2.ended():
                self.transferred(owner, i)
            while self.starts and self.starts[0][0] <= self.now + 1e-9:
                _, owner, i = heapq.heappop(self.starts)
                self.start(owner, i)
        return self.results()

    def results(self) -> list[Run]:
        for owner, run in enumerate(self.runs):
            stuck = [i for i, missing in enumerate(self.missing[owner]) if missing > 0]
            if stuck:
                raise ProgramError(f"core {run.cores[0]} never gets past its call number {run.program.event[stuck[0]]}")
            run.begin = np.array(self.begin[owner])
            run.end = np.array(self.end[owner])
            run.complete = np.array(self.complete[owner])
            run.cause = np.array(self.cause[owner])
        return self.runs

    # ---- one instruction

    def set_begin(self, owner: int, first: int) -> None:
        """Set the begin of an instruction, as all that decides it is known, and of others that it decides."""
        program = self.programs[owner]
        work = [first]
        while work:
            i = work.pop()
            begin = self.ready[owner][i]
            self.begin[owner][i] = begin
            if i in program.products:
                cube = self.runs[owner].cube
                assert cube is not None
                self.call_at(begin, partial(cube.ask, owner, i, program.products[i]))
                continue
            if program.transfer[i] is not None:
                heapq.heappush(self.starts, (begin + program.busy[i], owner, i))
                continue
            self.end[owner][i] = begin + program.busy[i]
            self.complete[owner][i] = self.end[owner][i] + program.drain[i]
            work.extend(self.tell(owner, i))

    def tell(self, owner: int, i: int) -> list[int]:
        """Tell the followers; returns those that can begin."""
        program, ready, missing, cause = self.programs[owner], self.ready[owner], self.missing[owner], self.cause[owner]
        able = []
        for follower, how in self.followers[owner][i]:
            if how == _PIPE:
                time, reason = self.end[owner][i], AT_ONCE
            elif how == _ISSUE:
                time, reason = self.begin[owner][i] + program.offset[follower], ISSUE
            else:
                time, reason = self.complete[owner][i] + program.delay[follower], i
            # At a tie the pipe's own work counts as the reason: then nothing was waited for.
            if time > ready[follower] or (time == ready[follower] and how == _PIPE):
                ready[follower], cause[follower] = time, reason
            missing[follower] -= 1
            if missing[follower] == 0:
                able.append(follower)
            elif missing[follower] == 1 and BARRIER in program.waits[follower]:
                self.arrive(owner, follower)
        return able

    def arrive(self, owner: int, i: int) -> None:
        """Note that a core is at SyncAll: when the last one is, all go on."""
        self.at_barrier.append((owner, i, self.ready[owner][i]))
        if len(self.at_barrier) < len(self.programs):
            return
        release = max(time for _, _, time in self.at_barrier)
        arrived, self.at_barrier = self.at_barrier, []
        for other, j, _ in arrived:
            self.ready[other][j] = release + self.programs[other].delay[j]
            self.cause[other][j] = SYNC
            self.missing[other][j] -= 1
            self.set_begin(other, j)

    def transfer(self, owner: int, i: int) -> tuple[Transfer, int]:
        """Return the transfer, and how many cores do the same."""
        if owner == _CUBE:
            _, transfer, multiplicity = self.jobs[i]
        else:
            transfer, multiplicity = self.programs[owner].transfer[i], len(self.cores[owner])
        assert transfer is not None
        return transfer, multiplicity

    def start(self, owner: int, i: int) -> None:
        if owner == _CUBE:
            self.jobs[i][0]()
        else:
            self.start_transfer(owner, i)

    def start_transfer(self, owner: int, i: int) -> None:
        (hbm, rate, _, _), multiplicity = self.transfer(owner, i)
        if hbm > 0:
            self.hbm.add(rate, hbm, owner, i, multiplicity)
        else:
            self.after_hbm(owner, i)

    def after_hbm(self, owner: int, i: int) -> None:
        (_, _, size, rate), multiplicity = self.transfer(owner, i)
        if size > 0:
            self.l2.add(rate, size, owner, i, multiplicity)
        else:
            self.transferred(owner, i)

    def transferred(self, owner: int, i: int) -> None:
        if owner == _CUBE:
            self.jobs[i][0]()
            return
        self.end[owner][i] = self.now
        self.complete[owner][i] = self.now + self.programs[owner].drain[i]
        for able in self.tell(owner, i):
            self.set_begin(owner, able)


_PIPE, _ISSUE, _WAIT = range(3)
_CUBE = -1  # as owner


def simulate(programs: list[Program], cores: list[list[int]], chip: Chip, groups: list[int] | None = None) -> list[Run]:
    """Run programs, each of them on so many cores. Returns a Run for each.

    `groups`: of each program the number of the cube core that it asks, for programs that ask one.

    Raises:
        ProgramError: a core waits for ever.
    """
    return _Simulator(programs, cores, chip, groups).run()
