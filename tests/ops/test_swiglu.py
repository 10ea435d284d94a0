import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import swiglu as reference
from tests.tensors import dtype_name, numpy, tensor


def weighted_sum(x, dy, axis, interleaved):
    return (ops.swiglu(x, axis, interleaved).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("axis", "interleaved"), [(-1, False), (1, True)])
def test_forward(mode, dtype, axis, interleaved):
    x = tensor(draw(np.random.default_rng(0), (3, 6, 34)), dtype)
    y = run(mode, ops.swiglu, (x,), axis, interleaved)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(x), axis, interleaved), dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("axis", "interleaved"), [(-1, True), (1, False)])
def test_gradient(mode, dtype, axis, interleaved):
    rng = np.random.default_rng(1)
    x = tensor(draw(rng, (3, 6, 34)), dtype)
    dy = tensor(draw(rng, reference.forward(numpy(x), axis).shape), dtype)
    dx = run(mode, ms.grad(weighted_sum), (x, dy), axis, interleaved)
    assert dtype_name(dx) == dtype
    exact = numpy(dy), numpy(x), axis, interleaved
    assert_accurate(numpy(dx), reference.backward(*exact), dtype, reference.backward_terms(*exact))


@pytest.mark.parametrize(
    ("shape", "arguments", "error", "message"),
    [
        ((4, 7), (), ValueError, r"x.shape\[-1\] must be even \(it is split into gate and up\), got \(4, 7\)"),
        ((3, 8), (0,), ValueError, r"x.shape\[0\] must be even \(it is split into gate and up\), got \(3, 8\)"),
        ((4, 8), (2,), ValueError, r"axis must be in \[-2, 1\] for x of shape \(4, 8\), got 2"),
        ((4, 8), (-3,), ValueError, r"axis must be in \[-2, 1\] for x of shape \(4, 8\), got -3"),
        ((4, 8), (1.0,), TypeError, "axis must be an int, got float"),
        ((4, 8), (True,), TypeError, "axis must be an int, got bool"),
        ((4, 8), (-1, 1), TypeError, "interleaved must be a bool, got int"),
    ],
)
def test_bad_input(shape, arguments, error, message):
    with pytest.raises(error, match=f"^swiglu: {message}"):
        run("pynative", ops.swiglu, (Tensor(np.ones(shape, np.float32)),), *arguments)


def test_axis_beyond_64_bits():
    with pytest.raises(ValueError, match=r"^swiglu: axis must fit in 64 bits, got 18446744073709551616"):
        ops.swiglu(Tensor(np.ones((2, 2), np.float32)), 2**64)
