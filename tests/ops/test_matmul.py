import re
from itertools import product

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate, assert_close
from tests.inputs import draw
from tests.modes import last_compiled, run
from tests.reference import matmul as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]


@pytest.mark.parametrize(("mode", "types", "activation"), last_compiled(list(product(TYPES, reference.ACTIVATIONS))))
def test_forward_and_gradient(mode, types, activation):
    rng = np.random.default_rng(0)
    x, weight = (tensor(draw(rng, shape) / 3, types[0]) for shape in ((2, 3, 8), (4, 8)))
    bias, dy = tensor(draw(rng, (4,)), types[1]), tensor(draw(rng, (2, 3, 4)), "float32")
    y = run(mode, ops.matmul, (x, weight, bias), False, True, activation)
    exact = [numpy(value) for value in (x, weight, bias)]
    terms = reference.forward(*map(np.abs, exact), transpose_weight=True)
    assert dtype_name(y) == types[0]
    golden = reference.forward(*exact, transpose_weight=True, activation=activation)
    assert_accurate(numpy(y), golden, types[0], 8 * terms)

    def weighted(x, weight, bias, dy):
        return (ops.matmul(x, weight, bias, False, True, activation).astype(ms.float32) * dy).sum()

    gradients = run(mode, ms.grad(weighted, (0, 1, 2)), (x, weight, bias, dy))
    for place, gradient in enumerate(gradients):
        expected = np.zeros(exact[place].shape)
        for i in np.ndindex(expected.shape):
            sums = []
            for step in (1e-5, -1e-5):
                moved = [value.copy() for value in exact]
                moved[place][i] += step
                sums.append((reference.forward(*moved, transpose_weight=True, activation=activation) * numpy(dy)).sum())
            expected[i] = (sums[0] - sums[1]) / 2e-5
        # dy and the product are rounded to the dtype on the way.
        tolerance = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 8e-2}[types[0]]
        np.testing.assert_allclose(numpy(gradient), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize(("transpose_x", "transpose_weight", "batched"), list(product((False, True), repeat=3)))
def test_gradients_of_transposes(transpose_x, transpose_weight, batched):
    rng = np.random.default_rng(0)
    x, weight, dy = draw(rng, (3, 4, 5)), draw(rng, (3, 5, 6) if batched else (5, 6)), draw(rng, (3, 4, 6))
    dx, dweight = dy @ weight.swapaxes(-1, -2), x.swapaxes(-1, -2) @ dy
    dweight = dweight if batched else dweight.sum(0)

    def swapped(value, transposed):
        return value.swapaxes(-1, -2) if transposed else value

    inputs = [tensor(swapped(x, transpose_x), "float32"), tensor(swapped(weight, transpose_weight), "float32")]
    seen = tensor(dy, "float32")
    gradients = ms.grad(lambda x, w: (ops.matmul(x, w, None, transpose_x, transpose_weight) * seen).sum(), (0, 1))(
        *inputs
    )
    assert_close(numpy(gradients[0]), swapped(dx, transpose_x), rtol=1e-4, atol=1e-5)
    assert_close(numpy(gradients[1]), swapped(dweight, transpose_weight), rtol=1e-4, atol=1e-5)


BAD = [
    ([(3, 4), (5, 6), (6,)], "none", "weight.shape[-2] must equal x.shape[-1] (4), got (5, 6)"),
    ([(3, 4), (4, 6), (5,)], "none", "bias.shape[0] must equal weight.shape[-1] (6), got (5,)"),
    ([(2, 3, 4), (3, 4, 6), (6,)], "none", "weight.shape"),
    ([(4,), (4, 6), (6,)], "none", "x must have at least 2 dims, got shape (4,)"),
    ([(3, 4), (4, 6), (6,)], "tanh", "activation must be"),
]


@pytest.mark.parametrize(("shapes", "activation", "message"), BAD)
def test_bad_input(shapes, activation, message):
    tensors = [Tensor(np.zeros(shape, np.float32)) for shape in shapes]
    with pytest.raises(ValueError, match=re.escape("matmul: ") + ".*" + re.escape(message)):
        run("pynative", ops.matmul, tensors, False, False, activation)


def test_weights_for_another_batch():
    x, weight = Tensor(np.zeros((2, 3, 4), np.float32)), Tensor(np.zeros((1, 4, 6), np.float32))
    with pytest.raises(ValueError, match=r"matmul: weight.shape\[:-2\] must be that of x \(2,\), or be empty"):
        ops.matmul(x, weight)
