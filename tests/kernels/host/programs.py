"""Random legal programs for the host layer, as lists of (method of Program, arguments...).

Legal is what Ascend C defines: within one instruction a source is the destination element by element or has nothing
to do with it; only an accumulation (destination = src1, both without repeat stride) may meet an address again.
Between instructions anything may overlap anything. Every generator draws from a random.Random.
"""

import numpy as np

UB_BYTES = 64 * 1024
GM_BYTES = 64 * 1024
SLOT = 8 * 1024
BLOCK = 32
LANES = 64
SIZE = {"float32": 4, "int32": 4, "float16": 2, "bfloat16": 2}
BINARY = {
    "float32": ("Add", "Sub", "Mul", "Max", "Min", "Div"),
    "int32": ("Add", "Sub", "Mul", "Max", "Min"),
    # Any bytes may stand for halves, NaN among them; these two do not depend on the order of their operands then.
    "float16": ("Sub", "Max", "Min"),
}
BITS = {"float32": lambda r: int(np.float32(r.choice([0.5, -1.0, 0.25, 1.0])).view(np.uint32)),
        "int32": lambda r: r.randrange(7)}  # fmt: skip


def elements(base, size, iterations, stride, lanes, block_stride=1):
    """Byte offset of every element, (iterations, lanes): iterations lie `stride` bytes apart, blocks within one too."""
    lane = np.arange(lanes)
    per_block = BLOCK // size
    within = lane // per_block * block_stride * BLOCK + lane % per_block * size
    return base + np.arange(iterations)[:, None] * stride + within


def _span(offsets, size):
    return int(offsets.min()), int(offsets.max()) + size


def inside(offsets, size, limit=UB_BYTES):
    """Whether all elements lie in memory."""
    first, last = _span(offsets, size)
    return first >= 0 and last <= limit


def disjoint(a, a_size, b, b_size):
    """Whether no byte belongs to both."""
    (a0, a1), (b0, b1) = _span(a, a_size), _span(b, b_size)
    if a1 <= b0 or b1 <= a0:
        return True
    cells_a = (a.ravel()[:, None] + np.arange(0, a_size, 2)).ravel()
    cells_b = (b.ravel()[:, None] + np.arange(0, b_size, 2)).ravel()
    return not np.isin(cells_a, cells_b).any()


def element_wise(dst, sources, size):
    """Whether dst = op(sources), given by element offsets of equal shape, is legal."""
    if not all(inside(x, size) for x in (dst, *sources)):
        return False
    repeated = np.unique(dst).size != dst.size
    if repeated and np.unique(dst[0]).size != dst.shape[1]:
        return False
    for i, source in enumerate(sources):
        if disjoint(dst, size, source, size):
            continue
        if np.array_equal(dst, source) and (not repeated or i == 1):
            continue
        if repeated:
            return False
        meets = np.isin(source, dst)
        if not np.array_equal(source[meets], dst[meets]) or not disjoint(dst, size, source[~meets], size):
            return False
    return True


class Generator:
    """Draws the calls of one program."""

    def __init__(self, rng):
        self.rng = rng
        self.dtype = rng.choice(["float32", "float32", "int32"])
        self.bases = [rng.randrange(UB_BYTES // SLOT) * SLOT for _ in range(rng.randint(3, 6))]
        self.gm_bases = [rng.randrange(GM_BYTES // SLOT) * SLOT for _ in range(3)]
        self.counts = [rng.choice([8, 64, 100, 333, 512, 1024, 1500, 2048]) for _ in range(2)]
        self.rows = rng.randint(2, 9)
        self.cols = rng.choice([8, 24, 40, 64, 72, 100, 128, 136, 190, 256])
        self.stride = (self.cols + 7) // 8 * 8 + rng.choice([0, 0, 0, 8, 16])
        self.calls = []

    def program(self):
        rng = self.rng
        if rng.random() < 0.15:
            self.calls.append(("set_mask", "normal", 0, 2**64 - 1))
        for _ in range(rng.randint(2, 9)):
            rng.choice(self.TEMPLATES)(self)
        return self.calls

    # ---- operands

    def ub(self):
        """A buffer: most often the start of one, else some blocks further or before."""
        base = self.rng.choice(self.bases)
        if self.rng.random() < 0.3:
            base += self.rng.choice([-64, -8, -2, -1, 1, 2, 3, 8, 16, 32, 64]) * BLOCK
        return min(max(base, 0), UB_BYTES - BLOCK)

    def gm(self, size=4):
        base = self.rng.choice(self.gm_bases)
        if self.rng.random() < 0.3:
            base += self.rng.choice([-512, -32, -size, size, 12, 32, 96, 512])
        return max(base, 0)

    def count(self):
        return self.rng.choice(self.counts) if self.rng.random() < 0.85 else self.rng.randint(1, 2048)

    # ---- single instructions; illegal ones are dropped

    def binary(self, op, dst, a, b, count):
        size = SIZE[self.dtype]
        d, s0, s1 = (elements(x, size, 1, 0, count) for x in (dst, a, b))
        if element_wise(d, (s0, s1), size):
            self.calls.append(("binary", op, self.dtype, dst, a, b, count))

    def repeat(self, op, dst, a, b, mask, repeats, strides, counter=0):
        """With `counter`, counter mode over that many elements."""
        size = SIZE[self.dtype]
        iterations, lanes = (-(-counter * size // 256), 256 // size) if counter else (repeats, mask)
        d, s0, s1 = (
            elements(base, size, iterations, strides[3 + i] * BLOCK, lanes, strides[i])
            for i, base in enumerate((dst, a, b))
        )
        if not element_wise(d, (s0, s1), size):
            return
        if op == "Div" and np.unique(d).size != d.size:  # the chip accumulates with Add, Sub, Mul, Max and Min only
            return
        if counter:
            self.calls.append(("set_mask", "counter", 0, counter))
            self.calls.append(("binary_repeat", op, self.dtype, dst, a, b, 0, 1, strides, False))
            self.calls.append(("clear_mask",))
        else:
            self.calls.append(("binary_repeat", op, self.dtype, dst, a, b, mask, repeats, strides, True))

    def unary(self, dst, src, count):
        size = SIZE[self.dtype]
        if element_wise(elements(dst, size, 1, 0, count), (elements(src, size, 1, 0, count),), size):
            if self.dtype == "float16" or (self.dtype == "float32" and self.rng.random() < 0.5):
                self.calls.append(("unary", self.rng.choice(["Abs", "Relu", "Exp"]), self.dtype, dst, src, count))
            else:
                op = self.rng.choice(["Adds", "Muls", "Maxs", "Mins"])
                self.calls.append(("scalar", op, self.dtype, dst, src, BITS[self.dtype](self.rng), count))

    def axpy(self, dst, src, count):
        size = SIZE[self.dtype]
        if element_wise(elements(dst, size, 1, 0, count), (elements(src, size, 1, 0, count),), size):
            self.calls.append(("axpy", dst, src, BITS["float32"](self.rng), count))

    def cast(self, to, source, dst, src, count):
        d, s = elements(dst, SIZE[to], 1, 0, count), elements(src, SIZE[source], 1, 0, count)
        if inside(d, SIZE[to]) and inside(s, SIZE[source]) and disjoint(d, SIZE[to], s, SIZE[source]):
            self.calls.append(("cast", to, source, dst, src, 0 if source != "float32" else 1, count))

    def copy(self, out, dtype, ub, gm, rows, length, ub_gap, gm_gap):
        """DataCopyPad of rows of `length` elements; gaps in blocks and in elements."""
        size = SIZE[dtype]
        padded = -(-length * size // BLOCK) * BLOCK
        ub_end = ub + (rows - 1) * (padded + ub_gap * BLOCK) + padded
        gm_end = gm + rows * (length + gm_gap) * size
        if ub_end > UB_BYTES or gm_end > GM_BYTES:
            return
        if out:
            self.calls.append(("copy_out_pad", dtype, gm, ub, (rows, length * size, ub_gap, gm_gap * size)))
        else:
            self.calls.append(
                ("copy_in_pad", dtype, ub, gm, (rows, length * size, gm_gap * size, ub_gap), False, (0, 0, 0))
            )

    # ---- templates

    def element_chain(self):
        count = self.count()
        for _ in range(self.rng.randint(1, 5)):
            if self.rng.random() < 0.5:
                self.binary(self.rng.choice(BINARY[self.dtype]), self.ub(), self.ub(), self.ub(), count)
            else:
                self.unary(self.ub(), self.ub(), count)

    def in_place_chain(self):
        count, x, y = self.count(), self.ub(), self.ub()
        for _ in range(self.rng.randint(2, 4)):
            self.unary(x, x, count)
            if self.dtype == "float32" and self.rng.random() < 0.5:
                self.axpy(x, self.rng.choice([x, y, self.ub()]), count)
            self.binary(self.rng.choice(BINARY[self.dtype]), x, x, y, count)

    def any_repeat(self):
        rng = self.rng
        strides = tuple(rng.choice([0, 1, 1, 1, 2]) if i else rng.choice([1, 1, 1, 2]) for i in range(3))
        strides += tuple(rng.choice([0, 1, 8, 8, 8, 9, 16, self.stride // 8]) for _ in range(3))
        self.repeat(rng.choice(BINARY[self.dtype]), self.ub(), self.ub(), self.ub(), rng.choice([64, 64, 40, 8, 1, 33]),
                    rng.choice([1, 2, 5, 16, 25]), strides)  # fmt: skip

    def accumulate(self):
        rng = self.rng
        acc, src = self.ub(), self.ub()
        op = rng.choice(BINARY[self.dtype])
        if rng.random() < 0.6:
            self.repeat(op, acc, src, acc, 0, 1, (1, 1, 1, 0, 8, 0), counter=self.count())
        else:
            self.repeat(op, acc, src, acc, rng.choice([64, 40]), self.rows, (1, 1, 1, 0, self.stride // 8, 0))

    def broadcast_block(self):
        rng = self.rng
        first = rng.random() < 0.5
        strides = (1, 0, 1, 8, 0, 8) if first else (1, 1, 0, 8, 8, 0)
        self.repeat(
            rng.choice(BINARY[self.dtype]), self.ub(), self.ub(), self.ub(), 0, 1, strides, counter=self.count()
        )

    def row_chunks(self):
        """The loops of primitives/rows.h over 64 columns each."""
        rng = self.rng
        stride = self.stride // 8
        kind = rng.randrange(4)
        dst, src, other = self.ub(), self.ub(), self.ub()
        dst = src if rng.random() < 0.3 else dst
        op = rng.choice(BINARY[self.dtype])
        for column in range(0, self.cols, LANES):
            lanes = min(LANES, self.cols - column)
            at = column * 4
            if kind == 0:  # SumLanes
                self.repeat(op, dst, src + at, dst, lanes, self.rows, (1, 1, 1, 8, stride, 8))
            elif kind == 1:  # MultiplyRows
                self.repeat(op, dst + at, src + at, other, lanes, self.rows, (1, 1, 0, stride, stride, 1))
            elif kind == 2:  # MultiplyColumns
                self.repeat(op, dst + at, src + at, other + at, lanes, self.rows, (1, 1, 1, stride, stride, 0))
            else:  # SumColumns
                self.repeat(op, dst + at, src + at, dst + at, lanes, self.rows, (1, 1, 1, 0, stride, 0))

    def halves(self):
        """Instructions on half beside those on 32 bits."""
        outer, self.dtype = self.dtype, "float16"
        for _ in range(self.rng.randint(1, 3)):
            template = self.rng.choice(["element_chain", "any_repeat", "accumulate", "broadcast_block", "row_chunks"])
            getattr(self, template)()
        self.dtype = outer

    def row_groups(self):
        """Groups of rows, each made by instructions of its own, then stored as one."""
        rng = self.rng
        dst, src, factor = self.ub(), self.ub(), self.ub()
        step = rng.choice([1, 1, 2])
        for row in range(0, self.rows, step):
            rows = min(step, self.rows - row)
            count = (rows - 1) * self.stride + self.cols
            at = row * self.stride * 4
            self.binary("Mul", dst + at, src + at, src + at, count)
            if rng.random() < 0.6:
                if rows == 1:
                    self.repeat("Mul", dst + at, dst + at, factor, 0, 1, (1, 1, 0, 8, 8, 0), counter=self.cols)
                else:
                    self.unary(dst + at, dst + at, count)
            if rng.random() < 0.3:
                self.binary("Add", dst + at, dst + at, factor, count)
        if rng.random() < 0.2:
            self.unary(dst, dst, self.cols)
        gap = self.stride // 8 - -(-self.cols // 8)
        self.copy(True, self.dtype, dst, self.gm(), self.rows, self.cols, gap, rng.choice([0, 0, 5]))

    def load_rows(self):
        gap = self.stride // 8 - -(-self.cols // 8)
        self.copy(False, self.dtype, self.ub(), self.gm(), self.rows, self.cols, gap, self.rng.choice([0, 0, 3, 8]))

    def load_vector(self):
        self.copy(False, self.dtype, self.ub(), self.gm(), 1, self.count(), 0, 0)

    def store_vector(self):
        self.copy(True, self.dtype, self.ub(), self.gm(), 1, self.count(), 0, 0)

    def store_rows(self):
        gap = self.stride // 8 - -(-self.cols // 8)
        self.copy(True, self.dtype, self.ub(), self.gm(), self.rows, self.cols, gap, self.rng.choice([0, 3, 8]))

    def load_blocks(self):
        rng = self.rng
        shape = (rng.randint(1, 6), rng.choice([1, 4, 16, 32]), rng.choice([0, 1, 3]), rng.choice([0, 1, 3]))
        self.calls.append(("copy_in_blocks", "float32", min(self.ub(), UB_BYTES - SLOT),
                           min(self.gm(), GM_BYTES - SLOT), shape))  # fmt: skip

    def in_and_out_of_place(self):
        """Load, calculate, store where it came from: global output aliases global input."""
        gm, x, count = self.gm(), self.ub(), self.count()
        self.copy(False, self.dtype, x, gm, 1, count, 0, 0)
        y = x if self.rng.random() < 0.5 else self.ub()
        self.unary(y, x, count)
        self.copy(True, self.dtype, y, gm, 1, count, 0, 0)

    def casts(self):
        narrow = self.rng.choice(["float16", "bfloat16"])
        count, x, y = self.count(), self.ub(), self.ub()
        self.cast(narrow, "float32", x, y, count)
        if self.rng.random() < 0.5:
            self.cast("float32", narrow, self.ub(), x, count)
        else:
            self.copy(True, narrow, x, self.gm(2), 1, count, 0, 0)

    def reduce_rows(self):
        """Lanes to sums to blocks, as for a norm."""
        src, dst, spread = self.ub(), self.ub(), self.ub()
        rows8 = -(-self.rows // 8) * 8
        s = elements(src, 4, self.rows, 256, LANES)
        d = elements(dst, 4, 1, 0, self.rows)
        if inside(s, 4) and inside(d, 4) and disjoint(s, 4, d, 4):
            self.calls.append(("reduce_sum", dst, src, LANES, self.rows, 1, 8))
        d8, b = elements(dst, 4, 1, 0, rows8), elements(spread, 4, rows8, BLOCK, 8)
        if inside(d8, 4) and inside(b, 4) and disjoint(d8, 4, b, 4):
            self.calls.append(("broadcast", "float32", spread, dst, rows8 // 8, 1, 8))

    def fill(self):
        dst, count = self.ub(), self.count()
        if dst + count * 4 <= UB_BYTES:
            self.calls.append(("fill", self.dtype, dst, BITS[self.dtype](self.rng), count))

    def even_odd(self):
        dst, src, count = self.ub(), self.ub(), min(self.count(), 1024)
        d, s = elements(dst, 4, 1, 0, count), elements(src, 4, 1, 0, 2 * count)
        if inside(d, 4) and inside(s, 4) and disjoint(d, 4, s, 4):
            self.calls.append(("pattern", self.dtype, dst, src, self.rng.choice([1, 2]), True, 2 * count, 1))

    def scalars(self):
        offset = min(self.ub() + 4 * self.rng.randrange(64), UB_BYTES - 4)
        if self.rng.random() < 0.5:
            self.calls.append(("get", offset))
        else:
            self.calls.append(("set", offset, BITS[self.dtype](self.rng)))

    def global_scalars(self):
        offset = self.gm() // 4 * 4
        if self.rng.random() < 0.5:
            self.calls.append(("gm_get", offset))
        else:
            self.calls.append(("gm_set", offset, BITS[self.dtype](self.rng)))

    def free_and_reuse(self):
        ub = min(self.ub(), UB_BYTES - SLOT)
        self.calls.append(("free", ub, SLOT))
        self.calls.append(("fill", "int32", ub, 0, SLOT // 4))

    def store_and_free(self):
        """A result whose only use is to be stored."""
        y, rows, row_bytes = self.ub(), self.rng.randint(1, 3), -(-self.cols // 8) * 32
        if y + SLOT > UB_BYTES:
            return
        if self.rng.random() < 0.5:
            count = min(self.count(), SLOT // 4)
            self.unary(y, self.ub(), count)
            self.binary("Add", y, y, self.ub(), count)
            self.copy(True, self.dtype, y, self.gm(), 1, count, 0, 0)
        else:
            for row in range(rows):
                self.unary(y + row * row_bytes, self.ub() + row * row_bytes, self.cols)
            self.copy(True, self.dtype, y, self.gm(), rows, self.cols, 0, self.rng.choice([0, 0, 5]))
        self.calls.append(("free", y, SLOT))
        self.calls.append(("fill", "int32", y, 0, SLOT // 4))

    def atomic(self):
        if self.dtype == "float32":
            self.calls.append(("atomic", True))
            (self.store_vector if self.rng.random() < 0.5 else self.row_groups)()
            self.calls.append(("atomic", False))

    def rows_one_by_one(self):
        """The same to each row, by a block of its own or one for all."""
        rng = self.rng
        dst, src, blocks = self.ub(), self.ub(), self.ub()
        dst = src if rng.random() < 0.3 else dst
        op, step = rng.choice(BINARY[self.dtype]), rng.choice([0, BLOCK])
        for row in range(self.rows):
            at = row * self.stride * 4
            self.repeat(op, dst + at, src + at, blocks + row * step, 0, 1, (1, 1, 0, 8, 8, 0), counter=self.cols)

    def long_rows(self):
        """Rows of more than a strip: as a whole, row by row and column by column."""
        rng = self.rng
        outer = self.rows, self.cols, self.stride, self.counts
        self.rows, self.cols = rng.randint(2, 4), rng.choice([512, 512, 520, 600, 1024])
        self.stride = self.cols + rng.choice([0, 0, 0, 8])
        self.counts = [(self.rows - 1) * self.stride + self.cols]
        for _ in range(rng.randint(2, 7)):
            rng.choice(self.ON_LONG_ROWS)(self)
        self.rows, self.cols, self.stride, self.counts = outer

    ON_LONG_ROWS = (
        load_rows, load_rows, row_chunks, row_chunks, row_groups, rows_one_by_one, element_chain, in_place_chain,
        store_rows,
    )  # fmt: skip
    TEMPLATES = (
        element_chain, element_chain, in_place_chain, any_repeat, any_repeat, accumulate, broadcast_block, row_chunks,
        row_chunks, row_groups, row_groups, load_rows, load_rows, load_vector, store_vector, store_rows, load_blocks,
        in_and_out_of_place, casts, reduce_rows, halves, fill, even_odd, scalars, global_scalars, free_and_reuse,
        store_and_free, store_and_free, atomic, long_rows, long_rows,
    )  # fmt: skip


def draw_program(rng):
    """One program."""
    return Generator(rng).program()
