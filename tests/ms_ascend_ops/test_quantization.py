import numpy as np
import pytest

from ms_ascend_ops.quantization import dequantize_weight, pack_int4, quantize_weight, unpack_int4


def test_packing_is_undone():
    numbers = np.random.default_rng(0).integers(-8, 8, (5, 3, 14)).astype(np.int8)
    packed = pack_int4(numbers)
    assert packed.dtype == np.int8
    assert packed.shape == (5, 3, 7)
    assert packed.view(np.uint8)[0, 0, 0] == (numbers[0, 0, 0] & 15) + 16 * (numbers[0, 0, 1] & 15)
    np.testing.assert_array_equal(unpack_int4(packed), numbers)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("group", [0, 32])
def test_the_error_is_half_a_step(bits, symmetric, group):
    rng = np.random.default_rng(bits)
    weight = rng.normal(rng.normal(), rng.uniform(0.1, 3), (7, 96))
    numbers, scale, offset = quantize_weight(weight, bits, group, symmetric, np.float32)
    assert (offset is None) is symmetric
    error = np.abs(dequantize_weight(numbers, scale, offset, 96) - weight)
    assert (error <= 0.501 * np.repeat(scale, group or 96, axis=1)).all()


def test_a_group_of_zeros_stays_one():
    for symmetric in (False, True):
        numbers, scale, offset = quantize_weight(np.zeros((2, 64)), 4, 32, symmetric)
        np.testing.assert_array_equal(dequantize_weight(numbers, scale, offset, 64), np.zeros((2, 64)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((2, 64)), 5), "bits must be 4 or 8, got 5"),
        ((np.zeros(64), 4), r"weight must be a matrix with elements, got shape \(64,\)"),
        ((np.zeros((2, 64)), 4, 48), r"group_size must be 0, or a multiple of 32 up to 1024 that divides"),
        ((np.zeros((2, 63)), 4), "must be even for 4 bits"),
        ((np.full((2, 64), np.nan), 4), "weight must be finite"),
        ((np.full((2, 64), 1e7), 4), "a scale of 666667 is beyond float16; use float32"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match="^quantize_weight: .*" + message):
        quantize_weight(*arguments)
