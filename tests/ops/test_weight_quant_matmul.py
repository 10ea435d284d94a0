import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate, assert_close
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import weight_quant_matmul as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float16")]


def arrays(types, rows, bits=4, n=10, k=64):
    rng = np.random.default_rng(0)
    factors = (n, k // 32)
    return [
        tensor(draw(rng, (*rows, k)), types[0]),
        Tensor(rng.integers(-128, 128, (n, k * bits // 8)).astype(np.int8)),
        tensor(rng.uniform(0.5, 1.5, factors) / 2**bits, types[1]),
        tensor(rng.integers(-8, 9, factors), types[1]),
        tensor(draw(rng, (n,)), "float32"),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize(("rows", "bits"), [((2,), 4), ((3, 5), 8)])
def test_forward(mode, types, rows, bits):
    inputs = arrays(types, rows, bits)
    y = run(mode, ops.weight_quant_matmul, inputs)
    assert dtype_name(y) == types[0]
    exact = [numpy(value) for value in inputs]
    terms = np.abs(exact[0]) @ np.abs(reference.dequantised(*exact[1:4], 64)).T
    rounding = {"float16": 2.0**11, "bfloat16": 2.0**14, "float32": 1}[types[0]]
    assert_accurate(numpy(y), reference.forward(*exact), types[0], terms * (8 + rounding))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu"])
def test_activations(mode, activation):
    inputs = arrays(("float32", "float32"), (2,))

    def activated(x, weight, scale, offset, bias):
        return ops.weight_quant_matmul(x, weight, scale, offset, bias, activation)

    y = run(mode, activated, inputs)
    golden = reference.forward(*(numpy(value) for value in inputs), activation)
    assert_close(numpy(y), golden, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_offset_and_bias_may_be_absent(mode):
    x, weight, scale, _, _ = arrays(("float32", "float32"), (2,))
    y = run(mode, ops.weight_quant_matmul, (x, weight, scale))
    golden = reference.forward(*(numpy(value) for value in (x, weight, scale)))
    assert_close(numpy(y), golden, rtol=1e-4, atol=1e-5)


BAD = [
    ([(2, 96), (5, 32), (5, 1)], "weight.shape[-1] must be x.shape[-1] (8 bits) or half of that (4 bits)"),
    ([(2, 96), (5, 96), (5, 6)], "a group must have a multiple of 32 elements, or be a whole row, got 6 groups of 16"),
    ([(2, 64), (5, 64), (4, 2)], "scale.shape[0] must equal weight.shape[0] (5), got (4, 2)"),
    ([(2, 65), (5, 32), (5, 1)], "x.shape[-1] must be a multiple of weight.shape[1] (32), got 65"),
]


@pytest.mark.parametrize(("shapes", "message"), BAD)
def test_shapes_that_do_not_fit(shapes, message):
    dtypes = (ms.float32, ms.int8, ms.float16)
    inputs = [Tensor(np.zeros(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    with pytest.raises(ValueError, match="^weight_quant_matmul: .*" + re.escape(message)):
        ops.weight_quant_matmul(*inputs)


def test_a_weight_of_floats_is_refused():
    x, _, scale, _, _ = arrays(("float32", "float32"), (2,))
    with pytest.raises(TypeError, match=r"^weight_quant_matmul: weight.dtype must be int8, got float32"):
        ops.weight_quant_matmul(x, Tensor(np.zeros((10, 64)), ms.float32), scale)


def test_it_has_no_gradient():
    inputs = arrays(("float32", "float32"), (2,))
    with pytest.raises(RuntimeError, match="weight_quant_matmul: it has no gradient"):
        ms.grad(lambda x: ops.weight_quant_matmul(x, *inputs[1:]).sum())(inputs[0])
