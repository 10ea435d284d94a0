"""Compiled loops ask for the next tile on their way: for what it reads, and for what it will write (prefetch.h)."""

import ctypes
import re

import numpy as np
import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls, program
from tests.kernels.host.test_loops import (
    BYTES,
    FLOATS,
    LANES,
    LARGE,
    NEVER,
    SLOT,
    bits,
    collect,
    counted,
    load,
    store,
    writes_loops,
)

TILES = 5
COUNT = 1024  # floats of a tile
SIZE = 4 * COUNT
LINE = 64
INPUTS = (0, TILES * SIZE)
OUTPUT = 2 * TILES * SIZE
ORDER = (*INPUTS, OUTPUT)

asked = []  # by which loop, and an address
# For ever, as the code that calls it.
ask = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint64)(lambda *line: asked.append(line))


class Asking(LoopCompiler):
    """Instead of asking for a line of the next tile, loops say so."""

    count = 0

    def _compile(self, number, name, text):
        callback = ctypes.cast(ask, ctypes.c_void_p).value
        call = rf"call void inttoptr (i64 {callback} to ptr)(i64 {number}, ptr \1)"
        text, replaced = re.subn(r"call void @llvm.prefetch.p0\(ptr (%\S+), i32 0, i32 2, i32 1\)", call, text)
        self.count += replaced > 0
        super()._compile(number, name, text)


@pytest.fixture(autouse=True)
def _loops():
    if not writes_loops():
        pytest.skip("this vector unit has no loops")
    yield
    host_calls().set_stream_bytes(0)


def tiles(scale, row=SIZE, gap=0):
    """Two passes over a tile: one that adds it up, one with the sums. The scale makes the loops their own.

    A tile may lie in rows, with a gap between them.
    """
    calls = []
    for tile in range(TILES):
        inputs = [load(slot, at + SIZE * tile, SIZE) for slot, at in enumerate(INPUTS)]
        if gap:
            inputs[0] = ("copy_in_pad", "float32", 0, (SIZE + gap) * tile, (SIZE // row, row, gap, 0), False, (0, 0, 0))
        calls += [*inputs, ("scalar", "Muls", "float32", 2 * SLOT, 0, bits(scale), COUNT)]
        calls += collect("Add", 2 * SLOT, COUNT)
        shifted = ("binary_repeat", "Sub", "float32", 2 * SLOT, 2 * SLOT, LANES, 0, 1, (1, 1, 0, 8, 8, 0), False)
        calls += counted(shifted, COUNT)
        calls += [("binary", "Add", "float32", 3 * SLOT, 2 * SLOT, SLOT, COUNT)]
        calls += [("unary", "Exp", "float32", *2 * [3 * SLOT], COUNT), store(OUTPUT + SIZE * tile, 3, SIZE)]
    return calls


def lines_asked_for(calls):
    """By which loop and where in global memory, in order; and how many loops there are that ask."""
    gm, ub = np.zeros(BYTES, np.uint8), FLOATS.view(np.uint8)[None].copy()
    run = program(calls)
    host_calls().set_loop_threshold(0)
    for _ in range(3):
        host_calls().run([run], gm, ub, "deferred", LARGE)
    host_calls().set_loop_threshold(NEVER)
    compiler = Asking(host_calls())
    compiler.compile_waiting()
    asked.clear()
    host_calls().run([run], gm, ub, "deferred", LARGE)
    return [(loop, address - gm.ctypes.data) for loop, address in asked], compiler.count


def all_lines(*begins):
    """Of the tiles that are asked for: from the second on, where a tile lies tells where the next one will."""
    return sorted(line for begin in begins for line in range(begin + 2 * SIZE, begin + (TILES + 1) * SIZE, LINE))


def test_each_line_of_inputs_and_output_once():
    lines, loops = lines_asked_for(tiles(1.0625))
    assert loops >= 2  # each pass, and what is different about the last tile
    assert sorted(line for _, line in lines) == all_lines(*ORDER)


def test_side_by_side_and_spread_over_both_passes():
    """Lines that are asked for together wait for each other."""
    lines, _ = lines_asked_for(tiles(1.125))
    tile = lines[: 3 * SIZE // LINE]
    assert [line for _, line in tile] == [2 * SIZE + begin + at for at in range(0, SIZE, LINE) for begin in ORDER]
    adds_up, writes = (sum(loop == number for loop, _ in tile) for number in (tile[0][0], tile[-1][0]))
    assert adds_up + writes == len(tile)
    assert 2 * adds_up < writes < 8 * adds_up  # which has an exponential to calculate


def test_what_goes_past_the_caches_is_not_asked_for():
    host_calls().set_stream_bytes(1)
    lines, loops = lines_asked_for(tiles(1.25))
    assert loops >= 2
    assert sorted(line for _, line in lines) == all_lines(*INPUTS)


def test_rows_with_gaps_are_left_to_the_prefetcher():
    assert lines_asked_for(tiles(1.375, row=SIZE // 4, gap=256)) == ([], 0)
