"""linear_silu_mul and linear_gelu_mul, which share all but the activation."""

import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import linear_gelu_mul, linear_silu_mul
from tests.tensors import dtype_name, numpy, tensor

FORMS = {  # function, its reference, attributes
    "silu": (ops.linear_silu_mul, linear_silu_mul, ()),
    "gelu": (ops.linear_gelu_mul, linear_gelu_mul, ("none",)),
    "tanh": (ops.linear_gelu_mul, linear_gelu_mul, ("tanh",)),
}
ROWS = [(2, 5), (6,), ()]  # dims of x but the last


@pytest.mark.parametrize(("mode", "dtype", "form", "rows"), combinations(FLOATS, list(FORMS), ROWS))
def test_forward_and_gradient(mode, dtype, form, rows):
    function, reference, attributes = FORMS[form]
    rng = np.random.default_rng(0)
    inputs = [tensor(draw(rng, shape) / 3, dtype) for shape in ((*rows, 16), (8, 16), (8, 16))]
    exact = [numpy(value) for value in inputs]
    y = run(mode, function, inputs, *attributes)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(*exact, *attributes), dtype, 8 * reference.forward_terms(*exact))

    def weighted(x, gate_weight, up_weight, dy):
        return (function(x, gate_weight, up_weight, *attributes).astype(ms.float32) * dy).sum()

    dy = tensor(draw(rng, (*rows, 8)), "float32")
    gradients = run(mode, ms.grad(weighted, (0, 1, 2)), (*inputs, dy))
    for gradient, like, golden in zip(
        gradients, inputs, reference.backward(numpy(dy), *exact, *attributes), strict=True
    ):
        assert (dtype_name(gradient), gradient.shape) == (dtype, like.shape)
        # dy, both products and their gradients are rounded to the dtype on the way.
        tolerance = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}[dtype]
        np.testing.assert_allclose(numpy(gradient), golden, rtol=tolerance, atol=tolerance * np.abs(golden).max())


BAD = [
    ([(3, 4), (6, 5), (6, 4)], ("none",), "gate_weight.shape[1] must equal x.shape[-1] (4), got (6, 5)"),
    ([(3, 4), (6, 4), (6, 5)], ("none",), "up_weight.shape[1] must equal x.shape[-1] (4), got (6, 5)"),
    ([(3, 4), (6, 4), (5, 4)], ("none",), "up_weight.shape[0] must equal gate_weight.shape[0] (6), got (5, 4)"),
    ([(), (6, 4), (6, 4)], ("none",), "x must have at least 1 dim"),
    ([(3, 4), (6,), (6, 4)], ("none",), "gate_weight must have 2 dims, got shape (6,)"),
    ([(3, 4), (6, 4), (6, 4)], ("erf",), "approximate must be 'none' or 'tanh', got 'erf'"),
]


@pytest.mark.parametrize(("shapes", "attributes", "message"), BAD)
def test_bad_input(shapes, attributes, message):
    tensors = [Tensor(np.zeros(shape, np.float32)) for shape in shapes]
    with pytest.raises(ValueError, match=f"^linear_gelu_mul: {re.escape(message)}"):
        run("pynative", ops.linear_gelu_mul, tensors, *attributes)
    if attributes == ("none",):
        with pytest.raises(ValueError, match=f"^linear_silu_mul: {re.escape(message)}"):
            run("pynative", ops.linear_silu_mul, tensors)


def test_weights_of_another_dtype():
    x, weight = Tensor(np.zeros((3, 4), np.float32)), Tensor(np.zeros((6, 4), np.float16))
    with pytest.raises(TypeError, match=r"^linear_silu_mul: gate_weight.dtype must be float32 when x.dtype is float32"):
        ops.linear_silu_mul(x, weight, weight)
