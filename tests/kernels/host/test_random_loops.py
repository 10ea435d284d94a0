"""Compiled loops calculate what the instructions that they stand for do, bit for bit.

A program runs instruction after instruction, and with the code of its loops. Its tiles are random
element-wise instructions; the next tile overwrites their scratch, so that loops leave out what nobody reads.
"""

import random

import pytest

from tests.kernels.host.loops import ANY_BITS, FLOATS, assert_same_when_compiled, assert_same_with_non_temporal_stores
from tests.kernels.host.module import writes_loops
from tests.kernels.host.random_loops import draw_column_tiles, draw_images, draw_row_tiles, draw_tiles


@pytest.mark.parametrize("seed", range(4))
def test_random_tiles(compiler, draws, seed):
    loops = 0
    for i in draws(25):
        calls = draw_tiles(random.Random(1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


@pytest.mark.parametrize("seed", range(2))
def test_random_rows(compiler, draws, seed):
    loops = 0
    for i in draws(40):
        calls = draw_row_tiles(random.Random(5000 + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


@pytest.mark.parametrize("seed", range(3))
def test_random_images(compiler, draws, seed):
    loops = 0
    for i in draws(30):
        calls = draw_images(random.Random(9000 + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


@pytest.mark.parametrize("seed", range(3))
def test_random_columns(compiler, draws, seed):
    loops = 0
    for i in draws(40):
        calls = draw_column_tiles(random.Random(9000 + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


@pytest.mark.usefixtures("_streaming")
def test_random_tiles_with_non_temporal_stores(draws):
    streams = sum(assert_same_with_non_temporal_stores(draw_tiles(random.Random(3000 + i))) for i in draws(20))
    assert (streams > 0) == writes_loops()
