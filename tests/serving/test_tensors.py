"""Numbers and bytes to arrays and back."""

import ml_dtypes
import numpy as np
import pytest

from ms_ascend_ops.serving.errors import BadRequest
from ms_ascend_ops.serving.tensors import (
    DATATYPES,
    Values,
    from_bfloat16,
    from_bytes,
    from_numbers,
    to_bfloat16,
    to_bytes,
    to_numbers,
)


def test_bfloat16_is_that_of_ml_dtypes(rng):
    """All exponents, ties, infinities, NaN of both signs."""
    bits = rng.integers(0, 2**32, 200_000, dtype=np.uint32)
    ties = (np.arange(2**16, dtype=np.uint32) << 16) | 0x8000
    x = np.concatenate([bits, ties, ties & 0xFFFF0000]).view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = x.astype(ml_dtypes.bfloat16)
    got = to_bfloat16(x)
    numbers = ~np.isnan(x)
    assert np.array_equal(got[numbers], expected.view(np.uint16)[numbers])
    assert np.isnan(from_bfloat16(got[~numbers])).all()
    assert np.array_equal(from_bfloat16(got[numbers]), expected[numbers].astype(np.float32))


@pytest.mark.parametrize("datatype", DATATYPES)
def test_there_and_back(datatype, rng):
    dtype = DATATYPES[datatype]
    if datatype == "BF16":
        array = to_bfloat16(rng.standard_normal((2, 3)).astype(np.float32))
    elif dtype.kind == "f":
        array = rng.standard_normal((2, 3)).astype(dtype)
    elif dtype.kind == "b":
        array = np.array([[True, False, True], [False, False, True]])
    else:
        limits = np.iinfo(dtype)
        array = np.array([[limits.min, limits.max, 1], [0, limits.max - 1, limits.min + 1]], dtype)
    values = Values(datatype, array)
    for again in (
        from_bytes(to_bytes(values), datatype, (2, 3), "x"),
        from_numbers(to_numbers(values), datatype, (2, 3), "x"),
    ):
        assert again.array.dtype == dtype
        assert np.array_equal(again.array, array)


@pytest.mark.parametrize(
    ("datatype", "number"),
    [("INT8", 128), ("INT8", -129), ("UINT8", -1), ("UINT32", 2**32), ("INT64", 2**63), ("UINT64", 2**64),
     ("INT32", 1.5), ("INT32", 1.0), ("BOOL", 1), ("FP16", 7e4), ("FP32", 4e38), ("FP64", 10**400)],
)  # fmt: skip
def test_numbers_that_a_datatype_does_not_have(datatype, number):
    with pytest.raises(BadRequest, match="input x: "):
        from_numbers([number], datatype, (1,), "x")


def test_infinities_and_nan():
    """Python's JSON has them; no other is taken for one."""
    got = from_numbers([float("inf"), float("-inf"), float("nan")], "FP16", (3,), "x").array
    assert np.array_equal(got, np.array([np.inf, -np.inf, np.nan], np.float16), equal_nan=True)
