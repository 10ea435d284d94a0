from itertools import product

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import ops
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.tensors import numpy, tensor


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
