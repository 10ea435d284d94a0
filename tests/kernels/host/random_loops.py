"""Draws random programs whose tiles become loops."""

from tests.kernels.host.loops import (
    BINARY,
    BLOCK,
    SCALAR,
    SLOT,
    SLOTS,
    UNARY,
    bits,
    collect,
    columns,
    copy_rows,
    on_tiles,
    store_rows,
    with_block,
)


class Slots:
    """What the slots hold: floats, or in their first half 16 bits of one dtype.

    None is read as what it does not hold: of two NaN compilers choose one, whose bits would be seen. With `retype` any
    slot may be overwritten by anything, but is only read if it was written or loaded before in the same tile.
    """

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
