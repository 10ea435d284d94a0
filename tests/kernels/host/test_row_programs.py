"""Programs of kernels, whose loops keep values in registers, give the bits of one instruction after the other.

The programs are those of the kernels (primitives/rows.h, primitives/silu.h), with lengths around the vector width, the
64 lanes of a sum and a strip.
"""

import pytest

from tests.kernels.host.memory import bits
from tests.kernels.host.test_deferred import assert_same_in_any_execution

SOURCE, FLOAT, SQUARE, SUMS, BLOCK, COLUMNS, RESULT = 0, 4096, 8192, 12288, 12800, 16384, 20480
LENGTHS = [1, 15, 16, 17, 63, 64, 65, 300, 511, 512, 513, 1000]
RINT, NONE = 1, 0


def counter(count):
    return ("set_mask", "counter", 0, count)


def squares(dtype, count):
    source = FLOAT
    calls = [("cast", "float32", dtype, FLOAT, SOURCE, NONE, count)]
    if dtype == "float32":
        source, calls = SOURCE, []
    return [
        *calls,
        ("binary", "Mul", "float32", SQUARE, source, source, count),
        counter(count),
        ("binary_repeat", "Add", "float32", SUMS, SQUARE, SUMS, 0, 1, (1, 1, 1, 0, 8, 0), False),
    ]


def scale(dtype, count, rounds):
    target = RESULT if dtype == "float32" else FLOAT
    narrow = [] if dtype == "float32" else [("cast", dtype, "float32", RESULT, FLOAT, RINT, count)]
    widen = [("cast", "float32", dtype, FLOAT, RESULT, NONE, count)]
    return [
        counter(count),
        ("binary_repeat", "Mul", "float32", target, FLOAT, BLOCK, 0, 1, (1, 1, 0, 8, 8, 0), False),
        ("clear_mask",),
        *((narrow + widen) if rounds else []),
        ("binary", "Mul", "float32", target, target, COLUMNS, count),
        *narrow,
    ]


def silu(count, with_sigmoid):
    calls = [
        ("scalar", "Muls", "float32", RESULT, FLOAT, bits(-1.0, "float32"), count),
        ("unary", "Exp", "float32", RESULT, RESULT, count),
        ("scalar", "Adds", "float32", RESULT, RESULT, bits(1.0, "float32"), count),
    ]
    if not with_sigmoid:
        return [*calls, ("binary", "Div", "float32", RESULT, FLOAT, RESULT, count)]
    return [
        *calls,
        counter(count),
        ("binary_repeat", "Div", "float32", RESULT, BLOCK, RESULT, 0, 1, (1, 0, 1, 8, 0, 8), False),
        ("clear_mask",),
        ("binary", "Mul", "float32", SQUARE, FLOAT, RESULT, count),
    ]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_sum_of_squares(dtype):
    for count in LENGTHS:
        # Finite numbers: which of two NaN a sum passes on is the compiler's choice.
        finite = [] if dtype == "float32" else [("cast", dtype, "float32", SOURCE, COLUMNS, RINT, count)]
        assert_same_in_any_execution([*finite, *squares(dtype, count), *squares(dtype, count)])


@pytest.mark.parametrize(
    ("dtype", "rounds"),
    [("float32", False), ("float16", False), ("float16", True), ("bfloat16", False), ("bfloat16", True)],
)
def test_scale(dtype, rounds):
    for count in LENGTHS:
        assert_same_in_any_execution(scale(dtype, count, rounds))


@pytest.mark.parametrize("with_sigmoid", [False, True])
def test_silu(with_sigmoid):
    for count in LENGTHS:
        assert_same_in_any_execution(silu(count, with_sigmoid))


@pytest.mark.parametrize("shift", [32, 64, 2048])
def test_operands_that_meet_in_part_go_one_by_one(shift):
    """The columns lie inside the result, shifted: a single pass would read what it has just written."""
    count = 600
    assert_same_in_any_execution(
        [
            counter(count),
            ("binary_repeat", "Mul", "float32", RESULT, FLOAT, BLOCK, 0, 1, (1, 1, 0, 8, 8, 0), False),
            ("clear_mask",),
            ("binary", "Mul", "float32", RESULT, RESULT, RESULT - shift, count),
        ]
    )


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_read_as_what_they_were_cast_from(dtype, count):
    """As the first and as the second operand, from the start and from the middle of what was cast."""
    later = count // 2 // 16 * 16
    assert_same_in_any_execution(
        [
            ("cast", "float32", dtype, FLOAT, SOURCE, NONE, count),
            ("unary", "Abs", "float32", SQUARE, FLOAT, count),
            ("binary", "Sub", "float32", SQUARE, SQUARE, FLOAT, count),
            ("binary", "Mul", "float32", RESULT, FLOAT, FLOAT, count),
            ("binary", "Max", "float32", RESULT, FLOAT + 4 * later, RESULT, count - later),
            ("cast", dtype, "float32", COLUMNS, RESULT, RINT, count),
        ]
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_whose_source_is_overwritten_are_read_as_floats(dtype):
    count = 600
    assert_same_in_any_execution(
        [
            ("cast", "float32", dtype, FLOAT, SOURCE, NONE, count),
            ("cast", dtype, "float32", SOURCE, COLUMNS, RINT, 40),
            ("binary", "Add", "float32", RESULT, FLOAT, SQUARE, count),
        ]
    )


@pytest.mark.parametrize("mode", [2, 3, 4, 5])  # down, up, ties away from zero, towards zero
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_casts_that_round_in_another_way(dtype, mode):
    calls = [
        ("cast", "float32", dtype, FLOAT, SOURCE, NONE, 300),
        ("binary", "Mul", "float32", SQUARE, FLOAT, FLOAT, 300),
        ("cast", dtype, "float32", RESULT, SQUARE, mode, 300),
    ]
    assert_same_in_any_execution(calls)


@pytest.mark.parametrize("length", [512, 528, 1024])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rows_that_lie_apart_in_global_memory(dtype, length):
    """Gate and up are the halves of each row, and the results are stored with a gap: every row is done by itself."""
    rows, size = 2, 4 if dtype == "float32" else 2
    gate, up, wide_gate, wide_up, activated, result, everything = (8192 * i for i in range(7))
    count = rows * length
    narrows = dtype != "float32"
    halves = (rows, length * size, length * size, 0)
    calls = [
        *([("cast", dtype, "float32", gate, everything, RINT, 2 * count)] if narrows else []),
        ("copy_out_pad", dtype, 0, gate if narrows else everything, (1, 2 * count * size, 0, 0)),
        ("copy_in_pad", dtype, gate, 0, halves, False, (0, 0, 0)),
        ("copy_in_pad", dtype, up, length * size, halves, False, (0, 0, 0)),
    ]
    if narrows:
        calls += [
            ("cast", "float32", dtype, to, source, NONE, count) for to, source in [(wide_gate, gate), (wide_up, up)]
        ]
    else:
        wide_gate, wide_up = gate, up
    calls += [
        ("scalar", "Muls", "float32", activated, wide_gate, bits(-1.0, "float32"), count),
        ("unary", "Exp", "float32", activated, activated, count),
        ("binary", "Div", "float32", activated, wide_gate, activated, count),
        ("binary", "Mul", "float32", activated, activated, wide_up, count),
        *([("cast", dtype, "float32", result, activated, RINT, count)] if narrows else []),
        ("copy_out_pad", dtype, 32768, result if narrows else activated, (rows, length * size, 0, 96)),
    ]
    assert_same_in_any_execution(calls)


def test_sums_of_values_on_the_way():
    """A value and its square are summed up in the pass that makes them; two sums in the same lanes are not."""
    count = 600
    add = (1, 1, 1, 0, 8, 0)
    assert_same_in_any_execution(
        [
            ("scalar", "Adds", "float32", FLOAT, SOURCE, bits(-0.5, "float32"), count),
            ("binary", "Mul", "float32", SQUARE, FLOAT, FLOAT, count),
            counter(count),
            ("binary_repeat", "Add", "float32", SUMS, FLOAT, SUMS, 0, 1, add, False),
            ("binary_repeat", "Add", "float32", SUMS + 256, SQUARE, SUMS + 256, 0, 1, add, False),
            ("binary_repeat", "Add", "float32", SUMS + 256, FLOAT, SUMS + 256, 0, 1, add, False),
        ]
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_nan_is_rounded_with_its_neighbours(dtype):
    values = [("set", FLOAT + 4 * i, 0x7FC00000 + i) for i in (0, 17, 130, 599)]
    assert_same_in_any_execution([*values, *scale(dtype, 600, dtype != "float32")])
