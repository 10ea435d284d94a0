import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate, assert_not_worse
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import softmax as reference
from tests.tensors import dtype_name, numpy, tensor

MASKED_TYPES = [(row["T"], row["M"]) for row in registry.signature("scaled_masked_softmax").types]


def weighted_softmax(x, dy, axis):
    return (ops.softmax(x, axis).astype(ms.float32) * dy.astype(ms.float32)).sum()


def weighted_masked(x, mask, dy, scale):
    return (ops.scaled_masked_softmax(x, mask, scale).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax(mode, dtype, axis):
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (3, 5, 37)), dtype) for _ in range(2))
    y = run(mode, ops.softmax, (x,), axis)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(x), axis), dtype)
    dx = run(mode, ms.grad(weighted_softmax), (x, dy), axis)
    exact = numpy(dy), numpy(y), axis  # the gradient takes the rounded output
    assert_accurate(numpy(dx), reference.backward(*exact), dtype, reference.backward_terms(*exact))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", MASKED_TYPES, ids="-".join)
def test_scaled_masked_softmax(mode, types):
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (2, 3, 5, 37)), types[0]) for _ in range(2))
    mask = tensor(np.where(rng.random((2, 1, 5, 37)) < 0.5, -np.inf, 0.0), types[1])
    y = run(mode, ops.scaled_masked_softmax, (x, mask), 0.25)
    assert dtype_name(y) == types[0]
    assert_accurate(numpy(y), reference.masked(numpy(x), numpy(mask), 0.25), types[0])
    dx, dmask = run(mode, ms.grad(weighted_masked, (0, 1)), (x, mask, dy), 0.25)
    exact = numpy(dy), numpy(y), -1, 0.25
    assert_accurate(numpy(dx), reference.backward(*exact), types[0], reference.backward_terms(*exact))
    assert not numpy(dmask).any()


@pytest.mark.parametrize("dtype", ["float16", "float32"])  # no stock kernel for bfloat16
def test_not_worse_than_stock_operators(dtype):
    rng = np.random.default_rng(0)
    x = tensor(draw(rng, (64, 1023)), dtype)
    mask = tensor(np.where(rng.random((64, 1023)) < 0.3, -1e4, 0.0), dtype)
    y = ops.softmax(x)
    assert_not_worse(numpy(y), numpy(stock.softmax(x, -1)), reference.forward(numpy(x)))
    theirs = stock.softmax(x * Tensor(0.125, x.dtype) + mask, -1)
    ours = ops.scaled_masked_softmax(x, mask, 0.125)
    assert_not_worse(numpy(ours), numpy(theirs), reference.masked(numpy(x), numpy(mask), 0.125))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dtype", "shape", "axis", "error", "message"),
    [
        ("int32", (4, 8), -1, TypeError, "x.dtype must be float16, bfloat16 or float32, got int32"),
        ("float32", (4, 8), 2, ValueError, "axis must be in [-2, 1] for x of shape (4, 8), got 2"),
        ("float32", (4, 8), -3, ValueError, "axis must be in [-2, 1] for x of shape (4, 8), got -3"),
        ("float32", (4, 8), 1.0, TypeError, "axis must be an int, got float"),
        ("float32", (1,) * 9, 0, ValueError, f"x must have at most 8 dims, got shape {(1,) * 9}"),
    ],
)
def test_bad_softmax(mode, dtype, shape, axis, error, message):
    with pytest.raises(error, match="^" + re.escape(f"softmax: {message}")):
        run(mode, ops.softmax, (Tensor(np.ones(shape, dtype)),), axis)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("dtype", "shape", "scale", "error", "message"),
    [
        ("float16", (8,), 1.0, TypeError, "mask.dtype must be float32 when x.dtype is float32, got float16"),
        ("float32", (7,), 1.0, ValueError, "mask.shape[-1] must equal x.shape[-1] (8), got (7,)"),
        ("float32", (3, 8), 1.0, ValueError, "mask.shape[:-1] must broadcast to x.shape[:-1] (2, 4), got (3, 8)"),
        ("float32", (), 1.0, ValueError, "mask must have at least 1 dim, got shape ()"),
        ("float32", (8,), float("inf"), ValueError, "scale must be finite in float32, got inf"),
        ("float32", (8,), "1", TypeError, "scale must be a float, got str"),
    ],
)
def test_bad_mask(mode, dtype, shape, scale, error, message):
    tensors = Tensor(np.ones((2, 4, 8), np.float32)), Tensor(np.ones(shape, dtype))
    with pytest.raises(error, match="^" + re.escape(f"scaled_masked_softmax: {message}")):
        run(mode, ops.scaled_masked_softmax, tensors, scale)
