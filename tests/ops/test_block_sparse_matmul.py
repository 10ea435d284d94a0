import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import block_sparse_matmul as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize(("mode", "dtype"), combinations(FLOATS))
def test_product_and_gradients(mode, dtype):
    rng = np.random.default_rng(0)
    pattern = np.array([2, 2, 3], np.int32), np.array([0, 3, 1], np.int32)
    blocks, dense = tensor(draw(rng, (3, 16, 16)) / 4, dtype), tensor(draw(rng, (64, 5)), dtype)
    tensors = (*map(Tensor, pattern), blocks, dense)
    exact = (*pattern, numpy(blocks), numpy(dense))
    y = run(mode, ops.block_sparse_matmul, tensors)
    assert_accurate(numpy(y), reference.forward(*exact), dtype, reference.forward_terms(*exact))
    dy = tensor(draw(rng, y.shape), dtype)

    def weighted(row_ends, indices, blocks, dense, dy):
        y = ops.block_sparse_matmul(row_ends, indices, blocks, dense)
        return (y.astype(ms.float32) * dy.astype(ms.float32)).sum()

    gradients = run(mode, ms.grad(weighted, (2, 3)), (*tensors, dy))
    expected, terms = reference.backward(numpy(dy), *exact), reference.backward_terms(numpy(dy), *exact)
    for gradient, value, term in zip(gradients, expected, terms, strict=True):
        assert_accurate(numpy(gradient), value, dtype, term)
