import numpy as np
import pytest

from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import block_sparse_matmul as reference

CASES = [  # blocks of each row of blocks; rows of blocks and columns of the dense factor
    ([1], 1, 1),
    ([2, 0, 3, 1], 4, 33),  # an empty row, tails of blocks
    ([40, 1, 0], 40, 70),  # a row of many tasks
    ([3, 1], 3, 2100),  # several products and tiles each way
    ([0, 0], 2, 8),  # no blocks
    ([2, 1], 3, 0),  # no columns
]


def arrays(rng, counts, inner, cols):
    indices = [column for count in counts for column in sorted(rng.choice(inner, count, replace=False))]
    blocks = draw(rng, (len(indices), 16, 16)) / max(1, 16 * max(counts)) ** 0.5
    return np.cumsum(counts, dtype=int), np.array(indices, dtype=int), blocks, draw(rng, (16 * inner, cols))


def multiply(inputs, dtype):
    return launch("block_sparse_matmul", inputs, ["int32", "int32", dtype, dtype])


def gradient(inputs, dtype):
    return launch("block_sparse_matmul_grad", inputs, [dtype, "int32", "int32", dtype])


@cover("case", CASES, dtype=FLOATS)
def test_product_and_gradient(case, dtype):
    rng = np.random.default_rng(sum(case[0]) + case[2])
    ends, indices, blocks, dense = arrays(rng, *case)
    (y,), rounded = multiply([ends, indices, blocks, dense], dtype)
    assert_accurate(y, reference.forward(*rounded), dtype, reference.forward_terms(*rounded))
    dy = draw(rng, y.shape)
    (dblocks,), rounded = gradient([dy, ends, indices, dense], dtype)
    terms = 8 * reference.backward_blocks(np.abs(rounded[0]), *rounded[1:3], np.abs(rounded[3]))
    assert_accurate(dblocks, reference.backward_blocks(*rounded), dtype, terms)


@pytest.mark.parametrize(("ends", "indices"), [([2, 1], [0, 0]), ([1, 3], [0, 0]), ([1, 2], [0, 3]), ([1, 2], [-1, 0])])
def test_patterns_that_are_wrong(ends, indices):
    dense = np.ones((48, 6))
    with pytest.raises(RuntimeError, match="block_sparse_matmul"):
        multiply([ends, indices, np.ones((2, 16, 16)), dense], "float32")
    with pytest.raises(RuntimeError, match="block_sparse_matmul_grad"):
        gradient([np.ones((32, 6)), ends, indices, dense], "float32")
