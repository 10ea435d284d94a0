"""What becomes one loop, what stays apart, and that either has the bits of the instructions."""

import re

import numpy as np
import pytest

from tests.kernels.host.loops import (
    ANY_BITS,
    BINARY,
    BYTES,
    FLOATS,
    NEVER,
    SCALAR,
    SLOT,
    UNARY,
    Listening,
    assert_same_when_compiled,
    bits,
    columns,
    copy_rows,
    load,
    on_tiles,
    play,
    store,
    store_rows,
    turn_heads,
    with_block,
)
from tests.kernels.host.module import host_calls, writes_loops


@pytest.mark.parametrize("call", [
    pytest.param(("cast", "bfloat16", "float32", 3 * SLOT, SLOT, 5, 1000), id="a cast that rounds towards zero"),
    pytest.param(("binary", "Add", "float16", 3 * SLOT, SLOT, SLOT, 1000), id="a sum of halves"),
])  # fmt: skip
def test_what_loops_do_not_know_stays_between_them(compiler, call):
    """An instruction of its own, although those around it are fused."""
    calls = [load(0, 0, 4000), ("scalar", "Muls", "float32", SLOT, 0, bits(1.25), 1000), call]
    narrow = "bfloat16" if call[0] == "cast" else "float16"
    calls += [("cast", "float32", narrow, 4 * SLOT, 3 * SLOT, 0, 1000)]
    calls += [("scalar", "Adds", "float32", 4 * SLOT, 4 * SLOT, bits(2.0), 1000), store(16384, 4, 4000)]
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])


@pytest.mark.usefixtures("_loops")
def test_values_that_are_alike_are_one():
    """A product that is calculated twice is one; with another scalar it is another."""
    calls = [load(0, 0, 4096)]
    for slot, factor in ((1, 0.375), (2, 0.375), (3, 0.625)):
        calls += [("scalar", "Muls", "float32", slot * SLOT, 0, bits(factor), 1024)]
    calls += [("binary", "Add", "float32", 4 * SLOT, SLOT, 2 * SLOT, 1024)]
    calls += [("binary", "Max", "float32", 4 * SLOT, 4 * SLOT, 3 * SLOT, 1024), store(16384, 4, 4096)]
    listening = Listening(host_calls())
    assert assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS]) > 0
    vectors = [text.count("fadd") for text in listening.texts]
    assert [text.count("fmul") for text in listening.texts] == [2 * count for count in vectors]


@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_channels_with_gaps_are_read_in_place(narrow):
    """The copy that makes the gaps is part of the loop, and so are blocks of ones on rows of any whole blocks."""
    rows, cols, stride = 8, 196, 208
    count, width = rows * stride, 4 if narrow is None else 2
    calls = []
    for tile in range(4):
        calls += [copy_rows(0, 6000 * tile, rows, cols, stride, narrow or "float32", 0)]
        calls += [] if narrow is None else [("cast", "float32", narrow, SLOT, 0, 0, count)]
        calls += [
            ("scalar", "Muls", "float32", 2 * SLOT, 0 if narrow is None else SLOT, bits(1.5), count),
            *with_block("Div", 2 * SLOT, 2 * SLOT, count, True),
            ("binary", "Max", "float32", 3 * SLOT, 2 * SLOT, 2 * SLOT, count),
            store_rows(32 * 1024 + 6400 * tile, 3, rows, 4 * cols, 4 * stride),
        ]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    inside = [t for t in listening.texts if f"mul i64 %i, {width * cols}\n" in t and "fdiv" in t]
    assert bool(inside) == writes_loops()


@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
@pytest.mark.parametrize(("positions", "heads", "dim"), [(2, 6, 128), (3, 8, 64), (2, 8, 96)])
def test_turning_heads_is_one_loop(compiler, narrow, positions, heads, dim):
    """Nothing is stored but the result."""
    calls = turn_heads(narrow, positions, heads, dim)
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    stores = [[line for line in text.splitlines() if "store <" in line] for text in listening.texts if "fadd" in text]
    kind = "float" if narrow is None else "i16"
    elements = [sum(int(line.split("<")[1].split(" x ")[0]) for line in lines) for lines in stores]
    found = [n for n, lines in zip(elements, stores, strict=True) if all(f" x {kind}>" in line for line in lines)]
    assert (dim in found) == writes_loops()


@pytest.mark.parametrize("cols", [64, 128, 200])
def test_two_collect_in_the_same_lanes(compiler, cols):
    """The second one begins when the first one has seen all columns."""
    rows, blocks = 1920 // (64 * len(columns(cols))), 8 * len(columns(cols))
    calls = [
        ("binary_repeat", op, "float32", 0, slot * SLOT + 4 * at, 0, n, rows, (1, 1, 1, 8, blocks, 8), True)
        for op, slot in [("Min", 1), ("Add", 2)]
        for at, n in columns(cols)
    ]
    assert_same_when_compiled(compiler, calls, [FLOATS])


@pytest.mark.parametrize("op", ["Add", "Max"])
def test_sums_of_columns(op):
    """A loop takes all the rows that it adds up."""
    rows, cols, sums = 3, 640, 3
    body = [("binary", "Mul", "float32", 2 * SLOT, 0, SLOT, rows * cols)]
    for at, n in columns(cols):
        to, row = 4 * at + sums * SLOT, 4 * at + 2 * SLOT
        body += [("binary_repeat", op, "float32", to, row, to, n, rows, (1, 1, 1, 0, cols // 8, 0), True)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, on_tiles(body, sums, 4 * rows * cols), [FLOATS, ANY_BITS])
    products = [text.count(" fmul ") for text in listening.texts if " fmul " in text]
    assert bool(products) == writes_loops()
    assert all(count % rows == 0 for count in products)


@pytest.mark.parametrize(
    ("rooted", "divided", "scale", "together"),  # a scale of its own, as forms are compiled once in a process
    [
        ((0,), (0, 1), 1.71, True),
        ((0, 1), (2, 1), 1.72, True),
        ((0, 1, 2), (3, 4, 2), 1.73, False),
        ((0,), (1, 2), 1.74, False),
    ],
    ids=["the same input", "half of the inputs", "one of three", "nothing"],
)
def test_what_reads_the_same_is_one_loop(rooted, divided, scale, together):
    """The root of a product, and a quotient, of what lies in the Unified Buffer: neither needs the other."""
    count = 1600
    calls = []
    for tile in range(4):
        for op, to, (first, *others) in (("Mul", 5, rooted), ("Div", 6, divided)):
            calls += [("scalar", "Muls", "float32", to * SLOT, first * SLOT, bits(scale), count)]
            calls += [("binary", op, "float32", to * SLOT, to * SLOT, other * SLOT, count) for other in others]
        calls += [("unary", "Sqrt", "float32", 5 * SLOT, 5 * SLOT, count)]
        calls += [store(32 * 1024 + 7600 * tile + 3800 * k, 5 + k, 3800) for k in range(2)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    found = [(bool(re.search("= call .*sqrt", text)), " fdiv " in text) for text in listening.texts]
    expected = {(True, True)} if together else {(True, False), (False, True)}
    assert set(found) == (expected if writes_loops() else set())


@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_bits_of_neighbours(narrow):
    """And and Or of two elements of 16 bits are those of a float to a loop: each element gets its neighbour."""
    count, width, size = 1024, 4 if narrow is None else 2, 8 * 1024
    after, before, both, masks = (slot * SLOT for slot in (1, 2, 3, 4))
    words = width * count // 2
    kept = [0xFFFFFFFF, 0] if narrow is None else [0xFFFF, 0xFFFF]  # bits of even elements, in words
    calls = [("set", masks + 4 * i, kept[i % 2] ^ (0xFFFFFFFF if i >= 8 else 0)) for i in range(16)]
    for tile in range(3):
        calls += [load(1, size * tile + width, width * count), load(2, size * tile + 256 - width, width * count)]
        calls += [
            ("bitwise", False, after, after, masks, words, True),
            ("bitwise", False, before, before, masks + 32, words, True),
            ("bitwise", True, both, after, before, words, False),
        ]
        if narrow is not None:
            calls += [("cast", "float32", narrow, 5 * SLOT, both, 0, count)]
        value = both if narrow is None else 5 * SLOT
        calls += [("binary", "Mul", "float32", 6 * SLOT, value, value, count), store(32768 + size * tile, 6, 4 * count)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    if narrow is None:  # a loop for all that is done
        assert any(" and <" in t and " or <" in t and " fmul " in t for t in listening.texts) == writes_loops()


@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_short_rows_that_lie_apart(narrow):
    """Instructions on all of them read them where they are, row by row."""
    rows, cols, width = 12, 128, 4 if narrow is None else 2
    stride, count = width * cols + 96, rows * cols
    calls = []
    for tile in range(3):
        calls += [("copy_in_pad", "float32", 0, 9000 * tile, (rows, width * cols, 96, 0), False, (0, 0, 0))]
        calls += [] if narrow is None else [("cast", "float32", narrow, SLOT, 0, 0, count)]
        value = 0 if narrow is None else SLOT
        calls += [
            ("scalar", "Muls", "float32", 2 * SLOT, value, bits(1.5), count),
            *with_block("Sub", 2 * SLOT, 2 * SLOT, count, False),
            ("binary", "Max", "float32", 3 * SLOT, 2 * SLOT, 2 * SLOT, count),
            store(32768 + 8192 * tile, 3, 4 * count),
        ]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    assert any(f"mul i64 %i, {stride}" in text for text in listening.texts) == writes_loops()


@pytest.mark.usefixtures("_loops")
def test_single_elements_are_no_rows():
    """Where others in their group go by blocks."""
    count = 512
    calls = []
    for tile in range(4):
        calls += [
            load(0, 4 * count * tile, 4 * count),
            ("scalar", "Muls", "float32", SLOT, 0, bits(0.5), count),
            ("scalar", "Adds", "float32", SLOT, SLOT, bits(2.0), count),
            ("broadcast", "float32", 2 * SLOT, SLOT, count // 8, 1, 8),
            store(32 * 1024 + 8192 * (tile % 2), 2, 8192),
        ]
    listening = Listening(host_calls())
    assert assert_same_when_compiled(listening, calls, [FLOATS]) > 0
    assert not any("load <1 x" in text for text in listening.texts)


@pytest.mark.parametrize("factor", [0.5, -0.5, 1e4, -1e4])
@pytest.mark.parametrize("limit", [14.5, 88.0, 200.0, 1e6])
def test_exp_of_what_is_known_to_be_small(compiler, limit, factor):
    """|x| up to a limit, times a factor: exp needs no limits of its own, up to some size."""
    large = (FLOATS * limit).astype(np.float32)
    calls = [
        load(0, 0, 4000),
        ("unary", "Abs", "float32", SLOT, 0, 1000),
        ("scalar", "Mins", "float32", SLOT, SLOT, bits(limit), 1000),
        ("scalar", "Muls", "float32", SLOT, SLOT, bits(factor), 1000),
        ("unary", "Exp", "float32", SLOT, SLOT, 1000),
        store(16384, 1, 4000),
    ]
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS, large])


@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
@pytest.mark.parametrize("op", [*BINARY, *UNARY, *SCALAR, "Axpy"])
def test_every_link_on_any_numbers(compiler, op, narrow):
    """x -> op -> + 0.5, loaded from and stored to each dtype."""
    count, width = 1000, 4 if narrow is None else 2
    value = 0 if narrow is None else SLOT
    calls = [load(0, 0, width * count), load(2, 8192, width * count)]
    if narrow is not None:
        calls += [("cast", "float32", narrow, slot, slot - SLOT, 0, count) for slot in (SLOT, 3 * SLOT)]
    other = 2 * SLOT if narrow is None else 3 * SLOT
    if op in BINARY:
        calls += [("binary", op, "float32", value, value, other, count)]
    elif op in UNARY:
        calls += [("unary", op, "float32", value, value, count)]
    elif op in SCALAR:
        calls += [("scalar", op, "float32", value, value, bits(-0.75), count)]
    else:
        calls += [("axpy", value, other, bits(-0.75), count)]
    calls += [("scalar", "Adds", "float32", 4 * SLOT, value, bits(0.5), count)]
    calls += [] if narrow is None else [("cast", narrow, "float32", 5 * SLOT, 4 * SLOT, 1, count)]
    calls += [store(16384, 4, width * count) if narrow is None else store(16384, 5, width * count, narrow)]
    large = (FLOATS * 40).astype(np.float32)
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS, large])


@pytest.mark.parametrize(("first", "scalar"), [("Adds", np.inf), ("Adds", -np.inf), ("Maxs", np.inf), ("Mins", 7e4)])
@pytest.mark.parametrize("second", ["Adds", "Muls", "Axpy"])
def test_exp_of_values_of_which_something_is_known(compiler, first, scalar, second):
    """Of large arguments and infinite ones, too, whatever the loop knows of them."""
    count = 1000
    calls = [load(0, 0, 4 * count), ("scalar", first, "float32", SLOT, 0, bits(scalar), count)]
    calls += [
        ("axpy", SLOT, SLOT, bits(-2.0), count)
        if second == "Axpy"
        else ("scalar", second, "float32", SLOT, SLOT, bits(0.5), count)
    ]
    calls += [("unary", "Exp", "float32", *2 * [SLOT], count), store(16384, 1, 4 * count)]
    assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS, (FLOATS * 1e6).astype(np.float32)])


# What a CPU's own instruction would make zeros of.
SUBNORMAL = np.random.default_rng(2).integers(0, 1 << 23, BYTES // 4, np.uint32).view(np.float32)


@pytest.mark.parametrize("source", ["float32", "bfloat16"])
@pytest.mark.parametrize("then", ["stored", "multiplied"])
@pytest.mark.parametrize("before", ["Relu", "Abs"])
def test_rounding_to_bfloat16_keeps_subnormal_numbers(compiler, source, then, before):
    """All are subnormal, or one in each hundred is rare and the others are ordinary."""
    count = 1000
    calls = [load(0, 0, 4 * count)]
    if source != "float32":
        calls += [("cast", "float32", source, SLOT, 0, 0, count)]
    calls += [("scalar", "Muls", "float32", 2 * SLOT, SLOT if source != "float32" else 0, bits(0.75), count)]
    calls += [("unary", before, "float32", *2 * [2 * SLOT], count)]
    calls += [("cast", "bfloat16", "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    if then == "multiplied":
        calls += [("cast", "float32", "bfloat16", SLOT, 3 * SLOT, 0, count)]
        calls += [("scalar", "Muls", "float32", *2 * [SLOT], bits(2.0**100), count)]
        calls += [("cast", "bfloat16", "float32", 3 * SLOT, SLOT, 1, count)]
    tiles = [[*calls, store(gm, 3, 2 * count, "bfloat16")] for gm in (16384, 32768)]
    rare = [0.0] if before == "Relu" else [np.nan, np.inf, 1e-39, -1e-45]
    some = [np.where(np.arange(FLOATS.size) % 100 == 7, np.float32(value), FLOATS) for value in rare]
    # Nobody reads what the first tile has left in the Unified Buffer: its loop rounds as it stores.
    assert_same_when_compiled(compiler, [*tiles[0], *tiles[1]], [SUBNORMAL, -SUBNORMAL, *some])


def test_without_a_compiler_chains_run():
    """A loop that was recorded and never compiled."""
    calls = [load(0, 0, 4000), *(("unary", "Abs", "float32", SLOT * i, 0, 1000) for i in (1, 2)), store(16384, 2, 4000)]
    host_calls().set_loop_threshold(0)
    first = play(calls, FLOATS)
    host_calls().set_loop_threshold(NEVER)
    assert (first[0] == play(calls, FLOATS)[0]).all()
    while host_calls().next_loop(False) is not None:
        pass
