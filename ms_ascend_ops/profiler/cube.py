"""Simulates a cube core in time: what becomes of the products that its two vector cores ask for.

Requests queue at the core, whose scalar unit takes one after the other. A product is cut into base blocks of its result
(along m first, as IterateAll goes), a block into stages along k: what comes to L1 at once, of A and of B. Loads to L1
(MTE2), loads from there to L0A and L0B (MTE1), multiplications (M) and results (FIX) each go on in order, and at the
same time as long as there is a free buffer: as many stages in L1 as fit, two of each operand in L0A and L0B, and in L0C
two blocks where they fit. Loads and results share HBM and L2 with everything else.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ms_ascend_ops.profiler.chip import Chip, Mte
from ms_ascend_ops.profiler.trace import Event, Pipe

__all__ = ["Bar", "CubeCore", "ProductPlan", "Transfer", "plan_product", "transfer"]

_SIDE = 16  # the cube multiplies blocks of 16 x 16
_BLOCK_BYTES = 32
_L0_BUFFERS = 2

# (HBM bytes, bytes per cycle at most, L2 bytes, bytes per cycle at most)
Transfer = tuple[float, float, float, float]


def transfer(size: float, hbm: float, pieces: float, mte: Mte, efficiency: float = 1.0) -> Transfer:
    """Describe a copy of `size` bytes in `pieces`, `hbm` of them from or to HBM."""
    # Pieces that are too short for the rate take their time as well; it hides behind the transfer.
    shortest = pieces * mte.piece_cycles
    most = size / shortest if shortest else math.inf
    return (
        hbm,
        efficiency * min(mte.bytes_per_cycle, most),
        max(0.0, size - hbm),
        efficiency * min(mte.l2_bytes_per_cycle, most),
    )


@dataclass
class _Operand:
    """Describes A, B or C in memory."""

    element_bytes: int
    is_transposed: bool
    hbm_share: float  # of its bytes, each time it is moved
    efficiency: float

    def pieces(self, rows: int, cols: int) -> int:
        return cols if self.is_transposed else rows

    def move(self, rows: int, cols: int, mte: Mte) -> Transfer:
        size = float(rows * cols * self.element_bytes)
        return transfer(size, size * self.hbm_share, self.pieces(rows, cols), mte, self.efficiency)


@dataclass
class _Stage:
    """Holds what is in L1 at once, and the steps that multiply it."""

    loads: list[Transfer]
    steps: list[tuple[float, float]]  # cycles of MTE1 and of M
    is_first: bool  # of its block
    result: Transfer | None  # of its block, if it is the last


@dataclass
class ProductPlan:
    """Describes a product as the stages of a cube core. Cycles are those of the units alone."""

    stages: list[_Stage]
    l1_stages: int  # that fit L1
    l0c_blocks: int
    flops: float
    macs: float  # in whole blocks of 16 x 16 elements


def plan_product(event: Event, operands: list[Event], hbm: list[float], chip: Chip, hf32: bool = False) -> ProductPlan:
    """Plan the stages of a product.

    Args:
        event: the product.
        operands: A, B and C.
        hbm: of each of them, the bytes that HBM moves.
        chip: the chip.
        hf32: operands of float are rounded to HF32.
    """
    cube = chip.cube
    (m, n), (k, loads_whole), (base_m, base_n), (base_k, _) = event.ranges
    size = event.element_bytes
    blocks_m, blocks_n = _parts(m, base_m), _parts(n, base_n)
    stage_bytes = (base_m + base_n) * base_k * size
    steps = 1
    while loads_whole and 2 * (2 * steps) * stage_bytes <= cube.l1_bytes:
        steps *= 2
    stages_k = _parts(k, steps * base_k)
    keeps_b = 2 * k * base_n * size <= cube.l1_bytes and len(stages_k) == 1  # for the next block of the same columns
    reloads = (len(blocks_n), 1 if keeps_b else len(blocks_m), 1)
    a, b, c = (_operand(*operand, chip) for operand in zip(operands, hbm, reloads, strict=True))
    stages = []
    for cols in blocks_n:
        for row, rows in enumerate(blocks_m):
            for i, depth in enumerate(stages_k):
                loads = [a.move(rows, depth, cube.mte2)]
                if row == 0 or not keeps_b:
                    loads.append(b.move(depth, cols, cube.mte2))
                last = i == len(stages_k) - 1
                stages.append(
                    _Stage(
                        loads,
                        [_step(rows, cols, part, size, chip, hf32) for part in _parts(depth, base_k)],
                        i == 0,
                        c.move(rows, cols, cube.fix) if last else None,
                    )
                )
    block_bytes = _whole(base_m) * _whole(base_n) * 4
    return ProductPlan(
        stages,
        max(2, cube.l1_bytes // max(1, steps * stage_bytes)),
        2 if 2 * block_bytes <= cube.l0c_bytes else 1,
        2.0 * m * n * k,
        sum(_whole(rows) * _whole(cols) for rows in blocks_m for cols in blocks_n) * float(_whole(k)),
    )


def _parts(size: int, most: int) -> list[int]:
    return [min(most, size - begin) for begin in range(0, size, max(1, most))]


def _whole(size: int) -> int:
    return -(-size // _SIDE) * _SIDE


def _operand(event: Event, hbm: float, reloads: int, chip: Chip) -> _Operand:
    moved = reloads * float(event.pieces * event.piece_bytes)
    mte = chip.cube.fix if event.written else chip.cube.mte2
    alignment = chip.line_bytes if event.written else _BLOCK_BYTES
    is_aligned = event.offset % alignment == 0 and (event.pieces <= 1 or event.stride % alignment == 0)
    efficiency = 1.0 if is_aligned else mte.unaligned_efficiency
    if event.written == 2:
        efficiency *= mte.atomic_efficiency
    return _Operand(event.element_bytes, bool(event.is_local), min(1.0, hbm / moved) if moved else 0.0, efficiency)


def _step(rows: int, cols: int, depth: int, size: int, chip: Chip, hf32: bool) -> tuple[float, float]:
    cube = chip.cube
    # A fractal is 16 x 32 bytes: 16 elements of 2 bytes, 8 of 4.
    whole_depth = -(-depth * size // _BLOCK_BYTES) * _BLOCK_BYTES / size
    load = 2 * cube.load_cycles + whole_depth * size * (_whole(rows) / cube.l0a_rate + _whole(cols) / cube.l0b_rate)
    return load, cube.issue_cycles + _whole(rows) * _whole(cols) * whole_depth / cube.macs(size, hf32)


@dataclass
class Bar:
    """Work of a pipe of a cube core, in cycles. `owner` and `instruction`: of the vector core whose product it is."""

    pipe: Pipe
    begin: float
    end: float
    owner: int
    instruction: int


@dataclass
class _Request:
    owner: int
    instruction: int
    plan: ProductPlan


@dataclass
class _Slot:
    """Follows a stage on its way through the core."""

    request: _Request
    stage: _Stage
    is_last: bool  # of its product
    loaded: float | None = None
    released: float | None = None  # L1, when MTE1 has read it


@dataclass
class _Result:
    request: _Request
    transfer: Transfer
    is_last: bool
    ready: float
    ended: float | None = None


@dataclass
class CubeCore:
    """Simulates a cube core, or several that do the same at the same time.

    `at` calls a function at a time, `move` moves a transfer from now on and calls a function at its end; `now` tells
    the time; `done` is told of a product that is complete.
    """

    chip: Chip
    at: Callable[[float, Callable[[], None]], None]
    move: Callable[[Transfer, Callable[[], None]], None]
    now: Callable[[], float]
    done: Callable[[int, int], None]
    bars: list[Bar] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.queue: deque[_Request] = deque()
        self.is_serving = False  # the scalar unit has a request whose loads have not all begun
        self.slots: list[_Slot] = []
        self.load = 0  # the stage that MTE2 is at, and the load of it
        self.load_part = 0
        self.is_loading = False
        self.step = 0  # the stage that MTE1 and M are at
        self.results: list[_Result] = []
        self.result = 0  # that FIX is at
        self.is_storing = False
        self.mte1 = self.m = 0.0  # when they are free
        self.l0 = deque([0.0] * _L0_BUFFERS)  # when buffers of L0A and L0B are

    # ---- requests

    def ask(self, owner: int, instruction: int, plan: ProductPlan) -> None:
        """Take a message of a vector core."""
        self.queue.append(_Request(owner, instruction, plan))
        self.serve()

    def serve(self) -> None:
        if self.is_serving or not self.queue:
            return
        self.is_serving = True
        request = self.queue.popleft()
        cycles = self.chip.cycles(self.chip.cube.message_us)
        self.bars.append(Bar(Pipe.S, self.now(), self.now() + cycles, request.owner, request.instruction))
        self.at(self.now() + cycles, lambda: self.issue(request))

    def issue(self, request: _Request) -> None:
        stages = request.plan.stages
        if not stages:  # nothing to multiply
            self.done(request.owner, request.instruction)
            self.is_serving = False
            self.serve()
            return
        self.slots += [_Slot(request, stage, stage is stages[-1]) for stage in stages]
        self.try_load()

    # ---- MTE2

    def try_load(self) -> None:
        if self.is_loading or self.load >= len(self.slots):
            return
        slot = self.slots[self.load]
        time = self.now()
        before = self.load - slot.request.plan.l1_stages
        if self.load_part == 0 and before >= 0:
            released = self.slots[before].released
            if released is None:
                return  # compute() tries again
            time = max(time, released)
        self.is_loading = True
        self.at(time, lambda: self.start_load(slot))

    def start_load(self, slot: _Slot) -> None:
        begin = self.now()
        moved = slot.stage.loads[self.load_part]
        if slot.is_last and self.load_part == len(slot.stage.loads) - 1:
            self.is_serving = False  # the next request
            self.serve()

        def end() -> None:
            self.bars.append(Bar(Pipe.MTE2, begin, self.now(), slot.request.owner, slot.request.instruction))
            self.is_loading = False
            self.load_part += 1
            if self.load_part == len(slot.stage.loads):
                self.load_part = 0
                self.load += 1
                slot.loaded = self.now()
                self.compute()
            self.try_load()

        self.at(begin + self.chip.cube.mte2.setup_cycles, lambda: self.move(moved, end))

    # ---- MTE1 and M

    def compute(self) -> None:
        while self.step < len(self.slots):
            slot = self.slots[self.step]
            if slot.loaded is None:
                return
            start = 0.0
            if slot.stage.is_first:
                before = len(self.results) - slot.request.plan.l0c_blocks
                if before >= 0:
                    ended = self.results[before].ended
                    if ended is None:
                        return  # the end of a result tries again
                    start = ended
            self.multiply(slot, start)
            self.step += 1
            self.try_load()

    def multiply(self, slot: _Slot, start: float) -> None:
        """Multiply; `start`: when L0C is free."""
        owner, instruction = slot.request.owner, slot.request.instruction
        first_load = first_step = None
        for load, step in slot.stage.steps:
            begin = max(self.mte1, slot.loaded or 0.0, self.l0.popleft())
            self.mte1 = begin + load
            first_load = begin if first_load is None else first_load
            begin = max(self.m, self.mte1, start)
            self.m = begin + step
            first_step = begin if first_step is None else first_step
            self.l0.append(self.m)
            self.bars.append(Bar(Pipe.MTE1, self.mte1 - load, self.mte1, owner, instruction))
            self.bars.append(Bar(Pipe.M, begin, self.m, owner, instruction))
        slot.released = self.mte1
        if slot.stage.result is not None:
            self.results.append(_Result(slot.request, slot.stage.result, slot.is_last, self.m))
            self.try_store()

    # ---- FIX

    def try_store(self) -> None:
        if self.is_storing or self.result >= len(self.results):
            return
        self.is_storing = True
        result = self.results[self.result]
        self.at(max(self.now(), result.ready), lambda: self.start_store(result))

    def start_store(self, result: _Result) -> None:
        begin = self.now()

        def end() -> None:
            result.ended = self.now()
            self.bars.append(Bar(Pipe.FIX, begin, self.now(), result.request.owner, result.request.instruction))
            self.is_storing = False
            self.result += 1
            if result.is_last:
                self.done(result.request.owner, result.request.instruction)
            self.compute()
            self.try_store()

        self.at(begin + self.chip.cube.fix.setup_cycles, lambda: self.move(result.transfer, end))
