from importlib import import_module
from math import inf

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import sparse
from ms_ascend_ops.sparse import BSR, CSR, METHODS, THRESHOLDS
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.tensors import dtype_name, numpy, tensor

ENDS, INDICES = np.array([2, 2, 5, 6], np.int32), np.array([0, 4, 1, 2, 4, 4], np.int32)


def test_the_transposed_pattern_does_not_ask_for_a_side(monkeypatch):
    """MindSpore up to 2.9 gives the answer of whichever side the process has asked for first."""
    module = import_module("ms_ascend_ops.ops.sparse_matmul")  # the package has the function under that name
    column_of = np.argsort(INDICES, kind="stable")
    for right in (False, True):

        def one_side(values, bounds, right=right, **_):
            return Tensor(np.searchsorted(values.asnumpy(), bounds.asnumpy(), "right" if right else "left"))

        monkeypatch.setattr(module.stock, "searchsorted", one_side)
        ends, rows, order = module.transposed_pattern(Tensor(ENDS), Tensor(INDICES), Tensor(np.zeros(6, np.int32)))
        np.testing.assert_array_equal(ends.asnumpy(), np.searchsorted(np.sort(INDICES), np.arange(6), "right"))
        np.testing.assert_array_equal(order.asnumpy(), column_of)
        np.testing.assert_array_equal(rows.asnumpy(), np.searchsorted(ENDS, column_of, "right"))


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


@pytest.mark.parametrize("dtype", FLOATS)
def test_all_ways_agree(dtype):
    """Also in their gradients, and for sizes that are no multiples of 16."""
    rng = np.random.default_rng(0)
    weight = draw(rng, (37, 50)) * (rng.uniform(size=(37, 50)) < 0.2)
    weight[5:30] = 0
    matrix = CSR.of(tensor(weight, dtype))
    dense, dy = tensor(draw(rng, (50, 9)), dtype), tensor(draw(rng, (37, 9)), dtype)
    exact = numpy(matrix.to_dense())
    rows, columns = np.nonzero(exact)
    terms = np.abs(exact) @ np.abs(numpy(dense))

    for method in METHODS:

        def weighted(values, dense, method=method):
            y = matrix._replace(values=values).matmul(dense, method)
            return (y.astype(ms.float32) * dy.astype(ms.float32)).sum()

        assert_accurate(numpy(matrix.matmul(dense, method)), exact @ numpy(dense), dtype, 8 * terms)
        dvalues, ddense = ms.grad(weighted, (0, 1))(matrix.values, dense)
        expected = (numpy(dy) @ numpy(dense).T)[rows, columns]
        sizes = (np.abs(numpy(dy)) @ np.abs(numpy(dense)).T)[rows, columns]
        assert_accurate(numpy(dvalues), expected, dtype, 8 * sizes)
        assert_accurate(numpy(ddense), exact.T @ numpy(dy), dtype, 8 * np.abs(exact).T @ np.abs(numpy(dy)))


@pytest.mark.parametrize(
    ("target", "limits"), [(target, limits) for target, rows in THRESHOLDS.items() for limits in rows]
)
def test_the_table_chooses(target, limits):
    """Each method on its side of a threshold."""
    rng = np.random.default_rng(0)
    columns = int(min(limits.columns, 4096))
    many = "many" if limits.columns == inf else f"up to {limits.columns}"

    def chosen(matrix):
        return CSR.of(matrix.astype(np.float32)).method(columns, target)

    def in_blocks(count):
        return np.kron(np.arange(100).reshape(10, 10) < count, np.ones((16, 16)))

    assert chosen(rng.uniform(size=(160, 160)) < limits.direct * 0.8).name == "direct"
    if limits.blocks:
        assert chosen(in_blocks(limits.blocks * 100)).name == "blocks"
        assert chosen(in_blocks(limits.blocks * 100 + 1)).name == "dense"
    method = chosen(rng.uniform(size=(160, 160)) < 0.9)
    assert method.name == "dense"
    assert f"more than {limits.direct:.1%}, on {target} with {many} columns" in method.why


def test_values_that_are_trained_are_not_kept_in_slices():
    """Nor those of a matrix that the Unified Buffer has no room for."""
    matrix, dense = csr(), tensor(np.ones((5, 1)), "float32")
    assert matrix.matmul(dense, "sliced").shape == (4, 1)
    trained = matrix._replace(values=ms.Parameter(matrix.values))
    pointers, columns = Tensor(np.array([0, 1], np.int32)), Tensor(np.array([40000], np.int32))
    long = CSR(pointers, columns, tensor(np.ones(1), "float32"), (1, 40001))
    for found, factor in ((trained, dense), (long, tensor(np.ones((40001, 1)), "float32"))):
        with pytest.raises(
            ValueError, match=r"CSR: a matrix of shape .* is too large for rows in slices, or has Param"
        ):
            found.matmul(factor, "sliced")


def test_ways_that_there_are_not():
    with pytest.raises(ValueError, match="CSR: method must be one of sliced, direct, blocks, dense, got best"):
        csr().matmul(tensor(np.ones((5, 3)), "float32"), "best")
    with pytest.raises(ValueError, match="CSR: target must be one of CPU, Ascend, got GPU"):
        csr().method(3, "GPU")


def test_matrices_by_blocks():
    sparse = pytest.importorskip("scipy.sparse")
    dense = np.zeros((40, 50), np.float32)
    dense[3, 20], dense[39, 49], dense[17, 0] = 1, 2, 3
    other = draw(np.random.default_rng(0), (50, 3)).astype(np.float32)
    padded = np.pad(dense, ((0, 8), (0, 14)))
    found = BSR.of(sparse.bsr_matrix(padded, blocksize=(16, 16)))
    np.testing.assert_array_equal(numpy(found.to_dense()), padded)
    for source in (dense, tensor(dense, "float32"), sparse.coo_matrix(dense), CSR.of(dense), BSR.of(dense)):
        found = BSR.of(source)
        assert found.indices.asnumpy().tolist() == [1, 0, 3]
        np.testing.assert_array_equal(numpy(found.to_dense()), dense)
        np.testing.assert_allclose(numpy(found.matmul(Tensor(other))), dense @ other, rtol=1e-5)
    assert BSR.of(np.zeros((20, 20), np.float32)).matmul(Tensor(np.ones((20, 2), np.float32))).asnumpy().max() == 0


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"indices": [1, 0, 2]}, "row 0 are not sorted"),
        ({"indices": [0, 0, 2]}, "row 0 are repeated"),
        ({"indices": [0, 1, 3]}, "from 0 to 2, got 3 at 2"),
        ({"indptr": [0, 2, 1, 3]}, "must not fall"),
        ({"indptr": [0, 2, 3]}, "one more than rows"),
        ({"values": np.ones((3, 16, 8))}, r"shape \(z, 16, 16\)"),
    ],
)
def test_blocks_that_are_wrong(changed, says):
    found = {"indptr": [0, 2, 2, 3], "indices": [0, 1, 2], "values": np.ones((3, 16, 16))} | changed
    dtypes = {"values": np.float32}
    tensors = {name: Tensor(np.array(array, dtypes.get(name, np.int32))) for name, array in found.items()}
    with pytest.raises(ValueError, match=f"BSR: .*{says}"):
        BSR(**tensors, shape=(40, 48)).check()


def test_blocks_of_another_size_and_dtype():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ValueError, match="BSR: blocks must be of 16 x 16, got 8 x 8"):
        BSR.of(sparse.bsr_matrix(np.ones((16, 16)), blocksize=(8, 8)))
    with pytest.raises(TypeError, match="BSR: values must be float16"):
        BSR.of(sparse.bsr_matrix(np.ones((16, 16), np.int32), blocksize=(16, 16)))
    with pytest.raises(ValueError, match=r"BSR: dense must have shape \(16, n\)"):
        BSR.of(np.ones((16, 16), np.float32)).matmul(tensor(np.ones((5, 3)), "float32"))


def test_old_names_still_work():
    matrix = CSR.of(np.eye(4, dtype=np.float32))
    dense = ms.Tensor(np.arange(8, dtype=np.float32).reshape(4, 2))
    with pytest.warns(DeprecationWarning, match=r"CSR\.way is now called CSR\.method"):
        assert matrix.way(2) == matrix.method(2)
    with pytest.warns(DeprecationWarning, match="way is now called method"):
        product = matrix.matmul(dense, way="dense")
    assert (product.asnumpy() == dense.asnumpy()).all()
    with pytest.warns(DeprecationWarning, match=r"sparse\.WAYS is now called sparse\.METHODS"):
        assert sparse.WAYS is METHODS
    with pytest.raises(TypeError, match="give one of them"):
        matrix.matmul(dense, way="dense", method="dense")
