"""Every arithmetic instruction, in count form and by repeats, against NumPy."""

import itertools

import numpy as np
import pytest

from tests.kernels.host.memory import STORAGE, Memory, bits
from tests.kernels.host.programs import elements

DST, SRC0, SRC1 = 0, 8192, 16384
COUNTS = [1, 7, 8, 63, 64, 65, 200, 1031]  # below, at and above a block and a repeat, and several strips with a tail
BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum}
SCALAR = {"Adds": np.add, "Muls": np.multiply, "Maxs": np.maximum, "Mins": np.minimum}
UNARY = {"Abs": np.abs, "Sqrt": np.sqrt, "Relu": lambda x: np.where(x < 0, x.dtype.type(0), x)}
NUMBERS = ["float32", "float16", "int32"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 6e-8, -6e-8, 65504.0, -65504.0, 1e-41, -1e-41, 3e38, -3e38]


def draw(dtype, count, seed=0):
    """Ordinary numbers."""
    rng = np.random.default_rng(seed)
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, count).astype(np.int32)
    return rng.uniform(-4, 4, count).astype(STORAGE[dtype])


def calculate(operation, *values):
    """NumPy's result; half is calculated in float and rounded once, as on the chip."""
    dtype = values[0].dtype
    with np.errstate(all="ignore"):
        if dtype == np.float16:
            return operation(*(x.astype(np.float32) for x in values)).astype(np.float16)
        return operation(*values).astype(dtype)


def assert_same(actual, expected):
    """Equal values, NaN for NaN, and equal signs of zero."""
    assert np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f")
    if actual.dtype.kind == "f":
        number = ~np.isnan(expected)
        assert np.array_equal(np.signbit(actual[number]), np.signbit(expected[number]))


def pairs(operations, dtypes):
    return [(name, dtype) for name, dtype in itertools.product(operations, dtypes) if (name, dtype) != ("Div", "int32")]


@pytest.mark.parametrize(("name", "dtype"), pairs(BINARY, NUMBERS))
def test_binary(name, dtype):
    for count in COUNTS:
        a, b = draw(dtype, count, 1), draw(dtype, count, 2)
        memory = Memory().put(SRC0, a).put(SRC1, b)
        memory.run(("binary", name, dtype, DST, SRC0, SRC1, count))
        assert_same(memory.get(DST, count, dtype), calculate(BINARY[name], a, b))
        assert (memory.get(DST + count * a.itemsize, 16, "uint32") == 0xFFFFFFFF).all()  # nothing behind the tail


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values(name, dtype):
    with np.errstate(over="ignore"):
        values = np.array(SPECIAL).astype(STORAGE[dtype])
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    memory = Memory().put(SRC0, a).put(SRC1, b)
    memory.run(("binary", name, dtype, DST, SRC0, SRC1, a.size))
    result, expected = memory.get(DST, a.size, dtype), calculate(BINARY[name], a, b)
    if name in ("Max", "Min"):  # which zero is larger is not defined
        result, expected = result + STORAGE[dtype].type(0), expected + STORAGE[dtype].type(0)
    assert_same(result, expected)


@pytest.mark.parametrize(("name", "dtype"), pairs(SCALAR, ["float32", "int32"]))
def test_scalar(name, dtype):
    for count, value in itertools.product(COUNTS, [3, -2]):
        a = draw(dtype, count)
        memory = Memory().put(SRC0, a)
        memory.run(("scalar", name, dtype, DST, SRC0, bits(value, dtype), count))
        assert_same(memory.get(DST, count, dtype), calculate(SCALAR[name], a, STORAGE[dtype].type(value)))


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_special_values(name):
    values = np.array(SPECIAL, np.float32)
    for scalar in values[~np.isnan(values)]:
        memory = Memory().put(SRC0, values)
        memory.run(("scalar", name, "float32", DST, SRC0, bits(scalar, "float32"), values.size))
        result, expected = memory.get(DST, values.size, "float32"), calculate(SCALAR[name], values, scalar)
        if name in ("Maxs", "Mins"):  # which zero is larger is not defined
            result, expected = result + np.float32(0), expected + np.float32(0)
        assert_same(result, expected)


@pytest.mark.parametrize("name", SCALAR)
def test_a_scalar_nan_gives_nan(name):
    memory = Memory().put(SRC0, np.array([1.0, -np.inf, 0.0, np.nan], np.float32))
    memory.run(("scalar", name, "float32", DST, SRC0, bits(np.nan, "float32"), 4))
    assert np.isnan(memory.get(DST, 4, "float32")).all()


def test_axpy():
    """The CPU may round the product, or only the sum."""
    for count, value in itertools.product(COUNTS, [0.7, -3.0]):
        scalar, dst, src = np.float32(value), draw("float32", count, 1), draw("float32", count, 2)
        memory = Memory().put(DST, dst).put(SRC0, src)
        memory.run(("axpy", DST, SRC0, bits(scalar, "float32"), count))
        product = src.astype(np.float64) * np.float64(scalar)
        exact = dst.astype(np.float64) + product
        rounding = sum(np.spacing(np.abs(x).astype(np.float32)).astype(np.float64) / 2 for x in (exact, product))
        assert np.all(np.abs(memory.get(DST, count, "float32") - exact) <= rounding)
        assert (memory.get(DST + count * dst.itemsize, 16, "uint32") == 0xFFFFFFFF).all()


def test_axpy_special_values():
    dst, src = (x.ravel() for x in np.meshgrid(*[np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], np.float32)] * 2))
    for value in (0.0, 2.0, -np.inf, np.nan):
        memory = Memory().put(DST, dst).put(SRC0, src)
        memory.run(("axpy", DST, SRC0, bits(value, "float32"), dst.size))
        with np.errstate(invalid="ignore"):
            assert_same(memory.get(DST, dst.size, "float32"), src * np.float32(value) + dst)


@pytest.mark.parametrize("name", SCALAR)
def test_int32_scalar_is_exact(name):
    value = 2**24 + 1  # the first integer that float cannot hold
    a = np.array([1, 0, -1, 2**24, 2**24 + 2, 2**30], np.int32)
    memory = Memory().put(SRC0, a)
    memory.run(("scalar", name, "int32", DST, SRC0, value, a.size))
    assert_same(memory.get(DST, a.size, "int32"), calculate(SCALAR[name], a, np.int32(value)))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, dtype):
    for count in COUNTS:
        a = draw(dtype, count)
        with np.errstate(over="ignore"):
            a[: len(SPECIAL)] = np.array(SPECIAL[:count]).astype(STORAGE[dtype])
        memory = Memory().put(SRC0, a)
        memory.run(("unary", name, dtype, DST, SRC0, count))
        assert_same(memory.get(DST, count, dtype), calculate(UNARY[name], a))


# dst, src0, src1: strides of blocks, then of repeats
STRIDES = {
    "contiguous": (1, 1, 1, 8, 8, 8),
    "rows": (1, 1, 1, 9, 16, 10),
    "interleaved rows": (1, 1, 1, 16, 16, 16),
    "blocks apart": (2, 1, 3, 16, 8, 24),
    "one block for all": (1, 1, 0, 8, 8, 0),
    "one block for all, left": (1, 0, 1, 8, 0, 8),
    "a block a repeat": (1, 1, 0, 9, 9, 1),
    "a block a repeat, left": (1, 0, 1, 9, 1, 9),
    "blocks for both": (1, 0, 0, 8, 1, 0),
    "one repeat for all": (1, 1, 1, 8, 8, 0),
    "one destination": (1, 1, 1, 0, 8, 8),
    "overlapping reads": (1, 1, 1, 8, 1, 0),
}


def by_repeats(memory, dtype, operation, bases, lanes, strides, block_strides):
    """The instruction on a copy of the Unified Buffer, one repeat after the other. lanes: active ones per repeat."""
    size = STORAGE[dtype].itemsize
    values = memory.ub[0].copy().view(STORAGE[dtype])
    for repeat, active in enumerate(lanes):
        at = [
            elements(base + repeat * stride * 32, size, 1, 0, active, block_stride)[0] // size
            for base, stride, block_stride in zip(bases, strides, block_strides, strict=True)
        ]
        values[at[0]] = calculate(operation, *(values[x] for x in at[1:]))
    return values


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("strides", STRIDES.values(), ids=STRIDES.keys())
def test_binary_by_repeats(strides, dtype):
    lanes = 256 // STORAGE[dtype].itemsize
    for name, mask, repeats in itertools.product(["Sub", "Max"], [lanes, lanes - 3, 1], [1, 2, 7]):
        memory = Memory().put(SRC0, draw(dtype, 16384 // STORAGE[dtype].itemsize))
        expected = by_repeats(
            memory, dtype, BINARY[name], (DST, SRC0, SRC1), [mask] * repeats, strides[3:], strides[:3]
        )
        memory.run(("binary_repeat", name, dtype, DST, SRC0, SRC1, mask, repeats, strides, True))
        assert_same(memory.ub[0].view(STORAGE[dtype]), expected)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("strides", STRIDES.values(), ids=STRIDES.keys())
def test_counter_mode(strides, dtype):
    """The mask register holds the number of elements; repeatTimes says nothing."""
    lanes = 256 // STORAGE[dtype].itemsize
    for count in (1, lanes - 1, lanes, lanes + 1, 5 * lanes + 3):
        memory = Memory().put(SRC0, draw(dtype, 16384 // STORAGE[dtype].itemsize))
        repeats = [lanes] * (count // lanes) + ([count % lanes] if count % lanes else [])
        expected = by_repeats(memory, dtype, np.subtract, (DST, SRC0, SRC1), repeats, strides[3:], strides[:3])
        memory.run(
            ("set_mask", "counter", 0, count),
            ("binary_repeat", "Sub", dtype, DST, SRC0, SRC1, 0, 1, strides, False),
            ("clear_mask",),
        )
        assert_same(memory.ub[0].view(STORAGE[dtype]), expected)


def test_normal_mask_register():
    memory = Memory().put(SRC0, draw("float32", 4096))
    strides = (1, 1, 1, 8, 8, 8)
    expected = by_repeats(memory, "float32", np.add, (DST, SRC0, SRC1), [20] * 3, strides[3:], strides[:3])
    memory.run(
        ("set_mask", "normal", 0, 2**20 - 1),
        ("binary_repeat", "Add", "float32", DST, SRC0, SRC1, 0, 3, strides, False),
    )
    assert_same(memory.ub[0].view(np.float32), expected)


ACCUMULATIONS = {
    "repeat after repeat": (1, 1, 1, 0, 8, 0),
    "row after row": (1, 1, 1, 0, 11, 0),
    "one block": (1, 0, 1, 0, 0, 0),
    "block after block": (1, 0, 1, 0, 1, 0),
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", ["Add", "Max", "Mul"])
@pytest.mark.parametrize("strides", ACCUMULATIONS.values(), ids=ACCUMULATIONS.keys())
def test_accumulation(strides, name, dtype):
    """acc = src op acc: each repeat meets what the one before left. half rounds every time."""
    for counter in (False, True):
        accumulate(strides, name, dtype, counter)


def accumulate(strides, name, dtype, counter):
    lanes = 256 // STORAGE[dtype].itemsize
    memory = Memory().put(DST, draw(dtype, 16384 // STORAGE[dtype].itemsize))
    active = [lanes] * 9 + ([5] if counter else [])
    expected = by_repeats(memory, dtype, BINARY[name], (DST, SRC0, DST), active, strides[3:], strides[:3])
    if counter:
        memory.run(
            ("set_mask", "counter", 0, 9 * lanes + 5),
            ("binary_repeat", name, dtype, DST, SRC0, DST, 0, 1, strides, False),
        )
    else:
        memory.run(("binary_repeat", name, dtype, DST, SRC0, DST, lanes, 9, strides, True))
    assert_same(memory.ub[0].view(STORAGE[dtype]), expected)


@pytest.mark.parametrize("strides", [(1, 1, 8, 8), (1, 1, 9, 16), (2, 1, 16, 8), (1, 0, 8, 1), (1, 0, 8, 0)], ids=str)
@pytest.mark.parametrize("mask", [64, 13])
def test_unary_and_scalar_by_repeats(mask, strides):
    for method, name, operation in [("unary_repeat", "Abs", np.abs), ("scalar_repeat", "Muls", lambda x: x * 3)]:
        memory = Memory().put(SRC0, draw("float32", 4096))
        expected = by_repeats(memory, "float32", operation, (DST, SRC0), [mask] * 5, strides[2:], strides[:2])
        value = (bits(3, "float32"),) if method == "scalar_repeat" else ()
        memory.run((method, name, "float32", DST, SRC0, *value, mask, 5, strides, True))
        assert_same(memory.ub[0].view(np.float32), expected)
