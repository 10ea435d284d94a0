"""Compiled loops calculate what the instructions that they stand for do, bit for bit.

A program runs instruction after instruction, and with the code of its loops. Its tiles are random
element-wise instructions; the next tile overwrites their scratch, so that loops leave out what nobody reads.
"""

import random
import re

import numpy as np
import pytest

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls, program, writes_loops
from tests.kernels.host.test_deferred import identical_or_nan

SLOT = 8 * 1024
SLOTS = 7
LANES = SLOT * SLOTS  # behind them: 64 lanes that collect, and a DataBlock
BLOCK = LANES + 1024
BYTES = 64 * 1024
LINE = 64
NEVER = 1 << 60
LARGE = 1 << 30  # bytes of output with which the next tile is prefetched

FLOATS = np.random.default_rng(0).standard_normal(BYTES // 4).astype(np.float32)
# Random bits: all exponents, NaN and infinities. Every 16 bits of them are numbers of a kind, too.
ANY_BITS = np.random.default_rng(1).integers(0, 1 << 32, BYTES // 4, np.uint32).view(np.float32)


@pytest.fixture(scope="module")
def compiler():
    return LoopCompiler(host_calls())


def from_a_line_on(memory):
    """A copy, as bytes, which begins where a line of the caches does."""
    room = np.empty(memory.nbytes + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    copy = room[begin : begin + memory.nbytes]
    copy[:] = memory.view(np.uint8)
    return copy


def play(calls, gm, execution="deferred", output_bytes=0):
    gm, ub = from_a_line_on(gm), FLOATS.view(np.uint8)[None].copy()
    results = host_calls().run([program(calls)], gm, ub, execution, output_bytes)
    return gm, ub, results


def compiled(compiler, calls, gm=FLOATS):
    """Has the loops of the program compiled, and returns how many there were."""
    host_calls().set_loop_threshold(0)
    for output_bytes in 3 * [0, LARGE]:  # what follows a tile is known from the second time on
        play(calls, gm, output_bytes=output_bytes)
    host_calls().set_loop_threshold(NEVER)
    return compiler.compile_waiting()


def assert_same_when_compiled(compiler, calls, data):
    host_calls().set_loop_threshold(NEVER)
    expected = [play(calls, gm, "serial") for gm in data]
    count = compiled(compiler, calls, data[0])
    for gm, (expected_gm, expected_ub, expected_results) in zip(data, expected, strict=True):
        for output_bytes in (0, LARGE):
            mine, ub, results = play(calls, gm, output_bytes=output_bytes)
            assert results == expected_results
            for name, got, want in [("global memory", mine, expected_gm), ("Unified Buffer", ub, expected_ub)]:
                equal = identical_or_nan(got, want)
                assert equal.all(), f"{name} differs from byte {np.argmin(equal)} on"
    return count


def bits(value):
    return int(np.float32(value).view(np.uint32))


def load(slot, gm, size):
    return ("copy_in_pad", "float32", slot * SLOT, gm, (1, size, 0, 0), False, (0, 0, 0))


def store(gm, slot, size, dtype="float32"):
    return ("copy_out_pad", dtype, gm, slot * SLOT, (1, size, 0, 0))


def counted(call, count):
    """A call by repeats on `count` elements."""
    return [("set_mask", "counter", 0, count), call, ("clear_mask",)]


def collect(op, slot, count):
    return counted(("binary_repeat", op, "float32", LANES, slot, LANES, 0, 1, (1, 1, 1, 0, 8, 0), False), count)


def with_block(op, to, source, count, first):
    operands, strides = ((BLOCK, source), (1, 0, 1, 8, 0, 8)) if first else ((source, BLOCK), (1, 1, 0, 8, 8, 0))
    return counted(("binary_repeat", op, "float32", to, *operands, 0, 1, strides, False), count)


BINARY = ("Add", "Sub", "Mul", "Div", "Max", "Min")
UNARY = ("Exp", "Ln", "Sqrt", "Abs", "Relu")
SCALAR = ("Adds", "Muls", "Maxs", "Mins")


class Slots:
    """What the slots hold: floats, or in their first half 16 bits of one dtype.

    None is read as what it does not hold: of two NaN compilers choose one, whose bits would be seen. With `retype` any
    slot may be overwritten by anything, but is only read if it was written or loaded before in the same tile.
    """

    LOADED = (0, 1, SLOTS - 1)  # by every tile

    def __init__(self, rng, retype):
        self.rng, self.retype = rng, retype
        self.narrow = rng.choice(["float16", "bfloat16"])
        first, last = (2, SLOTS - 1) if retype else (SLOTS - 2, SLOTS - 2)
        self.holds = dict.fromkeys(range(first), "float32") | dict.fromkeys(range(last, SLOTS), self.narrow)

    def source(self, dtype):
        """One that holds that; None: there is none any more."""
        return self._draw([slot for slot, held in self.holds.items() if held == dtype])

    def target(self, dtype, other=None):
        """One to write to, which is not `other`."""
        slots = [slot for slot in range(SLOTS) if self.retype or self.holds[slot] == dtype]
        return self._draw([slot for slot in slots if slot * SLOT != other])

    def write(self, address, dtype):
        self.holds[address // SLOT] = dtype

    def _draw(self, slots):
        return self.rng.choice(slots) * SLOT if slots else None


def draw_instruction(rng, count, slots):
    """A call on whole slots."""
    a, b, bits16 = slots.source("float32"), slots.source("float32"), slots.source(slots.narrow)
    if a is None or bits16 is None:
        return []
    to, other = slots.target("float32"), slots.target("float32", a)
    narrow, wide = slots.target(slots.narrow, a), slots.target("float32", bits16)
    scalar = bits(rng.choice([0.5, -1.25, 0.0, 3.0, -0.0, 1e30]))
    draws = [
        (to, lambda: [("binary", rng.choice(BINARY), "float32", to, a, b, count)]),
        (to, lambda: [("unary", rng.choice(UNARY), "float32", to, a, count)]),
        (to, lambda: [("scalar", rng.choice(SCALAR), "float32", to, a, scalar, count)]),
        (narrow, lambda: [("cast", slots.narrow, "float32", narrow, a, 1, count)]),
        (wide, lambda: [("cast", "float32", slots.narrow, wide, bits16, 0, count)]),
        (to, lambda: with_block(rng.choice(BINARY), to, a, count, rng.random() < 0.5)),
        (a, lambda: collect(rng.choice(["Add", "Max", "Min"]), a, count)),
    ]
    if slots.holds.get(other // SLOT) == "float32":  # to which it adds
        draws.append((other, lambda: [("axpy", other, a, scalar, count)]))
    written, draw = rng.choice(draws)
    slots.write(written, slots.narrow if written == narrow and draw is draws[3][1] else "float32")
    return draw()


def draw_tiles(rng):
    """The same instructions on tile after tile: the first ones write what they go on with."""
    count = rng.choice([256, 300, 512, 777, 1000, 1024, 1999])
    slots = Slots(rng, retype=rng.random() < 0.5)
    body = [call for _ in range(rng.randint(3, 14)) for call in draw_instruction(rng, count, slots)]
    early = (rng.randint(0, len(body)), rng.randrange(SLOTS)) if rng.random() < 0.5 else None
    return on_tiles(body, rng.randrange(SLOTS), 4 * count, early=early)


def on_tiles(body, kept, size, rows=None, early=None):
    """What is done to four tiles of some bytes, and the slot that is stored: as a whole, or some rows of it.

    `early`: a slot that is stored, too, before that call of the body.
    """
    calls = []
    for tile in range(4):
        to, more = 32 * 1024 + 6000 * tile, 22 * 1024 + 2400 * tile
        calls += [load(slot, 4 * (tile * 1000 + slot * 100), size) for slot in Slots.LOADED]
        whole = list(body)
        if early is not None:
            whole.insert(early[0], store(more, early[1], min(size, 2400)))
        calls += [*whole, store(to, kept, min(size, 6000)) if rows is None else store_rows(to, kept, *rows)]
    return calls


def store_rows(gm, slot, rows, row_bytes, stride):
    """Rows some bytes apart, which follow each other in global memory."""
    gap = (stride - -(-row_bytes // 32) * 32) // 32
    return ("copy_out_pad", "float32", gm, slot * SLOT, (rows, row_bytes, gap, 0))


@pytest.mark.parametrize("seed", range(4))
def test_random_tiles(compiler, draws, seed):
    loops = 0
    for i in draws(25):
        calls = draw_tiles(random.Random(1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


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


def columns(cols):
    """The 64 columns, or fewer, that one instruction works on."""
    return [(at, min(64, cols - at)) for at in range(0, cols, 64)]


def draw_row_instruction(rng, rows, cols, slots):
    """One thing done to all rows, which lie 8 blocks for 64 columns apart."""
    to, a, b = (slots.source("float32") for _ in range(3))
    wide, narrow = slots.target("float32", to), slots.source(slots.narrow)
    step = 8 * len(columns(cols))
    scalar = bits(rng.choice([0.5, -1.25, 3.0]))
    kind, binary, unary, scaled = slots.narrow, rng.choice(BINARY), rng.choice(UNARY), rng.choice(SCALAR)
    collected = rng.choice(["Add", "Max", "Min"])
    block = (1, 1, 0, step, step, rng.randrange(2))  # a DataBlock for each row, or one for all
    two, three = (1, 1, step, step), (1, 1, 1, step, step, step)
    draw = rng.choice(
        [
            lambda at, n: ("binary_repeat", binary, "float32", to + at, a + at, b + at, n, rows, three, True),
            lambda at, n: ("binary_repeat", binary, "float32", to + at, a + at, BLOCK, n, rows, block, True),
            lambda at, n: ("unary_repeat", unary, "float32", to + at, a + at, n, rows, two, True),
            lambda at, n: ("scalar_repeat", scaled, "float32", to + at, a + at, scalar, n, rows, two, True),
            lambda at, n: ("cast_repeat", "float32", kind, to + at, narrow + at // 2, 0, n, rows, two, True),
            lambda at, n: ("cast_repeat", kind, "float32", narrow + at // 2, to + at, 1, n, rows, two, True),
            lambda at, n: (
                ("binary_repeat", collected, "float32", to, wide + at, to, n, rows, (1, 1, 1, 8, step, 8), True)
            ),
        ]
    )
    return [draw(4 * at, n) for at, n in columns(cols)]


def draw_row_tiles(rng):
    """Instructions on rows, which may have something between them, among those on whole tiles."""
    cols = rng.choice([33, 40, 64, 64, 100, 128, 200, 256])
    rows = min(1920 // (64 * len(columns(cols))), rng.choice([9, 12, 20, 28]))
    slots = Slots(rng, retype=False)
    body = []
    for _ in range(rng.randint(3, 10)):
        if rng.random() < 0.4:  # with what lies between the rows
            body += draw_instruction(rng, rows * 64 * len(columns(cols)), slots)
        else:
            body += draw_row_instruction(rng, rows, cols, slots)
    kept = rng.randrange(SLOTS)
    if rng.random() < 0.5:
        return on_tiles(body, kept, 7680)
    row_bytes = (4 if slots.holds[kept] == "float32" else 2) * cols
    return on_tiles(body, kept, 7680, (min(rows, 6000 // row_bytes), row_bytes, 256 * len(columns(cols))))


@pytest.mark.parametrize("seed", range(2))
def test_random_rows(compiler, draws, seed):
    loops = 0
    for i in draws(40):
        calls = draw_row_tiles(random.Random(5000 + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


def copy_rows(slot, gm, rows, cols, stride, dtype, pad):
    """Rows that follow each other in global memory, to so many elements apart, with zeros in between or nothing new."""
    width = 4 if dtype == "float32" else 2
    gap = (stride * width - -(-cols * width // 32) * 32) // 32
    zeros = (0, 0 if pad is None else -cols % (32 // width), 0)
    return ("copy_in_pad", dtype, slot * SLOT, gm, (rows, cols * width, 0, gap), pad is not None, zeros)


def draw_image_instruction(rng, rows, cols, stride, slots):
    """One thing done to all channels of an image, by themselves or with what lies between them."""
    count, step = rows * stride, stride // 8
    a, b, narrow = slots.source("float32"), slots.source("float32"), slots.source(slots.narrow)
    to, sums = slots.target("float32"), slots.target("float32", a)
    binary, block = rng.choice(BINARY), (1, 1, 0, step, step, rng.randrange(2))
    by_row = rng.choice(
        [
            lambda at, n: ("binary_repeat", binary, "float32", to + at, a + at, BLOCK, n, rows, block, True),
            lambda at, n: (
                ("binary_repeat", "Add", "float32", sums, a + at, sums, n, rows, (1, 1, 1, 8, step, 8), True)
            ),
        ]
    )
    return rng.choice(
        [
            lambda: [by_row(4 * at, n) for at, n in columns(cols)],
            lambda: [("binary", binary, "float32", to, a, b, count)],
            lambda: [("cast", "float32", slots.narrow, to, narrow, 0, count)],
            lambda: [("cast", slots.narrow, "float32", narrow, a, 1, count)],
            lambda: with_block(binary, to, a, count, rng.random() < 0.5),
        ]
    )()


def draw_images(rng):
    """Channels that do not fill whole blocks, so that gaps lie between them."""
    cols = rng.choice([49, 65, 100, 130, 196, 196, 225])
    stride = -(-cols // 16) * 16
    rows = rng.choice([3, 5, 9]) if stride > 128 else rng.choice([6, 15])
    slots = Slots(rng, retype=False)
    pad = rng.choice([None, 0])
    inputs = rng.sample([slot for slot, held in slots.holds.items() if held == "float32"], 2)
    body = [c for _ in range(rng.randint(3, 9)) for c in draw_image_instruction(rng, rows, cols, stride, slots)]
    kept = rng.choice([slot for slot, held in slots.holds.items() if held == "float32"])
    calls = []
    for tile in range(4):
        at = 4 * tile * 1500
        calls += [copy_rows(slot, at + 4 * slot, rows, cols, stride, "float32", pad) for slot in inputs]
        calls += [copy_rows(SLOTS - 1, at + 400, rows, cols, stride, slots.narrow, pad)]
        calls += [*body, store_rows(32 * 1024 + 7000 * tile, kept, min(rows, 6800 // (4 * cols)), 4 * cols, 4 * stride)]
    return calls


@pytest.mark.parametrize("seed", range(3))
def test_random_images(compiler, draws, seed):
    loops = 0
    for i in draws(30):
        calls = draw_images(random.Random(9000 + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


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


def draw_column_instruction(rng, parts, rows, cols, slots):
    """Some columns of all rows from others. Every part of the rows has a call."""
    to, a, b = (slots.source("float32") for _ in range(3))
    narrow = slots.source(slots.narrow)
    lanes = rng.choice([16, 24, 32, 64, 64])
    begin = [0, 8, *range(0, cols - lanes + 1, 16)]
    first, of_a, of_b = (min(rng.choice(begin), cols - lanes) for _ in range(3))
    if rng.random() < 0.5:
        of_a, of_b = (cols - lanes - first) // 16 * 16, first
    # An instruction may not read what it writes itself in another row or column.
    of_a, of_b = first if a == to else of_a, first if b == to else of_b
    step = cols // 8
    table = step if b == to or rng.random() < 0.5 else 0  # a row for each row, or the first for all
    binary, unary = rng.choice(BINARY), rng.choice(UNARY)
    three, two = (1, 1, 1, step, step, table), (1, 1, step, step)
    to, a, b, narrow = to + 4 * first, a + 4 * of_a, b + 4 * of_b, narrow + 2 * (of_a // 16 * 16)
    draw = rng.choice(
        [
            lambda at: ("binary_repeat", binary, "float32", to + at, a + at, b + at, lanes, rows, three, True),
            lambda at: ("unary_repeat", unary, "float32", to + at, a + at, lanes, rows, two, True),
            lambda at: ("cast_repeat", "float32", slots.narrow, to + at, narrow + at // 2, 0, lanes, rows, two, True),
        ]
    )
    return [draw(4 * part * rows * cols) for part in range(parts)]


def draw_column_tiles(rng):
    """Instructions on columns of rows among those on whole tiles, as halves of a head are rotated."""
    cols = rng.choice([64, 96, 128, 128, 256])
    parts = rng.choice([1, 2, 2, 3])
    rows = 1920 // cols // parts
    slots = Slots(rng, retype=False)
    body = []
    for _ in range(rng.randint(3, 12)):
        if rng.random() < 0.4:
            body += draw_instruction(rng, parts * rows * cols, slots)
        else:
            body += draw_column_instruction(rng, parts, rows, cols, slots)
    return on_tiles(body, rng.randrange(SLOTS), 7680)


@pytest.mark.parametrize("seed", range(3))
def test_random_columns(compiler, draws, seed):
    loops = 0
    for i in draws(40):
        calls = draw_column_tiles(random.Random(9000 + 1000 * seed + i))
        loops += assert_same_when_compiled(compiler, calls, [FLOATS, ANY_BITS])
    assert (loops > 0) == writes_loops()


class Listening(LoopCompiler):
    """Keeps the texts of what it compiles."""

    def __init__(self, module):
        super().__init__(module)
        self.texts = []

    def _compile(self, number, name, text):
        self.texts.append(text)
        super()._compile(number, name, text)


def prefetches(text):
    """How many lines a turn of a loop asks for: of what later turns will read, and of what they will write."""
    asks = [line for line in text.splitlines() if "call void @llvm.prefetch" in line]
    return tuple(sum(f", i32 {write}, i32 3, i32 1)" in line for line in asks) for write in (0, 1))


def shifted(call, further):
    """A copy to global memory some bytes further on, or any other call as it is."""
    name, *arguments = call
    return (name, arguments[0], arguments[1] + further, *arguments[2:]) if name == "copy_out_pad" else call


@pytest.fixture
def _streaming():
    """Every launch is so large that its outputs are stored bypassing the caches."""
    host_calls().set_non_temporal_bytes(1)
    yield
    host_calls().set_non_temporal_bytes(0)


def turn_heads(narrow, positions, heads, dim):
    """x * cos + partner(x) * sin as rotary_embedding does it. The sines are made in the same program."""
    x, rotated, y, cos, sin, sines = (slot * SLOT for slot in (1, 2, 3, 4, 5, 6))
    half, step, count = 2 * dim, dim // 8, positions * heads * dim  # a half in bytes, a head in blocks, elements
    kind, loaded, size = ("float32", x, 4 * count) if narrow is None else (narrow, 0, 2 * count)
    whole = [(y + 4 * at, x + 4 * at, cos + 4 * at, n) for at, n in columns(dim)]
    parts = [(rotated, x + half, sin, dim // 2), (rotated + half, x, sin + half, dim // 2), *whole]
    calls = []
    for tile in range(4):
        calls += [load(loaded // SLOT, 6000 * tile, size)]
        for at, sign in [(0, -1.0), (half, 1.0)]:
            strides = (1, 1, step, step // 2)
            table = (sin + at, sines, bits(sign), dim // 2, positions, strides, True)
            calls += [("scalar_repeat", "Muls", "float32", *table)]
        calls += [] if narrow is None else [("cast", "float32", kind, x, loaded, 0, count)]
        for to, source, table, lanes in parts:
            for p in range(positions):
                at, strides = 4 * p * heads * dim, (1, 1, 1, step, step, 0)
                operands = (to + at, source + at, table + 4 * p * dim, lanes, heads, strides, True)
                calls += [("binary_repeat", "Mul", "float32", *operands)]
        calls += [("binary", "Add", "float32", y, y, rotated, count)]
        calls += [] if narrow is None else [("cast", kind, "float32", loaded, y, 1, count)]
        calls += [store(32 * 1024 + 6144 * tile, (y if narrow is None else loaded) // SLOT, size)]
    return calls


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


def assert_same_with_non_temporal_stores(calls):
    """The CPU would not store non-temporally where an address is no multiple of 16."""
    listening = Listening(host_calls())
    for further in (0, 4, 16):
        assert_same_when_compiled(listening, [shifted(call, further) for call in calls], [FLOATS])
    return sum("!nontemporal" in text for text in listening.texts)


@pytest.mark.usefixtures("_streaming")
def test_random_tiles_with_non_temporal_stores(draws):
    streams = sum(assert_same_with_non_temporal_stores(draw_tiles(random.Random(3000 + i))) for i in draws(20))
    assert (streams > 0) == writes_loops()


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_rows_with_non_temporal_stores(narrow):
    assert (assert_same_with_non_temporal_stores(turn_heads(narrow, 3, 4, 160)) > 0) == writes_loops()


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_a_loop_asks_for_what_it_will_get_to(narrow):
    """Lines of the inputs; of the output if that is of floats; none of scratch in the Unified Buffer."""
    count, width = 1024, 4 if narrow is None else 2
    calls = [load(0, 0, width * count), load(1, 8192, 4 * count)]
    calls += [] if narrow is None else [("cast", "float32", narrow, 2 * SLOT, 0, 0, count)]
    value = 0 if narrow is None else 2 * SLOT
    calls += [
        ("binary", "Add", "float32", 3 * SLOT, value, SLOT, count),
        ("unary", "Abs", "float32", *2 * [3 * SLOT], count),
    ]
    calls += [] if narrow is None else [("cast", narrow, "float32", 4 * SLOT, 3 * SLOT, 1, count)]
    calls += [store(16384, 3, width * count) if narrow is None else store(16384, 4, width * count, narrow)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    (text,) = listening.texts
    read, written = prefetches(text)
    assert read > 0
    assert written == (read // 2 if narrow is None else 0)


@pytest.mark.usefixtures("_loops", "_streaming")
def test_what_goes_with_non_temporal_stores_is_not_asked_for():
    calls = [load(0, 0, 4096), *(("unary", "Abs", "float32", SLOT * i, 0, 1024) for i in (1, 2)), store(16384, 2, 4096)]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    (text,) = [text for text in listening.texts if "!nontemporal" in text]
    read, written = prefetches(text)
    assert read > 0
    assert written == 0


@pytest.mark.usefixtures("_loops", "_streaming")
def test_a_chain_of_more_than_32_operands():
    """Of each is known whether it is in global memory, as two inputs and the output are, and whether it changes."""
    count, many, space = 300, 40, 1280
    first, second, value = (space * i for i in range(many - 2, many + 1))
    calls = []
    for tile in range(4):
        for gm, to in ((0, first), (16384, second)):
            calls += [("copy_in_pad", "float32", to, gm + space * tile, (1, 4 * count, 0, 0), False, (0, 0, 0))]
        calls += [("binary", "Add", "float32", value, 0, space, count)]
        calls += [("binary", BINARY[i % 3], "float32", *2 * [value], space * i, count) for i in range(2, many)]
        calls += [("copy_out_pad", "float32", 32768 + space * tile, value, (1, 4 * count, 0, 0))]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS, ANY_BITS])
    for text in listening.texts:
        assert f"%base{many} = " in text
        streams, (read, written) = "!nontemporal" in text, prefetches(text)
        assert read > 0
        assert written == (0 if streams else read // 2)
        assert ("%past = and" in text) == streams
    assert any("!nontemporal" in text for text in listening.texts)


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
def test_what_is_stored_and_read_later(narrow):
    """A sum that is handed out and worked on again: the loop that makes it stores it to both places."""
    count, width, handed_out = 1000, 4 if narrow is None else 2, 2 if narrow is None else 3
    calls = [load(0, 0, 4 * count), load(1, 6000, 4 * count)]
    calls += [("binary", "Add", "float32", 2 * SLOT, 0, SLOT, count)]
    calls += [] if narrow is None else [("cast", narrow, "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    calls += [("binary", "Mul", "float32", 4 * SLOT, 2 * SLOT, 2 * SLOT, count), *collect("Add", 4 * SLOT, count)]
    shifted_by = handed_out * SLOT + 32  # so that it is another pass
    if narrow is None:
        calls += [("unary", "Abs", "float32", 5 * SLOT, shifted_by, count - 8)]
    else:
        calls += [("cast", "float32", narrow, 5 * SLOT, shifted_by, 0, count - 16)]
    calls += [store(16384, handed_out, width * count), store(32768, 5, 4 * (count - 16))]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    kind = "float" if narrow is None else "i16"
    sums = [text for text in listening.texts if " fadd " in text and "!nontemporal" in text]
    assert any(f" x {kind}> " in line for text in sums for line in text.splitlines() if "!nontemporal" in line) == (
        writes_loops()
    )


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "float16", "bfloat16"])
@pytest.mark.parametrize("count", [1536, 1700, 2048])
def test_long_loops_with_non_temporal_stores_begin_at_a_line(count, narrow):
    """They go over some elements twice, but not where they overwrite what they have read."""
    width = 4 if narrow is None else 2
    calls = [load(0, 0, 4 * count), load(1, 8192, 4 * count)]
    calls += [
        ("binary", "Add", "float32", 2 * SLOT, 0, SLOT, count),
        ("scalar", "Muls", "float32", *2 * [2 * SLOT], bits(count), count),  # no other count has this loop
    ]
    calls += [] if narrow is None else [("cast", narrow, "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    calls += [store(32768, 2, width * count) if narrow is None else store(32768, 3, width * count, narrow)]
    listening = Listening(host_calls())
    for further in (0, 4, 16, 48, 60):
        assert_same_when_compiled(listening, [shifted(call, further) for call in calls], [FLOATS])
    texts = [text for text in listening.texts if "!nontemporal" in text]
    assert len(texts) == int(writes_loops())
    assert all("align 16, !nontemporal" in text and "%past = and" in text for text in texts)


@pytest.mark.usefixtures("_loops", "_streaming")
@pytest.mark.parametrize(
    ("row_bytes", "gap", "further", "streams"),
    [(4096, 4096, 0, True), (4096, 4096, 16, False), (4096, 0, 16, True), (512, 512, 16, True)],
    ids=["whole lines", "shared lines", "one behind the other", "short"],
)
def test_rows_apart_with_non_temporal_stores(row_bytes, gap, further, streams):
    """Pieces of rows that end within lines stay in the caches: such a line would go past them in two parts."""
    rows = 8192 // row_bytes
    count = rows * row_bytes // 4
    calls = [load(0, 0, 4 * count), load(1, 8192, 4 * count)]
    calls += [
        ("binary", "Add", "float32", 2 * SLOT, 0, SLOT, count),
        ("scalar", "Muls", "float32", *2 * [2 * SLOT], bits(row_bytes + gap + further), count),
        ("copy_out_pad", "float32", 32768 + further, 2 * SLOT, (rows, row_bytes, 0, gap)),
    ]
    listening = Listening(host_calls())
    assert_same_when_compiled(listening, calls, [FLOATS])
    assert bool(listening.texts) == writes_loops()
    assert any("!nontemporal" in text for text in listening.texts) == (streams and writes_loops())


@pytest.mark.usefixtures("_streaming")
@pytest.mark.parametrize("narrow", [None, "bfloat16"])
def test_blocks_in_long_loops_with_non_temporal_stores(compiler, narrow):
    """A DataBlock begins anew with every eighth element, wherever turns begin."""
    count, width = 2000, 4 if narrow is None else 2
    calls = [load(0, 0, 4 * count), *with_block("Sub", 2 * SLOT, 0, count, first=False)]
    calls += [] if narrow is None else [("cast", narrow, "float32", 3 * SLOT, 2 * SLOT, 1, count)]
    calls += [store(32768, 2, width * count) if narrow is None else store(32768, 3, width * count, narrow)]
    for further in (0, 16, 32, 48):
        assert_same_when_compiled(compiler, [shifted(call, further) for call in calls], [FLOATS])


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
