import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import silu_mul as reference
from tests.tensors import dtype_name, numpy, tensor


def weighted_sum(gate, up, dy):
    return (ops.silu_mul(gate, up).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(3, 65), (1,), (0, 4)], ids=str)
def test_forward(mode, dtype, shape):
    rng = np.random.default_rng(0)
    gate, up = tensor(draw(rng, shape), dtype), tensor(draw(rng, shape), dtype)
    y = run(mode, ops.silu_mul, (gate, up))
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(gate), numpy(up)), dtype)


def test_scalar():
    y = ops.silu_mul(Tensor(1.0, ms.float32), Tensor(2.0, ms.float32))
    assert y.shape == ()
    assert_accurate(numpy(y), reference.forward(np.array(1.0), np.array(2.0)), "float32")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_gradient(mode, dtype):
    rng = np.random.default_rng(1)
    gate, up, dy = (tensor(draw(rng, (3, 65)), dtype) for _ in range(3))
    outputs = run(mode, ms.grad(weighted_sum, (0, 1)), (gate, up, dy))
    exact = numpy(dy), numpy(gate), numpy(up)
    for actual, golden, terms in zip(
        outputs, reference.backward(*exact), reference.backward_terms(*exact), strict=True
    ):
        assert dtype_name(actual) == dtype
        assert_accurate(numpy(actual), golden, dtype, terms)


@pytest.mark.parametrize(
    ("up", "error", "message"),
    [
        (np.ones((2, 4), np.float32), ValueError, r"up.shape must equal gate.shape \(2, 3\), got \(2, 4\)"),
        (np.ones(3, np.float32), ValueError, r"up.shape must equal gate.shape \(2, 3\), got \(3,\)"),
        (np.ones((2, 3), np.float16), TypeError, "up.dtype must be float32 when gate.dtype is float32, got float16"),
        (np.ones((2, 3), bool), TypeError, "up.dtype must be float16, bfloat16 or float32, got bool"),
    ],
)
def test_bad_input(up, error, message):
    with pytest.raises(error, match=f"^silu_mul: {message}"):
        run("pynative", ops.silu_mul, (Tensor(np.ones((2, 3), np.float32)), Tensor(up)))
