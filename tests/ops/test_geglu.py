import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import geglu as reference
from tests.tensors import dtype_name, numpy, tensor

# axis, activate_left, approximate
ATTRIBUTES = [(-1, False, "none"), (1, True, "tanh")]


def weighted_sum(x, dy, axis, activate_left, approximate):
    return (ops.geglu(x, axis, activate_left, approximate).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("attributes", ATTRIBUTES, ids=str)
def test_forward(mode, dtype, attributes):
    x = tensor(draw(np.random.default_rng(0), (3, 6, 34)), dtype)
    y = run(mode, ops.geglu, (x,), *attributes)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(x), *attributes), dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("attributes", ATTRIBUTES, ids=str)
def test_gradient(mode, dtype, attributes):
    rng = np.random.default_rng(1)
    x = tensor(draw(rng, (3, 6, 34)), dtype)
    dy = tensor(draw(rng, reference.forward(numpy(x), *attributes).shape), dtype)
    dx = run(mode, ms.grad(weighted_sum), (x, dy), *attributes)
    assert dtype_name(dx) == dtype
    exact = numpy(dy), numpy(x), *attributes
    assert_accurate(numpy(dx), reference.backward(*exact), dtype, reference.backward_terms(*exact))


@pytest.mark.parametrize(
    ("shape", "arguments", "error", "message"),
    [
        ((4, 7), (), ValueError, r"x.shape\[-1\] must be even \(it is split into gate and up\), got \(4, 7\)"),
        ((4, 8), (2,), ValueError, r"axis must be in \[-2, 1\] for x of shape \(4, 8\), got 2"),
        ((4, 8), (-1, 0), TypeError, "activate_left must be a bool, got int"),
        ((4, 8), (-1, False, "erf"), ValueError, "approximate must be 'none' or 'tanh', got 'erf'"),
    ],
)
def test_bad_input(shape, arguments, error, message):
    with pytest.raises(error, match=f"^geglu: {message}"):
        run("pynative", ops.geglu, (Tensor(np.ones(shape, np.float32)),), *arguments)
