"""Compiled loops ask for the next tile on their way: for what it reads, and for what it will write (prefetch.h)."""

import ctypes
import re

import numpy as np
import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.loops import BYTES, FLOATS, LANES, LARGE, NEVER, SLOT, bits, collect, counted, store
from tests.kernels.host.module import host_calls, program

TILES = 4
SIZE = 4096  # of a tile, in bytes
LINE = 64
FIRST, SECOND, OUTPUT = range(0, 3 * 18 * 1024, 18 * 1024)  # where the tiles begin

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
def _clean(_loops):
    LoopCompiler(host_calls()).compile_waiting()  # what another test has left
    yield
    host_calls().set_non_temporal_bytes(0)
    host_calls().set_loop_threshold(NEVER)


def stretch(slot, gm, size=SIZE):
    return ("copy_in_pad", "float32", slot * SLOT, gm, (1, size, 0, 0), False, (0, 0, 0))


def tiles(scale, copies, size=SIZE, passes=2):
    """Two passes over a tile: one that adds it up, one with the sums. Or one. The scale makes the loops their own.

    `copies`: what loads tile number so and so.
    """
    count, value, result = size // 4, 2 * SLOT, 3 * SLOT
    scaled = ("scalar", "Muls", "float32", value, 0, bits(scale), count)
    shifted = ("binary_repeat", "Sub", "float32", value, value, LANES, 0, 1, (1, 1, 0, 8, 8, 0), False)
    calls = []
    for tile in range(TILES):
        calls += [*copies(tile), scaled]
        calls += [*collect("Add", value, count), *counted(shifted, count)] if passes == 2 else []
        calls += [("binary", "Add", "float32", result, value, SLOT, count)]
        calls += [("scalar", "Muls", "float32", result, result, bits(scale), count)]
        calls += [("unary", "Exp", "float32", result, result, count), store(OUTPUT + size * tile, 3, size)]
    return calls


def side_by_side(size=SIZE):
    return lambda tile: [stretch(0, FIRST + size * tile, size), stretch(1, SECOND + size * tile, size)]


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


def lines_of(*begins, size=SIZE, step=SIZE):
    """Of the tiles that are prefetched: from the second on, where a tile lies tells where the next one will."""
    tile_begins = [begin + step * tile for begin in begins for tile in range(2, TILES + 1)]
    return sorted(line for begin in tile_begins for line in range(begin, begin + size, LINE))


def test_each_line_of_inputs_and_output_once():
    lines, loops = lines_asked_for(tiles(1.0625, side_by_side()))
    assert loops >= 2  # each pass, and what is different about the last tile
    assert sorted(line for _, line in lines) == lines_of(FIRST, SECOND, OUTPUT)


def test_side_by_side_and_spread_over_both_passes():
    """Lines that are prefetched together wait for each other."""
    lines, _ = lines_asked_for(tiles(1.125, side_by_side()))
    tile = lines[: 3 * SIZE // LINE]
    every = [2 * SIZE + begin + at for at in range(0, SIZE, LINE) for begin in (FIRST, SECOND, OUTPUT)]
    assert [line for _, line in tile] == every
    adds_up, writes = (sum(loop == number for loop, _ in tile) for number in (tile[0][0], tile[-1][0]))
    assert adds_up + writes == len(tile)
    assert 2 * adds_up < writes < 8 * adds_up  # which has an exponential to calculate


def test_one_pass_asks_for_its_outputs_sake():
    """What it reads the CPU fetches for itself."""
    calls = tiles(1.15625, side_by_side(), passes=1)
    lines, loops = lines_asked_for(calls)
    assert loops >= 1  # the last tile may differ
    assert sorted(line for _, line in lines) == lines_of(FIRST, SECOND, OUTPUT)
    host_calls().set_non_temporal_bytes(1)
    assert lines_asked_for(calls) == ([], 0)


def test_what_is_behind_the_last_turn_of_a_loop_has_its_share():
    """What is less than an iteration asks for nothing: the last lines of the next tile are missing."""
    count = 1024 + 120
    size = 4 * count
    lines, _ = lines_asked_for(tiles(1.1875, side_by_side(size), size))
    found, every = [line for _, line in lines], lines_of(FIRST, SECOND, OUTPUT, size=size, step=size)
    assert sorted(found) == sorted(set(found) & set(every))  # nothing twice, and nothing else
    tile = set(range(FIRST + 2 * size, FIRST + 3 * size, LINE))
    missing = sorted(tile - set(found))
    assert max(tile) in missing
    # Its share of the lines; and a line more or less where each pass, and the tile, begins and ends.
    assert len(missing) <= 3 + count % 128 / count * len(tile)


def test_what_non_temporal_stores_write_is_not_prefetched():
    host_calls().set_non_temporal_bytes(1)
    lines, _ = lines_asked_for(tiles(1.25, side_by_side()))
    assert sorted(line for _, line in lines) == lines_of(FIRST, SECOND)


def test_where_inputs_go_on_differently_nobody_knows_where_the_output_will():
    step = SIZE + LINE

    def copies(tile):
        return [stretch(0, FIRST + SIZE * tile), stretch(1, SECOND + step * tile)]

    lines, _ = lines_asked_for(tiles(1.3125, copies))
    assert sorted(line for _, line in lines) == lines_of(FIRST) + lines_of(SECOND, step=step)


def test_rows_with_gaps_are_left_to_the_prefetcher():
    row, gap = SIZE // 4, 256

    def copies(tile):
        rows = ("copy_in_pad", "float32", 0, FIRST + SIZE * tile, (SIZE // row, row, gap, 0), False, (0, 0, 0))
        return [rows, stretch(1, SECOND + SIZE * tile)]

    assert lines_asked_for(tiles(1.375, copies)) == ([], 0)


def test_tiles_of_two_lengths_are_left_to_the_prefetcher():
    def copies(tile):
        return [stretch(0, FIRST + SIZE * tile), stretch(1, SECOND + SIZE * tile, SIZE + 32)]

    assert lines_asked_for(tiles(1.4375, copies)) == ([], 0)
