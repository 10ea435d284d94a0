import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import softmax as reference
from tests.tensors import dtype_name, numpy, tensor


def weighted_sum(x, dy, axis):
    return (ops.softmax(x, axis).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", FLOATS)
def test_forward_and_gradient(mode, dtype, axis):
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (3, 5, 37)), dtype) for _ in range(2))
    y = run(mode, ops.softmax, (x,), axis)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(x), axis), dtype)
    dx = run(mode, ms.grad(weighted_sum), (x, dy), axis)
    exact = numpy(dy), numpy(y), axis  # the gradient takes the rounded output
    assert_accurate(numpy(dx), reference.backward(*exact), dtype, reference.backward_terms(*exact))


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
def test_bad_input(dtype, shape, axis, error, message):
    with pytest.raises(error, match="^" + re.escape(f"softmax: {message}")):
        run("pynative", ops.softmax, (Tensor(np.ones(shape, dtype)),), axis)
