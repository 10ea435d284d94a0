import numpy as np
import pytest

from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.kernels.test_flash_attention import TERMS
from tests.native import launch
from tests.reference import paged_attention as reference

CASES = [  # tokens, heads, key heads, head size, value size, block size, lengths
    (1, 1, 1, 1, 1, 1, (1,)),
    (1, 8, 2, 64, 64, 16, (37, 0, 16, 1)),  # decoding; a sequence without tokens, one of a whole block
    (1, 32, 8, 128, 128, 16, (300, 1500)),  # several tiles of keys
    (1, 6, 6, 33, 17, 7, (50, 3)),  # a head for each of key, sizes that fill no block
    (1, 10, 5, 24, 40, 6, (600, 20, 0)),  # on a host tasks of three heads of key and of two
    (1, 10, 5, 24, 40, 6, (1000, 20, 0)),  # on a chip
    (3, 6, 2, 40, 24, 5, (700, 2, 9)),  # several tokens; one of a sequence that is longer than what is cached
    (70, 4, 2, 32, 32, 128, (1100, 70)),  # several tiles of tokens
    (2, 150, 1, 16, 16, 32, (90,)),  # more heads that share keys than a tile has rows
    (2, 6, 2, 48, 40, 64, (1900,)),  # a context in parts
    (9, 2, 2, 256, 256, 3, (40,)),  # one head a tile, of which rows are far apart; the largest heads
]


def scattered(rng, block_size, lengths, spare=3):
    """A table of blocks in any order, numbers of no meaning behind what the lengths reach; and how many blocks."""
    counts = [-(-length // block_size) for length in lengths]
    blocks = rng.permutation(sum(counts) + spare)
    tables = np.full((len(lengths), max(counts) + 1), 2**31 - 1)
    for table, last, count in zip(tables, np.cumsum(counts), counts, strict=True):
        table[:count] = blocks[last - count : last]
    return tables, len(blocks)


def runs(rng, block_size, lengths):
    """Blocks that follow each other, but for a few."""
    counts = [-(-length // block_size) for length in lengths]
    tables = np.full((len(lengths), max(counts) + 1), -1)
    first = np.cumsum([0, *counts])
    for table, start, count in zip(tables, first, counts, strict=False):
        table[:count] = start + np.arange(count)
        table[: count // 3] = table[: count // 3][::-1]
    return tables, sum(counts)


TABLES = {"scattered": scattered, "runs": runs}


def inputs(case, tables):
    tokens, heads, key_heads, size, value_size, block_size, lengths = case
    rng = np.random.default_rng(sum(case[:-1]))
    table, blocks = TABLES[tables](rng, block_size, lengths)
    caches = [draw(rng, (blocks, block_size, key_heads, n)) / 2 for n in (size, value_size)]
    return [draw(rng, (len(lengths), tokens, heads, size)) / 2, *caches, table, np.array(lengths)]


def attend(arrays, dtype, **attributes):
    (out,), rounded = launch("paged_attention", arrays, [dtype] * 3 + ["int32"] * 2, **attributes)
    return out, rounded


def check(out, rounded, dtype, scale, window=0, softcap=0.0):
    query, key, value, *rest = rounded
    attributes = {"scale": scale, "window": window, "softcap": softcap}
    terms = reference.forward(query, key, np.abs(value), *rest, **attributes)
    assert_accurate(out, reference.forward(*rounded, **attributes), dtype, terms * TERMS[dtype])


@cover("case", CASES, dtype=FLOATS, tables=list(TABLES))
def test_forward(case, dtype, tables):
    scale = case[3] ** -0.5
    out, rounded = attend(inputs(case, tables), dtype, scale=scale)
    check(out, rounded, dtype, scale)


WINDOWS = [  # of these cases
    (CASES[1], 5),
    (CASES[2], 1100),  # more than a tile of keys, and less than the longer context
    (CASES[2], 1),  # a query's own key
    (CASES[6], 300),
    (CASES[7], 40),  # rows of a tile begin at different keys
    (CASES[9], 1000),  # in parts
    (CASES[9], 5000),  # longer than the context
]


@cover("case", WINDOWS, dtype=FLOATS)
def test_window(case, dtype):
    sizes, window = case
    scale = sizes[3] ** -0.5
    arrays = inputs(sizes, "scattered")
    out, rounded = attend(arrays, dtype, scale=scale, window=window)
    check(out, rounded, dtype, scale, window)


CAPS = [  # of scores of 10 and more
    (CASES[1], 5, 2.0),
    (CASES[6], 0, 50.0),
    (CASES[9], 0, 0.5),  # in parts
]


@cover("case", CAPS, dtype=FLOATS)
def test_soft_cap(case, dtype):
    sizes, window, softcap = case
    out, rounded = attend(inputs(sizes, "scattered"), dtype, scale=2.0, window=window, softcap=softcap)
    check(out, rounded, dtype, 2.0, window, softcap)


def test_a_window_of_a_long_table_has_tasks_enough():
    """Key heads are apart where a window is too short for parts."""
    shapes = [(1, 1, 8, 64), *[(256, 32, 8, 64)] * 2, (1, 256), (1,)]
    dtypes = ["float16"] * 3 + ["int32"] * 2
    tasks = {}
    for window in (0, 128, 8192):
        plan = native().tiling("paged_attention", shapes, dtypes, {"window": window}, 48, 188160, 4096)
        tasks[window] = plan["keyTiles"], plan["parts"], plan["block_dim"]
    assert tasks == {0: (1, 48, 48), 128: (8, 1, 8), 8192: (1, 48, 48)}


@pytest.mark.parametrize("dtype", FLOATS)
def test_contiguous_cache(dtype):
    """One block a sequence; what lies behind a length is NaN."""
    rng = np.random.default_rng(0)
    lengths = np.array([1300, 0, 2000])
    caches = [draw(rng, (3, 2048, 2, size)) / 2 for size in (64, 48)]
    for cache in caches:
        for rows, length in zip(cache, lengths, strict=True):
            rows[length:] = np.nan
    query = draw(rng, (3, 1, 8, 64)) / 2
    out, rounded = attend([query, *caches, np.arange(3)[:, None], lengths], dtype, scale=0.125)
    check(out, rounded, dtype, 0.125)


WRONG = [  # table, lengths
    ([[0, 4], [1, 2]], [8, 8]),  # of 4 blocks
    ([[0, 1], [-1, 2]], [8, 8]),
    ([[0, 1], [2, 3]], [8, -1]),
    ([[0, 1], [2, 3]], [9, 8]),  # of 2 blocks of 4
    ([[0, 1], [2, 3]], [8, 2**31 - 1]),
]


@pytest.mark.parametrize(("tables", "lengths"), WRONG)
@pytest.mark.parametrize("tokens", [1, 5])
def test_a_wrong_block_or_length_stops_the_kernel(tables, lengths, tokens):
    arrays = [np.ones((2, tokens, 4, 8)), *[np.ones((4, 4, 2, 8))] * 2]
    with pytest.raises(RuntimeError, match="Trap"):
        attend([*arrays, np.array(tables), np.array(lengths)], "float32")
    out, _ = attend([*arrays, np.array([[0, 1], [2, 3]]), np.array([8, 8])], "float32")
    np.testing.assert_array_equal(out, 1)


def test_a_wrong_block_of_one_part_ends_those_that_wait_for_it():
    arrays = [np.ones((1, 1, 2, 8)), *[np.ones((50, 100, 1, 8))] * 2]
    tables = np.arange(50)[None]
    tables[0, 49] = 50
    with pytest.raises(RuntimeError, match="Trap"):
        attend([*arrays, tables, np.array([5000])], "float32")
    out, _ = attend([*arrays, tables, np.array([4900])], "float32")
    # 1 is the mean of 4900 ones, whose weights are summed in float32 by parts.
    np.testing.assert_allclose(out, 1, rtol=1e-6)


def test_blocks_that_no_length_reaches_are_not_looked_at():
    arrays = [np.ones((2, 1, 4, 8)), *[np.ones((4, 4, 2, 8))] * 2]
    out, _ = attend([*arrays, np.array([[3, 4], [-1, -1]]), np.array([4, 0])], "float32")
    np.testing.assert_array_equal(out, np.stack([np.ones((1, 4, 8)), np.zeros((1, 4, 8))]))


def test_no_blocks():
    empty = np.ones((0, 4, 2, 8))
    out, _ = attend([np.ones((2, 1, 4, 8)), empty, empty, np.zeros((2, 0)), np.zeros(2)], "float32")
    np.testing.assert_array_equal(out, np.zeros((2, 1, 4, 8)))
