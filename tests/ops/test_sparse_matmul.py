import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from ms_ascend_ops.sparse import CSR
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import sparse_matmul as reference
from tests.tensors import dtype_name, numpy, tensor

ENDS, INDICES = np.array([2, 2, 5, 6], np.int32), np.array([0, 4, 1, 2, 4, 4], np.int32)


@pytest.mark.parametrize(("mode", "dtype"), combinations(FLOATS))
def test_product_and_gradients(mode, dtype):
    rng = np.random.default_rng(0)
    pattern = Tensor(ENDS), Tensor(INDICES)
    values, dense = tensor(draw(rng, (6,)), dtype), tensor(draw(rng, (6, 9)), dtype)
    y = run(mode, ops.sparse_matmul, (*pattern, values, dense))
    exact = [ENDS, INDICES, numpy(values), numpy(dense)]
    sizes = [ENDS, INDICES, np.abs(exact[2]), np.abs(exact[3])]
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y), reference.forward(*exact), dtype, 8 * reference.forward(*sizes))
    dy = tensor(draw(rng, y.shape), dtype)

    def weighted(row_ends, indices, values, dense, dy):
        y = ops.sparse_matmul(row_ends, indices, values, dense)
        return (y.astype(ms.float32) * dy.astype(ms.float32)).sum()

    gradients = run(mode, ms.grad(weighted, (2, 3)), (*pattern, values, dense, dy))
    expected = reference.backward(numpy(dy), *exact)
    terms = reference.backward(np.abs(numpy(dy)), *sizes)
    for gradient, value, term in zip(gradients, expected, terms, strict=True):
        assert_accurate(numpy(gradient), value, dtype, 8 * term)


def test_shapes_and_dtypes_that_are_wrong():
    values, dense = tensor(np.ones(6), "float32"), tensor(np.ones((5, 3)), "float32")
    with pytest.raises(ValueError, match="sparse_matmul"):
        ops.sparse_matmul(Tensor(ENDS), Tensor(INDICES[:5]), values, dense)
    with pytest.raises(TypeError, match="sparse_matmul"):
        ops.sparse_matmul(Tensor(ENDS.astype(np.int64)), Tensor(INDICES), values, dense)
    with pytest.raises(TypeError, match="sparse_matmul"):
        ops.sparse_matmul(Tensor(ENDS), Tensor(INDICES), values, dense.astype(ms.float16))
    with pytest.raises(RuntimeError, match="sparse_matmul"):
        ops.sparse_matmul(Tensor(ENDS), Tensor(INDICES + 1), values, dense).asnumpy()


def csr(**changed):
    found = {
        "indptr": Tensor(np.array([0, 2, 2, 5, 6], np.int32)), "indices": Tensor(INDICES),
        "values": tensor(np.arange(1, 7), "float32"), "shape": (4, 5),
    }  # fmt: skip
    return CSR(**(found | changed))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"indices": [0, 4, 2, 1, 4, 4]}, "row 2 are not sorted, got 2 and then 1"),
        ({"indices": [0, 0, 1, 2, 4, 4]}, "row 0 are repeated"),
        ({"indices": [0, 4, 1, 2, 5, 4]}, "from 0 to 4, got 5 at 4"),
        ({"indices": [0, 4, -1, 2, 4, 4]}, "from 0 to 4, got -1 at 2"),
        ({"indptr": [0, 2, 1, 5, 6]}, "must not fall, got 2 and then 1 for row 1"),
        ({"indptr": [1, 2, 2, 5, 6]}, "must begin with 0"),
        ({"indptr": [0, 2, 2, 5, 5]}, r"end with the number of values \(6\)"),
        ({"indptr": [0, 2, 2, 6]}, "one more than rows"),
        ({"values": [1, 2, 3, 4, 5]}, "one dim of the same size"),
    ],
)
def test_matrices_that_are_wrong(changed, says):
    dtypes = {"values": np.float32}
    tensors = {name: Tensor(np.array(array, dtypes.get(name, np.int32))) for name, array in changed.items()}
    with pytest.raises(ValueError, match=f"CSR: .*{says}"):
        csr(**tensors).check()


def test_dtypes_that_are_wrong():
    with pytest.raises(TypeError, match="CSR: indices must be int32, got Int64"):
        csr(indices=Tensor(INDICES.astype(np.int64))).check()
    with pytest.raises(TypeError, match="CSR: values must be float16"):
        csr(values=Tensor(INDICES)).check()
    with pytest.raises(TypeError, match="CSR: matrix must be"):
        CSR.of([1, 2])
    with pytest.raises(ValueError, match=r"CSR: dense must have shape \(5, n\)"):
        csr().matmul(tensor(np.ones((4, 5)), "float32"))


def test_where_matrices_come_from():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = csr()
    matrix.check()
    dense = numpy(matrix.to_dense())
    rows, columns = np.nonzero(dense)
    coo = ms.COOTensor(
        Tensor(np.stack((rows, columns), 1).astype(np.int32)[::-1].copy()),
        Tensor(dense[rows, columns].astype(np.float32)[::-1].copy()), (4, 5),
    )  # fmt: skip
    duplicates = sparse.coo_matrix(([1.0, 2.0, 3.0], ([0, 0, 2], [1, 1, 0])), (3, 2))
    assert numpy(CSR.of(duplicates).to_dense()).tolist() == [[0, 3], [0, 0], [3, 0]]
    sources = [
        matrix, dense.astype(np.float32), tensor(dense, "float32"), sparse.csr_matrix(dense), sparse.csc_array(dense),
        coo, ms.CSRTensor(matrix.indptr, matrix.indices, matrix.values, matrix.shape),
    ]  # fmt: skip
    for source in sources:
        found = CSR.of(source)
        assert found.shape == (4, 5)
        np.testing.assert_array_equal(numpy(found.to_dense()), dense)
        np.testing.assert_array_equal(numpy(found.transposed().to_dense()), dense.T)
        np.testing.assert_array_equal(found.to_scipy().toarray(), dense)
    other = draw(np.random.default_rng(0), (5, 3)).astype(np.float32)
    np.testing.assert_allclose(numpy(matrix.matmul(Tensor(other))), dense @ other, rtol=1e-5)
    assert dtype_name(CSR.of(dense, ms.bfloat16).values) == "bfloat16"
    assert matrix.density == 0.3
