import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from ms_ascend_ops.sliced import SlicedPattern
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import sliced_sparse_matmul as reference
from tests.tensors import numpy, tensor

COUNTS, COLUMNS = [3, 0, 5, 1] * 20, 9


def tensors(dtype, rows=2):
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(COUNTS)])
    chosen = np.concatenate([np.sort(rng.choice(COLUMNS, count, replace=False)) for count in COUNTS])
    pattern = SlicedPattern.of(indptr, chosen, COLUMNS, 2)
    values = pattern.with_values(tensor(draw(rng, (len(chosen),)), dtype))
    whole = [Tensor(np.ascontiguousarray(array)) for array in (*pattern[:2], *pattern[3:])]
    return [tensor(draw(rng, (rows, COLUMNS)), dtype), *whole[:2], values, *whole[2:]]


@pytest.mark.parametrize(("mode", "dtype"), combinations(FLOATS))
def test_product(mode, dtype):
    given = tensors(dtype)
    y = run(mode, ops.sliced_sparse_matmul, given)
    exact = [numpy(value) for value in given]
    assert_accurate(numpy(y), reference.forward(*exact), dtype, reference.forward_terms(*exact))


def test_it_has_no_gradient():
    x, *rest = tensors("float32")
    with pytest.raises(RuntimeError, match=r"sliced_sparse_matmul: it has no gradient.*sparse_matmul has one"):
        ms.grad(lambda x: ops.sliced_sparse_matmul(x, *rest).sum())(x)


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        (0, np.zeros((2, 9), np.float64), TypeError, "x"),
        (2, np.zeros((3, 64), np.int64), TypeError, "indices"),
        (2, np.zeros((3, 32), np.int32), ValueError, "indices"),
        (3, np.zeros((3, 64), np.float16), TypeError, "values"),
        (0, np.zeros((1, 28673), np.float32), ValueError, "must be at most 28672"),
    ],
)
def test_bad_input(place, value, error, message):
    given = tensors("float32")
    given[place] = Tensor(value)
    with pytest.raises(error, match=message):
        ops.sliced_sparse_matmul(*given)
