"""Deferred execution equals serial execution, bit for bit, in the Unified Buffer and in global memory.

A program runs four ways: everything carried out after each call; as kernels run; with some flushes in between; as a
launch that is replayed. As kernels run, it is scheduled the first time and followed the second, in global memory that
lies elsewhere and, a third time, with prefetching. A replayed one does not run unless it looks at values. Program text
comes from programs.py, a list that prints as it is called.
"""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.host.module import host_calls, program
from tests.kernels.host.programs import GM_BYTES, UB_BYTES, draw_program

LARGE = 1 << 30  # bytes of output with which inputs are prefetched
EXECUTIONS = [
    ("deferred", 0), ("deferred", 0), ("flushed", 0), ("deferred", LARGE), ("replayed", 0), ("replayed", LARGE),
]  # fmt: skip
_rng = np.random.default_rng(0)
GM = _rng.standard_normal(GM_BYTES // 4).astype(np.float32).view(np.uint8)
UB = _rng.standard_normal(UB_BYTES // 4).astype(np.float32).view(np.uint8)


def play(calls, execution, output_bytes=0):
    gm, ub = GM.copy(), UB[None].copy()
    results = host_calls().run([program(calls)], gm, ub, execution, output_bytes)
    return gm, ub, results


def identical_or_nan(a, b):
    """Which of two NaN an instruction passes on is the compiler's choice, in every loop anew."""
    both = np.isnan(a.view(np.float32)) & np.isnan(b.view(np.float32))
    halves = [array.view(np.uint16) for array in (a, b)]
    both16 = np.isnan(halves[0].view(np.float16)) & np.isnan(halves[1].view(np.float16))
    brain = np.logical_and(*((array & 0x7FFF) > 0x7F80 for array in halves))
    return np.repeat((halves[0] == halves[1]) | np.repeat(both, 2, -1) | both16 | brain, 2, -1)


def assert_same_in_any_execution(calls):
    gm, ub, results = play(calls, "serial")
    for execution, output_bytes in EXECUTIONS:
        other_gm, other_ub, other_results = play(calls, execution, output_bytes)
        assert other_results == results
        for name, mine, theirs in [("Unified Buffer", other_ub, ub), ("global memory", other_gm, gm)]:
            equal = identical_or_nan(mine, theirs)
            assert equal.all(), f"{name} differs from byte {np.argmin(equal)} on"


def assert_same_after_a_change(calls, rng):
    """A program that begins like a known one, and then differs."""
    play(calls, "deferred")
    places = [i for i, call in enumerate(calls) if call[0] not in {"free", "fill"}]  # what is freed must be filled
    if places:
        place, other = rng.choice(places), rng.choice(places)
        instead = rng.choice([[], [calls[place], calls[place]], [calls[other]]])
        assert_same_in_any_execution([*calls[:place], *instead, *calls[place + 1 :]])


def test_random_programs(draws):
    @settings(max_examples=len(draws(150)))
    @given(st.randoms(use_true_random=False))
    def holds(rng):
        assert_same_in_any_execution(draw_program(rng))

    holds()


@pytest.mark.parametrize("seed", range(4))
def test_many_random_programs(draws, seed):
    for i in draws(100):
        rng = random.Random(1000 * seed + i)
        calls = draw_program(rng)
        assert_same_in_any_execution(calls)
        assert_same_after_a_change(calls, rng)


def load(ub, gm, count):
    return ("copy_in_pad", "float32", ub, gm, (1, 4 * count, 0, 0), False, (0, 0, 0))


def store(gm, ub, count):
    return ("copy_out_pad", "float32", gm, ub, (1, 4 * count, 0, 0))


# What random programs found, or seldom reach.
def scalar(op, to, source, count):
    return ("scalar", op, "float32", to, source, int(np.float32(0.75).view(np.uint32)), count)


FOUND = {
    "a strided copy in keeps what lies between its rows": [
        load(0, 0, 100),
        ("copy_in_pad", "float32", 0, 4096, (7, 96, 0, 1), False, (0, 0, 0)),
    ],
    "rows made by groups of their own, stored with gaps": [
        *(("binary", "Mul", "float32", 256 * i, 8192 + 256 * i, 8192 + 256 * i, 64) for i in range(3)),
        ("copy_out_pad", "float32", 0, 0, (3, 256, 0, 20)),
    ],
    "a copy out over its own source": [load(0, 0, 2000), store(96, 0, 2000)],
    "a copy out over its own source, in rows": [
        load(0, 0, 2000),
        ("copy_out_pad", "float32", 64, 0, (6, 96, 0, 12)),
    ],
    "a copy out to its own source": [load(0, 0, 2000), store(0, 0, 2000)],
    "what was free is written by a chain that began before": [
        scalar("Muls", 4096, 0, 1000),
        scalar("Adds", 12288, 8192, 1000),
        ("free", 16384, 4096),
        scalar("Adds", 16384, 4096, 1000),
        scalar("Adds", 32768, 32768, 640),  # another group
        scalar("Muls", 24576, 16384, 1000),
        ("fill", "int32", 16384, 0, 1024),
    ],
    "an atomic copy out over its own source": [load(0, 0, 2000), ("atomic", True), store(4, 0, 2000)],
    "an accumulator loaded from global memory": [
        load(0, 0, 64),
        ("set_mask", "counter", 0, 1000),
        ("binary_repeat", "Add", "float32", 0, 8192, 0, 0, 1, (1, 1, 1, 0, 8, 0), False),
    ],
    "sums of columns that begin with what was loaded": [
        load(0, 0, 512),
        *(
            ("binary_repeat", "Add", "float32", at, 8192 + at, at, 64, 4, (1, 1, 1, 0, 64, 0), True)
            for at in range(0, 2048, 256)
        ),
    ],
    "repeats that write to what the next one reads, loaded from global memory": [
        ("binary_repeat", "Max", "float16", 8192, 33024, 8192, 33, 5, (1, 1, 1, 1, 8, 1), True),
    ],
    "half accumulation beside a coarser instruction": [
        ("cast", "float16", "float32", 0, 16384, 1, 300),
        ("cast", "float16", "float32", 8192, 32768, 1, 300),
        ("set_mask", "counter", 0, 200),
        ("binary_repeat", "Add", "float16", 0, 8192, 0, 0, 1, (1, 1, 1, 0, 8, 0), False),
        ("clear_mask",),
        ("binary_repeat", "Add", "float32", 24576, 16384, 16384, 8, 200, (1, 1, 1, 1, 1, 1), True),
    ],
    "a short column between whole ones": [
        ("binary_repeat", "Add", "float32", 0, 8192, 0, 64, 4, (1, 1, 1, 8, 30, 8), True),
        ("binary_repeat", "Add", "float32", 0, 8192 + 256, 0, 32, 4, (1, 1, 1, 8, 30, 8), True),
        ("binary_repeat", "Add", "float32", 0, 8192 + 384, 0, 64, 4, (1, 1, 1, 8, 30, 8), True),
    ],
    "a sum that was loaded from global memory": [load(0, 0, 500), ("axpy", 0, 8192, 0x40400000, 500)],
    "a result replaced by a cast of what was cast before": [
        ("cast", "float32", "bfloat16", 8192, 49152, 0, 300),
        ("unary", "Abs", "float32", 16384, 24576, 300),
        ("cast", "float32", "bfloat16", 16384, 49152, 0, 300),
        ("unary", "Sqrt", "float32", 24576, 16384, 300),
    ],
    "a result replaced by a cast, and stored": [
        ("cast", "float32", "bfloat16", 8192, 49152, 0, 1000),
        ("binary", "Sub", "float32", 32768, 32768, 16384, 1000),
        ("cast", "float32", "bfloat16", 32768, 49152, 0, 1000),
        store(50768, 32768, 1000),
    ],
    "a source replaced by a cast, and summed up": [
        load(49152, 2400, 1999),
        ("cast", "bfloat16", "float32", 40960, 16384, 1, 1999),
        ("cast", "float32", "bfloat16", 16384, 49152, 0, 1999),
        ("set_mask", "counter", 0, 1999),
        ("binary_repeat", "Add", "float32", 57344, 16384, 57344, 0, 1, (1, 1, 1, 0, 8, 0), False),
        ("clear_mask",),
    ],
    "a group that comes apart, of sizes that no smaller one divides": [
        ("copy_out_pad", "float32", 49164, 0, (8, 400, 1, 12)),
        ("free", 16384, 8192),
        ("fill", "int32", 16384, 0, 2048),
        ("unary", "Exp", "float32", 32768, 16416, 432),
        ("binary", "Sub", "float32", 1024, 16352, 24576, 432),
    ],
    "an atomic copy out of floats that were made as halves": [
        ("cast", "float16", "float32", 8192, 24576, 1, 2048),
        ("cast", "float32", "float16", 16384, 8192, 0, 2048),
        ("atomic", True),
        ("copy_out_pad", "float32", 16896, 8192, (1, 4096, 0, 0)),
    ],
    "floats from 16 bits that were given up since, tile after tile": [
        *(
            call
            for tile in range(4)
            for call in [
                ("copy_in_pad", "bfloat16", 0, 400 * tile, (20, 6, 0, 0), False, (0, 0, 0)),
                ("cast", "float32", "bfloat16", 8192, 0, 0, 320),
                ("free", 0, 8192),
                ("fill", "int32", 16384, 0, 512),
                ("binary", "Add", "float32", 16384, 16384, 8192, 300),
                store(50000 + 2000 * tile, 16384, 300),
            ]
        ),
        ("get", 16384),
        ("fill", "int32", 0, 0, 2048),
    ],
    "tiles of more instructions than a core keeps": [
        call
        for tile in range(80)
        for call in [
            load(0, 400 * tile, 100),
            *(("scalar", "Adds", "float32", 4096 * (i % 3), 4096 * (i % 3), 0x3F800000, 100) for i in range(300)),
            store(400 * tile, 0, 100),
        ]
    ],
    "more views than a core keeps": [load(1024 * i, 512 * i, 200) for i in range(20)],
    "more instructions than a core keeps": [
        ("scalar", "Adds", "float32", 4096 * (i % 3), 4096 * ((i + 1) % 3), 0x3F800000, 700) for i in range(300)
    ],
}


@pytest.mark.parametrize("calls", FOUND.values(), ids=FOUND.keys())
def test_found(calls):
    assert_same_in_any_execution(calls)


def tiles(*bodies):
    """Tile i is loaded, worked on, and stored."""
    calls = []
    for i, body in enumerate(bodies):
        calls += [load(0, 4096 * i, 1000), *body, store(4096 * i, 8192, 1000)]
    return calls


SCRATCH, OTHER = 16384, 24576
SQUARES = [("binary", "Mul", "float32", SCRATCH, 0, 0, 1000), ("unary", "Abs", "float32", 8192, SCRATCH, 1000)]
SHORT_SQUARES = [("binary", "Mul", "float32", SCRATCH, 0, 0, 900), ("unary", "Abs", "float32", 8192, SCRATCH, 900)]
READ_FIRST = [("binary", "Add", "float32", 8192, 0, SCRATCH, 1000), *SQUARES]
READ_LATE = [("unary", "Abs", "float32", OTHER, 0, 1000), ("binary", "Add", "float32", 8192, 0, SCRATCH, 1000)]
TILES = {
    "overwritten by the next tile": [SQUARES] * 4,
    "overwritten in part": [SQUARES, SHORT_SQUARES, SQUARES, SHORT_SQUARES, READ_LATE],
    "read by the next tile": [SQUARES, READ_FIRST, SQUARES, READ_FIRST],
    "not touched by the next tile, read by the one after": [SQUARES, [], READ_LATE, SQUARES, [], READ_LATE],
    "begin alike": [SQUARES, [*SQUARES, *SQUARES], SQUARES, [*SQUARES, *READ_LATE], [*SQUARES, *SQUARES], SQUARES],
    "read by the scalar unit": [SQUARES, [*SQUARES, ("get", SCRATCH + 40)], SQUARES, SQUARES],
}


@pytest.mark.parametrize("bodies", TILES.values(), ids=TILES.keys())
def test_what_a_tile_leaves_behind(bodies):
    """A tile waits until the next one is known, and writes only what that, or somebody behind it, reads."""
    calls = tiles(*bodies)
    for _ in range(3):
        assert_same_in_any_execution(calls)


@pytest.mark.parametrize("seed", range(2))
def test_random_tiles(draws, seed):
    for i in draws(50):
        rng = random.Random(7000 + 1000 * seed + i)
        kinds = [[c for c in draw_program(rng) if c[0] not in {"free", "fill"}] for _ in range(2)]
        calls = tiles(*(kinds[rng.randrange(2)] for _ in range(6)))
        for _ in range(2):
            assert_same_in_any_execution(calls)


def test_a_known_program_whose_rows_now_meet():
    """Rows stored apart, then by the same program between one another, then over one another: the last ones stay."""

    def calls(distance):
        made = [
            ("binary", "Mul", "float32", base + 256 * i, 8192 + base + 256 * i, 8192 + base + 256 * i, 64)
            for base in (0, 4096)
            for i in range(3)
        ]
        return [
            *made,
            *(("copy_out_pad", "float32", gm, ub, (3, 256, 0, 300)) for gm, ub in ((distance, 4096), (0, 0))),
        ]

    for distance in (2000, 280, 100):
        assert_same_in_any_execution(calls(distance))
