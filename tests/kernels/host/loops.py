"""Helpers of tests of compiled loops: programs on tiles, and what compiling them changes: nothing."""

import numpy as np

from ms_ascend_ops.loop_compiler import LoopCompiler
from tests.kernels.host.module import host_calls, program
from tests.kernels.host.test_deferred import identical_or_nan

SLOT = 8 * 1024
SLOTS = 7
LANES = SLOT * SLOTS  # behind them: 64 lanes that collect, and a DataBlock
BLOCK = LANES + 1024
BYTES = 64 * 1024
LOADED = (0, 1, SLOTS - 1)  # slots that every tile loads
LINE = 64
NEVER = 1 << 60
LARGE = 1 << 30  # bytes of output with which the next tile is prefetched
FLOATS = np.random.default_rng(0).standard_normal(BYTES // 4).astype(np.float32)
# Random bits: all exponents, NaN and infinities. Every 16 bits of them are numbers of a kind, too.
ANY_BITS = np.random.default_rng(1).integers(0, 1 << 32, BYTES // 4, np.uint32).view(np.float32)


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


def on_tiles(body, kept, size, rows=None, early=None):
    """What is done to four tiles of some bytes, and the slot that is stored: as a whole, or some rows of it.

    `early`: a slot that is stored, too, before that call of the body.
    """
    calls = []
    for tile in range(4):
        to, more = 32 * 1024 + 6000 * tile, 22 * 1024 + 2400 * tile
        calls += [load(slot, 4 * (tile * 1000 + slot * 100), size) for slot in LOADED]
        whole = list(body)
        if early is not None:
            whole.insert(early[0], store(more, early[1], min(size, 2400)))
        calls += [*whole, store(to, kept, min(size, 6000)) if rows is None else store_rows(to, kept, *rows)]
    return calls


def store_rows(gm, slot, rows, row_bytes, stride):
    """Rows some bytes apart, which follow each other in global memory."""
    gap = (stride - -(-row_bytes // 32) * 32) // 32
    return ("copy_out_pad", "float32", gm, slot * SLOT, (rows, row_bytes, gap, 0))


def columns(cols):
    """The 64 columns, or fewer, that one instruction works on."""
    return [(at, min(64, cols - at)) for at in range(0, cols, 64)]


def copy_rows(slot, gm, rows, cols, stride, dtype, pad):
    """Rows that follow each other in global memory, to so many elements apart, with zeros in between or nothing new."""
    width = 4 if dtype == "float32" else 2
    gap = (stride * width - -(-cols * width // 32) * 32) // 32
    zeros = (0, 0 if pad is None else -cols % (32 // width), 0)
    return ("copy_in_pad", dtype, slot * SLOT, gm, (rows, cols * width, 0, gap), pad is not None, zeros)


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


def assert_same_with_non_temporal_stores(calls):
    """The CPU does not bypass the caches where an address is no multiple of 16."""
    listening = Listening(host_calls())
    for further in (0, 4, 16):
        assert_same_when_compiled(listening, [shifted(call, further) for call in calls], [FLOATS])
    return sum("!nontemporal" in text for text in listening.texts)
