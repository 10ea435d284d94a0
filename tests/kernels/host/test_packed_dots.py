"""Numbers of 8 and 4 bits become half, and sums over products with them are those of the instructions, bit for bit.

So they are where the factors were bytes, too, and are added up as integers.
"""

import itertools

import numpy as np
import pytest

from tests.kernels.host.memory import Memory

HALVES, FLOATS, PRODUCTS, SUMS, FACTORS, NUMBERS = 0, 16384, 49152, 53248, 57344, 61440
BYTES, FACTOR_HALVES = 65536, 66560  # factors that are bytes first
UB_BYTES = 68608


def run(calls, numbers, factors, execution):
    memory = Memory(UB_BYTES).put(NUMBERS, numbers).put(FACTORS, factors)
    memory.run(*calls, execution=execution)
    return memory


def same(calls, numbers, factors):
    deferred, serial = (run(calls, numbers, factors, way) for way in ("deferred", "serial"))
    np.testing.assert_array_equal(deferred.ub, serial.ub)


def dots(bits, rows, columns, group, stride=None, places=range(0, 4096, 128)):
    """What a kernel does to a block of rows. `places`: where the sums of each go."""
    step = stride or group
    yield ("cast_numbers", bits, HALVES, NUMBERS, rows * columns)
    yield ("cast", "float32", "float16", FLOATS, HALVES, 0, rows * columns)
    for row in range(rows):
        yield ("binary", "Mul", "float32", PRODUCTS, FLOATS + 4 * columns * row, FACTORS, columns)
        yield ("reduce_sum", SUMS + places[row], PRODUCTS, group, columns // step, 1, step // 8)


def draw(bits, rows, columns):
    rng = np.random.default_rng(rows * columns + bits)
    numbers = rng.integers(-128, 128, rows * columns * bits // 8).astype(np.int8)
    return numbers, rng.normal(size=columns).astype(np.float32)


@pytest.mark.parametrize(("bits", "count"), list(itertools.product([8, 4], [2, 16, 62, 64, 200, 1030])))
def test_casts(bits, count):
    numbers, _ = draw(bits, 1, count)
    memory = run([("cast_numbers", bits, HALVES, NUMBERS, count)], numbers, np.zeros(1, np.float32), "deferred")
    bytes_ = numbers.astype(np.int64)
    expected = bytes_ if bits == 8 else np.stack([(bytes_ + 8 & 15) - 8, (bytes_ >> 4 & 15 ^ 8) - 8], -1).ravel()
    np.testing.assert_array_equal(memory.get(HALVES, count, "float16").astype(np.int64), expected)
    assert (memory.get(HALVES + 2 * count, 16, "int8") == -1).all()  # nothing behind the tail


CASES = [  # rows, columns, group
    (1, 32, 32),
    (8, 96, 32),  # sums of several rows at a time, some left over
    (5, 576, 32),
    (4, 512, 64),
    (3, 1024, 64),
    (3, 192, 16),
]


@pytest.mark.parametrize(("bits", "case"), list(itertools.product([8, 4], CASES)))
def test_sums_are_those_of_the_instructions(bits, case):
    same(list(dots(bits, *case)), *draw(bits, *case[:2]))


@pytest.mark.parametrize("bits", [8, 4])
def test_groups_apart(bits):
    """Half of each group, as where a group is longer than a repeat."""
    same(list(dots(bits, 2, 512, 64, 128)), *draw(bits, 2, 512))


@pytest.mark.parametrize("places", [(0, 128, 512, 1024), (256, 128, 0, 384), (0, 128, 128, 256)])
def test_sums_may_go_anywhere(places):
    same(list(dots(4, 4, 96, 32, places=places)), *draw(4, 4, 96))


def integer_dots(bits, rows, columns, *layout):
    yield ("cast_numbers", 8, FACTOR_HALVES, BYTES, columns)
    yield ("cast", "float32", "float16", FACTORS, FACTOR_HALVES, 0, columns)
    yield from dots(bits, rows, columns, *layout)


def both(calls, numbers, factors):
    memories = []
    for way in ("deferred", "serial"):
        memory = Memory(UB_BYTES).put(NUMBERS, numbers).put(BYTES, factors)
        memory.run(*calls, execution=way)
        memories.append(memory.ub.view(np.uint32))
    np.testing.assert_array_equal(*memories)


INTEGERS = [  # rows, columns, group, from a group to the next
    (1, 32, 32),
    (9, 576, 32),  # eight groups at a time; the last two of four rows together, those of the ninth alone
    (5, 544, 32),  # one is left
    (6, 96, 32),  # three
    (3, 1024, 64),
    (5, 576, 64),
    (2, 512, 64, 128),  # half of each group
    (4, 864, 32, 96),  # a third of each
    (5, 592, 16),  # eight groups at a time; the last five
    (3, 160, 16),
    (2, 256, 16, 32),  # half of each group
]


@pytest.mark.parametrize(("bits", "case"), list(itertools.product([8, 4], INTEGERS)))
def test_integers(bits, case):
    numbers, _ = draw(bits, *case[:2])
    numbers[: min(64, len(numbers))] = -128 if bits == 8 else -0x78  # the largest sums
    for lowest in (-127, -128):  # -128 has no opposite of 8 bits
        factors = np.random.default_rng(0).integers(lowest, 128, case[1]).astype(np.int8)
        factors[:32] = lowest
        both(list(integer_dots(bits, *case)), numbers, factors)


@pytest.mark.parametrize("offset", [BYTES, FACTOR_HALVES, FACTORS, NUMBERS])
def test_what_changes_of_integers_is_seen(offset):
    numbers, _ = draw(4, 2, 64)
    for place in range(7):
        calls = list(integer_dots(4, 2, 64, 32))
        calls.insert(place, ("fill", "int32", offset, 0x3C003C00, 8))
        both(calls, numbers, np.arange(-32, 32).astype(np.int8))


CHANGES = {  # between the casts and the sum
    "numbers": ("fill", "int32", NUMBERS, 0x12345678, 8),
    "factors": ("fill", "float32", FACTORS, 0x40000000, 16),
    "product": ("fill", "float32", PRODUCTS, 0x3F800000, 16),
    "halves": ("fill", "float16", HALVES, 0x3C00, 16),
    "floats": ("fill", "float32", FLOATS, 0x3F800000, 16),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_in_between_is_seen(what):
    for bits, place in itertools.product([8, 4], [1, 2, 3]):
        calls = list(dots(bits, 2, 64, 32))
        calls.insert(place, CHANGES[what])
        same(calls, *draw(bits, 2, 64))


@pytest.mark.parametrize("place", [FACTORS, NUMBERS, FLOATS, PRODUCTS, HALVES])
def test_sums_may_lie_on_what_they_are_made_of(place):
    """A row's sums are written when all of them are known, and those of the next row see them."""
    # Also where numbers and factors of the last groups are; and a row of sums on its own floats.
    for offset, step in itertools.product([0, 128, 256, 512, 2048], [128, 4 * 576]):
        same(list(dots(4, 4, 576, 32, places=range(place + offset - SUMS, 2**20, step))), *draw(4, 4, 576))


def test_sums_may_lie_on_the_numbers_of_the_row_before():
    """The last groups of some rows are added up together, when the other sums of these rows have been written."""
    numbers, _ = draw(8, 9, 576)
    factors = np.random.default_rng(0).integers(-127, 128, 576).astype(np.int8)
    places = range(NUMBERS - 96 - SUMS, 2**20, 576)
    both(list(integer_dots(8, 9, 576, 32, None, places)), numbers, factors)


@pytest.mark.parametrize(
    "between",
    [
        ("binary", "Adds", None),  # the sums of the row before are read
        ("fill", "float32", SUMS + 128, 0x3F800000, 8),  # those of the row behind are written before
        ("fill", "float32", SUMS, 0x3F800000, 8),
    ],
)
def test_rows_with_something_in_between(between):
    """The product of the second row comes before the sum of the first."""
    numbers, factors = draw(4, 2, 96)
    first, second, multiply, reduce, multiply_next, reduce_next = dots(4, 2, 96, 32)
    multiply_next = (*multiply_next[:3], PRODUCTS + 2048, *multiply_next[4:])
    reduce_next = (*reduce_next[:2], PRODUCTS + 2048, *reduce_next[3:])
    if between[0] == "binary":
        between = ("binary", "Add", "float32", SUMS + 256, SUMS, SUMS + 128, 3)
    same([first, second, multiply, multiply_next, reduce, between, reduce_next], numbers, factors)


def test_a_write_far_before_the_sum_is_seen():
    """More instructions lie between the cast and the sum than are looked through for who made something."""
    numbers, factors = draw(4, 1, 64)
    cast, widen, multiply, reduce = dots(4, 1, 64, 32)
    others = [("fill", "float32", SUMS + 2048, 0x3F800000, 8)] * 3000
    changed = ("fill", "int32", NUMBERS, 0x12345678, 8)
    same([cast, changed, *others, widen, *others, multiply, reduce], numbers, factors)


# Behind them: sums of rows and what they are scaled with, as a kernel has it.
TERMS, SHIFTS, SCALES, OFFSETS = 69632, 77824, 86016, 94208
HALF_SCALES, HALF_OFFSETS, X_SCALES, X_SUMS, VALUES = 102400, 106496, 110592, 110848, 111104
ROWS_BYTES = 111616
WIDTH = 64  # floats from a row to the next


def scaled_rows(bits, rows, columns, group, has_offset, halves):
    """Integer sums of rows, scaled and added up."""
    lanes, stride = columns // group, WIDTH // 8
    yield from integer_dots(bits, rows, columns, group, None, [TERMS - SUMS + 4 * WIDTH * row for row in range(rows)])
    for to, from_ in ((SCALES, HALF_SCALES), (OFFSETS, HALF_OFFSETS))[: halves * (1 + has_offset)]:
        yield ("cast_repeat", "float32", "float16", to, from_, 0, lanes, rows, [1, 1, stride, stride // 2], True)

    def each(op, to, first, second, step):
        return ("binary_repeat", op, "float32", to, first, second, lanes, rows, [1, 1, 1, stride, stride, step], True)

    yield each("Mul", TERMS, TERMS, X_SCALES, 0)
    if has_offset:
        yield each("Mul", SHIFTS, OFFSETS, X_SUMS, 0)
        yield each("Add", TERMS, TERMS, SHIFTS, stride)
    yield each("Mul", TERMS, TERMS, SCALES, stride)
    yield ("reduce_sum", VALUES, TERMS, lanes, rows, 1, stride)


def same_rows(calls, case, bits, halves):
    numbers, _ = draw(bits, *case[:2])
    rng = np.random.default_rng(7)
    factors = rng.integers(-127, 128, case[1]).astype(np.int8)
    given = rng.normal(size=(2, 2048)).astype(np.float16 if halves else np.float32)
    x_factors = rng.normal(size=(2, WIDTH)).astype(np.float32)
    memories = []
    for way in ("deferred", "serial"):
        memory = Memory(ROWS_BYTES).put(NUMBERS, numbers).put(BYTES, factors).put(X_SCALES, x_factors)
        for place, values in zip((HALF_SCALES, HALF_OFFSETS) if halves else (SCALES, OFFSETS), given, strict=True):
            memory.put(place, values)
        memory.run(*calls, execution=way)
        memories.append(memory.ub.view(np.uint32))
    np.testing.assert_array_equal(*memories)
    return memories[0].view(np.float32)[0, VALUES // 4 :][: case[0]]


ROWS = [  # rows, columns, group
    (10, 576, 32),  # eight rows at a time, whose 18 groups are whole vectors together; two rows are left
    (8, 288, 32),  # an odd number of groups: two of 4 bits are of two rows
    (3, 1024, 64),
    (1, 1024, 32),
    (10, 288, 16),
    (3, 208, 16),
]


@pytest.mark.parametrize(
    ("bits", "case", "has_offset", "halves"),
    [(4, ROWS[0], 1, 1), (8, ROWS[0], 0, 1), (4, ROWS[1], 1, 0), (8, ROWS[1], 1, 1), (4, ROWS[2], 0, 0),
     (8, ROWS[2], 1, 0), (4, ROWS[3], 1, 1), (8, ROWS[4], 0, 0), (4, ROWS[4], 1, 1), (8, ROWS[5], 1, 1),
     (4, ROWS[5], 0, 0)],
)  # fmt: skip
def test_scaled_rows(bits, case, has_offset, halves):
    assert np.isfinite(same_rows(list(scaled_rows(bits, *case, has_offset, halves)), case, bits, halves)).all()


@pytest.mark.parametrize("offset", [NUMBERS, BYTES, TERMS, SHIFTS, SCALES, OFFSETS, HALF_SCALES, X_SCALES, X_SUMS])
def test_what_changes_of_scaled_rows_is_seen(offset):
    case = (3, 288, 32)
    for place in range(1, 8):  # from the end
        calls = list(scaled_rows(4, *case, 1, 1))
        calls.insert(len(calls) - place, ("fill", "int32", offset, 0x3C003C00, 8))
        same_rows(calls, case, 4, 1)
