"""Cast in every round mode. The reference looks for the two neighbours of a value in the list of all 16-bit numbers."""

import numpy as np
import pytest

from tests.kernels.host.memory import STORAGE, Memory

NONE, RINT, FLOOR, CEIL, ROUND, TRUNC, ODD = range(7)
DST, SRC, UB_BYTES = 0, 81920, 163840


def cast(to, source, values, mode):
    memory = Memory(UB_BYTES).put(SRC, values)
    memory.run(("cast", to, source, DST, SRC, mode, values.size))
    return memory.get(DST, values.size, to)


def directed(lower, upper, exact, mode):
    """Which of the two neighbours, both given as float64 with lower <= exact <= upper."""
    if mode == FLOOR:
        return lower
    if mode == CEIL:
        return upper
    if mode == TRUNC:
        return np.where(exact < 0, upper, lower)
    nearer = np.where(exact - lower < upper - exact, lower, upper)
    tie = exact - lower == upper - exact
    return np.where(tie, np.where(exact < 0, lower, upper), nearer)  # ROUND: ties away from zero


def grid(dtype):
    """All finite numbers of a 16-bit type, ascending, and their bit patterns."""
    patterns = np.arange(2**16, dtype=np.uint16)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        numbers = patterns.view(STORAGE[dtype]).astype(np.float64)
    keep = np.isfinite(numbers) & ~((numbers == 0) & (patterns != 0))
    order = np.argsort(numbers[keep])
    return numbers[keep][order], patterns[keep][order]


def between(dtype, count=8192):
    """float32 values among the numbers of a 16-bit type: random ones, the numbers themselves, and exact ties."""
    rng = np.random.default_rng(0)
    numbers, _ = grid(dtype)
    low = 2.0**-26 if dtype == "float16" else 2.0**-134
    random = rng.choice([-1, 1], count) * np.exp2(rng.uniform(np.log2(low), np.log2(numbers.max() * 0.99), count))
    at = rng.integers(0, numbers.size - 1, count // 2)
    ties = (numbers[at] + numbers[at + 1]) / 2
    return np.concatenate([random, numbers[at], ties]).astype(np.float32)


@pytest.mark.parametrize("mode", [FLOOR, CEIL, ROUND, TRUNC])
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
def test_float_to_16_bits_directed(to, mode):
    values = between(to)
    numbers, _ = grid(to)
    exact = values.astype(np.float64)
    upper = np.searchsorted(numbers, exact, side="left")
    lower = np.where(numbers[upper] == exact, upper, upper - 1)
    assert np.array_equal(
        cast(to, "float32", values, mode).astype(np.float64), directed(numbers[lower], numbers[upper], exact, mode)
    )


def test_float_to_half_odd():
    values = between("float16")
    numbers, patterns = grid("float16")
    exact = values.astype(np.float64)
    upper = np.searchsorted(numbers, exact, side="left")
    lower = np.where(numbers[upper] == exact, upper, upper - 1)
    odd = np.where((patterns[lower] & 1 == 1) | (lower == upper), lower, upper)
    assert np.array_equal(cast("float16", "float32", values, ODD).astype(np.float64), numbers[odd])


@pytest.mark.parametrize(("to", "mode"), [("float16", RINT), ("float16", NONE), ("bfloat16", RINT)])
def test_float_to_16_bits_nearest(to, mode):
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519.9, 65520.0, 1e30, -1e30, 1e-41, -1e-41, 3.4e38])
    values = np.concatenate([between(to), special.astype(np.float32)])
    with np.errstate(over="ignore"):
        expected = values.astype(STORAGE[to])
    result = cast(to, "float32", values, mode)
    assert np.array_equal(result.astype(np.float64), expected.astype(np.float64), equal_nan=True)
    number = ~np.isnan(values)
    assert np.array_equal(np.signbit(result[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("source", ["float16", "bfloat16"])
def test_16_bits_to_float_is_exact(source):
    for quarter in np.arange(2**16, dtype=np.uint16).reshape(4, -1):
        numbers = quarter.view(STORAGE[source])
        assert np.array_equal(cast("float32", source, numbers, NONE), numbers.astype(np.float32), equal_nan=True)


TO_INTEGER = {RINT: np.rint, FLOOR: np.floor, CEIL: np.ceil, TRUNC: np.trunc,
              ROUND: lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)}  # fmt: skip


@pytest.mark.parametrize("mode", TO_INTEGER)
@pytest.mark.parametrize("source", ["float32", "float16", "bfloat16"])
def test_to_int32(source, mode):
    """Saturates; NaN gives 0."""
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.uniform(-9, 9, 3000), np.arange(-20, 20) / 2, [0.49999997, 8388607.5, 3e9, -3e9, 2**31, -(2.0**31)]]
    )
    with np.errstate(over="ignore"):
        numbers = np.concatenate([values, [np.inf, -np.inf, np.nan]]).astype(STORAGE[source])
    exact = TO_INTEGER[mode](numbers.astype(np.float64))
    expected = np.clip(np.nan_to_num(exact, nan=0.0), -(2.0**31), 2.0**31 - 1).astype(np.int64)
    assert np.array_equal(cast("int32", source, numbers, mode), expected)


@pytest.mark.parametrize("mode", [NONE, RINT, FLOOR, CEIL, ROUND, TRUNC])
def test_int32_to_float(mode):
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [rng.integers(-(2**31), 2**31, 3000), [2**24 + 1, -(2**24) - 1, 2**24 + 3, 2**31 - 1, -(2**31), 0, 1, -1]]
    ).astype(np.int32)
    exact, nearest = values.astype(np.float64), values.astype(np.float32)
    below = np.nextafter(nearest, np.float32(-np.inf)).astype(np.float64)
    above = np.nextafter(nearest, np.float32(np.inf)).astype(np.float64)
    nearest = nearest.astype(np.float64)
    lower, upper = np.where(nearest > exact, below, nearest), np.where(nearest < exact, above, nearest)
    expected = nearest if mode in (NONE, RINT) else directed(lower, upper, exact, mode)
    assert np.array_equal(cast("float32", "int32", values, mode).astype(np.float64), expected)


@pytest.mark.parametrize("mode", TO_INTEGER)
def test_float_to_integral_float(mode):
    values = np.concatenate([np.random.default_rng(0).uniform(-9, 9, 3000), np.arange(-20, 20) / 2]).astype(np.float32)
    assert np.array_equal(cast("float32", "float32", values, mode), TO_INTEGER[mode](values.astype(np.float64)))


def test_by_repeats():
    """64 lanes a repeat, of the wider type; the narrow side advances by 4 blocks when it is contiguous."""
    values = np.random.default_rng(0).standard_normal(64 * 6).astype(np.float32)
    for strides, rows in [((1, 1, 4, 8), 64), ((1, 1, 6, 8), 96)]:
        memory = Memory().put(8192, values)
        memory.run(("cast_repeat", "float16", "float32", 0, 8192, RINT, 50, 6, strides, True))
        result = memory.get(0, rows * 6, "float16").reshape(6, rows)
        assert np.array_equal(result[:, :50], values.reshape(6, 64)[:, :50].astype(np.float16))
        assert np.isnan(result[:, 50:]).all()


def test_by_repeats_with_blocks_apart():
    values = np.random.default_rng(0).standard_normal(64).astype(np.float16)
    memory = Memory().put(8192, values)
    memory.run(("cast_repeat", "float32", "float16", 0, 8192, NONE, 64, 1, (2, 1, 16, 4), True))
    result = memory.get(0, 128, "float32").reshape(8, 2, 8)
    assert np.array_equal(result[:, 0].ravel(), values.astype(np.float32))
    assert np.isnan(result[:, 1]).all()


def test_counter_mode():
    values = np.random.default_rng(0).standard_normal(200).astype(np.float32)
    memory = Memory().put(8192, values)
    memory.run(
        ("set_mask", "counter", 0, 200),
        ("cast_repeat", "bfloat16", "float32", 0, 8192, RINT, 0, 1, (1, 1, 4, 8), False),
    )
    assert np.array_equal(memory.get(0, 200, "bfloat16"), values.astype(STORAGE["bfloat16"]))
    assert np.isnan(memory.get(400, 8, "bfloat16").astype(np.float32)).all()


@pytest.mark.parametrize("count", [2, 16, 62, 64, 200, 1030])
@pytest.mark.parametrize("bits", [8, 4])
def test_packed_numbers(bits, count):
    """Numbers of 8 and 4 bits become half: of a byte the lower four bits first."""
    numbers = np.random.default_rng(count).integers(-128, 128, count * bits // 8).astype(np.int8)
    memory = Memory(UB_BYTES).put(SRC, numbers)
    memory.run(("cast_numbers", bits, DST, SRC, count))
    wide = numbers.astype(np.int64)
    expected = wide if bits == 8 else np.stack([(wide + 8 & 15) - 8, (wide >> 4 & 15 ^ 8) - 8], -1).ravel()
    np.testing.assert_array_equal(memory.get(DST, count, "float16").astype(np.int64), expected)
    assert (memory.get(DST + 2 * count, 16, "int8") == -1).all()  # nothing behind the tail
