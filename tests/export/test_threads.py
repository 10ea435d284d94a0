"""What the threads of PyNative, which other tests of this folder do without, make of a formula."""

import numpy as np
from mindspore import Tensor, nn, ops

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.export.test_equivalent_forms import EPSILON, STANDARD, TOLERANCE, D, Scores, X, with_ones
from tests.tensors import numpy, tensor


class Held(nn.Cell):
    """The vectors of a norm are the cell's own, and may change."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = Tensor(np.ones(D, np.float32)), Tensor(np.zeros(D, np.float32))

    def construct(self, x):
        return ops.LayerNorm(-1, -1, EPSILON)(x, self.scale, self.shift)[0]


def test_ones_that_pynative_does_not_show():
    """With its threads MindSpore calls no dispatch for `ops.ones`; a vector that the cell holds is another matter."""
    x = tensor(X, "float32")
    assert len(optimize(nn.SequentialCell([Scores(with_ones)]), verify=[x], engines=["cell"]).replaced) == 1
    network = nn.SequentialCell([Held()])
    optimize(network, verify=[x], engines=["cell"])
    network[0].scale = Tensor(np.full(D, 2, np.float32))
    assert_close(numpy(network(x)), 2 * STANDARD[2], rtol=TOLERANCE, atol=TOLERANCE)
