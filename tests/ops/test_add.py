import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import add as reference
from tests.tensors import dtype_name, numpy, tensor


def weighted_sum(x, y, dz):
    return (ops.add(x, y).astype(ms.float32) * dz.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_forward(mode, dtype):
    rng = np.random.default_rng(0)
    x, y = (tensor(draw(rng, (3, 65)), dtype) for _ in range(2))
    z = run(mode, ops.add, (x, y))
    assert dtype_name(z) == dtype
    assert_accurate(numpy(z), reference.forward(numpy(x), numpy(y)), dtype, np.abs(numpy(x)) + np.abs(numpy(y)))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_is_the_sum_of_stock_addition(dtype):
    rng = np.random.default_rng(0)
    x, y = (tensor(draw(rng, (3, 65)), dtype) for _ in range(2))
    assert np.array_equal(numpy(ops.add(x, y)), numpy(x + y))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient(mode, dtype):
    rng = np.random.default_rng(1)
    x, y, dz = (tensor(draw(rng, (3, 65)), dtype) for _ in range(3))
    for gradient in run(mode, ms.grad(weighted_sum, (0, 1)), (x, y, dz)):
        assert dtype_name(gradient) == dtype
        assert np.array_equal(numpy(gradient), numpy(dz))


def test_bad_input():
    x, y = Tensor(np.ones((2, 3), np.float32)), Tensor(np.ones((1, 3), np.float32))
    with pytest.raises(ValueError, match=r"^add: y.shape must equal x.shape \(2, 3\), got \(1, 3\)"):
        run("pynative", ops.add, (x, y))
