import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import gelu as reference
from tests.tensors import dtype_name, numpy, tensor

FORMS = ["none", "tanh"]


def weighted_sum(x, dy, form):
    return (ops.gelu(x, form).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(3, 65), (0, 4)], ids=str)
def test_forward(mode, dtype, form, shape):
    x = tensor(draw(np.random.default_rng(0), shape), dtype)
    y = run(mode, ops.gelu, (x,), form)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(numpy(x), form), dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("form", FORMS)
def test_gradient(mode, dtype, form):
    rng = np.random.default_rng(1)
    x, dy = (tensor(draw(rng, (3, 65)), dtype) for _ in range(2))
    dx = run(mode, ms.grad(weighted_sum), (x, dy), form)
    assert dtype_name(dx) == dtype
    exact = numpy(dy), numpy(x), form
    assert_accurate(numpy(dx), reference.backward(*exact), dtype, reference.backward_terms(*exact))


@pytest.mark.parametrize(
    ("dtype", "form", "error", "message"),
    [
        (np.float64, "none", TypeError, "x.dtype must be float16, bfloat16 or float32, got float64"),
        (np.float32, "erf", ValueError, "approximate must be 'none' or 'tanh', got 'erf'"),
        (np.float32, True, TypeError, "approximate must be a string, got bool"),
    ],
)
def test_bad_input(dtype, form, error, message):
    with pytest.raises(error, match=f"^gelu: {message}"):
        run("pynative", ops.gelu, (Tensor(np.ones((2, 3), dtype)),), form)
