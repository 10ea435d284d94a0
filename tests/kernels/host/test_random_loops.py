"""Compiled loops calculate what the instructions that they stand for do, bit for bit.

A program runs instruction after instruction, and with the code of its loops. Its tiles are random
element-wise instructions; the next tile overwrites their scratch, so that loops leave dead stores out.
"""

import random

import pytest

from tests.kernels.host.loops import ANY_BITS, FLOATS, assert_same_when_compiled, assert_same_with_non_temporal_stores
from tests.kernels.host.module import writes_loops
from tests.kernels.host.random_loops import draw_column_tiles, draw_images, draw_row_tiles, draw_tiles


@pytest.mark.parametrize(
    ("draw", "first", "programs", "seed"),
    [
        *((draw_tiles, 0, 25, seed) for seed in range(4)),
        *((draw_row_tiles, 5000, 40, seed) for seed in range(2)),
        *((draw_images, 9000, 30, seed) for seed in range(3)),
        *((draw_column_tiles, 9000, 40, seed) for seed in range(3)),
    ],
)
def test_random_programs(compiler, draws, draw, first, programs, seed):
    loops = 0
    for i in draws(programs):
        calls = draw(random.Random(first + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


@pytest.mark.usefixtures("_streaming")
def test_random_tiles_with_non_temporal_stores(draws):
    streams = sum(assert_same_with_non_temporal_stores(draw_tiles(random.Random(3000 + i))) for i in draws(20))
    assert (streams > 0) == writes_loops()
