import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import quant_matmul as reference
from tests.tensors import dtype_name, numpy, tensor


def arrays(dtype, rows, n=10, k=64):
    rng = np.random.default_rng(0)
    return [
        Tensor(rng.integers(-128, 128, (*rows, k)).astype(np.int8)),
        Tensor(rng.integers(-128, 128, (n, k)).astype(np.int8)),
        tensor(rng.uniform(0.5, 1.5, n) / 1024, dtype),
        tensor(rng.uniform(0.5, 1.5, rows) / 64, "float32"),
        tensor(draw(rng, (n,)), "float32"),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("given", [3, 4, 5])
def test_forward(mode, dtype, given):
    inputs = arrays(dtype, (2, 3))[:given]
    y = run(mode, ops.quant_matmul, inputs)
    assert dtype_name(y) == dtype
    exact = [numpy(value) for value in inputs]
    assert_accurate(numpy(y), reference.forward(*exact), dtype, 4 * np.abs(reference.forward(*exact[:4])))


BAD = [
    ([(2, 64), (5, 32), (5,)], "weight.shape[1] must equal x.shape[-1] (64), got (5, 32)"),
    ([(2, 64), (5, 64), (4,)], "scale.shape[0] must equal weight.shape[0] (5), got (4,)"),
    ([(2, 131072), (1, 131072), (1,)], "x.shape[-1] must be at most 131071, got (2, 131072)"),
]


@pytest.mark.parametrize(("shapes", "message"), BAD)
def test_shapes_that_do_not_fit(shapes, message):
    dtypes = (ms.int8, ms.int8, ms.float16)
    inputs = [Tensor(np.zeros(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    with pytest.raises(ValueError, match="^quant_matmul: .*" + re.escape(message)):
        ops.quant_matmul(*inputs)


def test_floats_are_refused():
    x, weight, scale = arrays("float32", (2,))[:3]
    with pytest.raises(TypeError, match=r"^quant_matmul: x.dtype must be int8, got float32"):
        ops.quant_matmul(x.astype(ms.float32), weight, scale)


def test_it_has_no_gradient():
    x, weight, scale = arrays("float32", (2,))[:3]
    with pytest.raises(RuntimeError, match="quant_matmul: it has no gradient"):
        ms.grad(lambda scale: ops.quant_matmul(x, weight, scale).sum())(scale)
