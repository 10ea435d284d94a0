import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import weight_quant_matmul, weight_quant_swiglu
from tests.tensors import dtype_name, numpy, tensor

SHAPES = (((2, 96), ms.float32), ((4, 96), ms.int8), ((4, 12), ms.float16))
TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float16")]


def arrays(types, rows, bits=4, n=10, k=64):
    rng = np.random.default_rng(0)
    factors = (2 * n, k // 32)
    return [
        tensor(draw(rng, (*rows, k)), types[0]),
        Tensor(rng.integers(-128, 128, (2 * n, k * bits // 8)).astype(np.int8)),
        tensor(rng.uniform(0.5, 1.5, factors) / (8 * 2**bits), types[1]),
        tensor(rng.integers(-8, 9, factors), types[1]),
        tensor(draw(rng, (2 * n,)), "float32"),
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize(("rows", "bits"), [((2,), 4), ((3, 5), 8)])
def test_forward(mode, types, rows, bits):
    inputs = arrays(types, rows, bits)
    y = run(mode, ops.weight_quant_swiglu, inputs)
    assert dtype_name(y) == types[0]
    exact = [numpy(value) for value in inputs]
    gate, up = np.split(weight_quant_matmul.product(*exact), 2, axis=-1)
    terms = np.abs(exact[0]) @ np.abs(weight_quant_matmul.dequantised(*exact[1:4], 64)).T
    gate_terms, up_terms = np.split(terms, 2, axis=-1)
    rounding = {"float16": 2.0**11, "bfloat16": 2.0**14, "float32": 1}[types[0]]
    terms = (1.1 * gate_terms * np.abs(up) + np.abs(gate) * up_terms) * (8 + rounding)
    assert_accurate(numpy(y), weight_quant_swiglu.forward(*exact), types[0], terms)


def test_shapes_that_do_not_fit():
    x, weight, scale = arrays(("float32", "float32"), (2,))[:3]
    zeros = [Tensor(np.zeros(shape), dtype) for shape, dtype in SHAPES]
    with pytest.raises(ValueError, match=r"^weight_quant_swiglu: weight.shape\[0\] must be even"):
        ops.weight_quant_swiglu(x, weight[:5], scale[:5])
    with pytest.raises(ValueError, match=r"^weight_quant_swiglu: a group must have a multiple of 16 elements"):
        ops.weight_quant_swiglu(*zeros)


def test_it_has_no_gradient():
    inputs = arrays(("float32", "float32"), (2,))
    with pytest.raises(RuntimeError, match="weight_quant_swiglu: it has no gradient"):
        ms.grad(lambda x: ops.weight_quant_swiglu(x, *inputs[1:]).sum())(inputs[0])
