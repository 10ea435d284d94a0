"""The smaller inputs on which `optimize` tries a cell: of the same form, and only where it then does the same."""

import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.engines.cell_engine import Target, smaller
from ms_ascend_ops.export.graphs.specs import Spec
from ms_ascend_ops.export.matching.patterns import PATTERNS

from ms_ascend_ops import optimize
from tests.acceptance import assert_close


def shapes(cell, *inputs, returns=()):
    found = {id(child): Spec(shape, "float32") for child, shape in returns}
    given = {f"x{i}": Spec(shape, "float32") for i, shape in enumerate(inputs)}
    made = smaller(Target(cell, PATTERNS, "O2", found), given)
    return made and [spec.shape for spec in (*made[1].values(), *made[0].returns.values())]


def test_images_shrink_together_with_what_comes_of_them():
    net = nn.SequentialCell(nn.Conv2d(8, 24, 3, 2), nn.GELU())
    first, inner = shapes(net, (1, 8, 112, 112), returns=[(net[0], (1, 24, 56, 56))])
    assert first[:2] == (1, 8)
    assert inner[:2] == (1, 24)
    assert first[2] == first[3] == 2 * inner[2] == 2 * inner[3] < 112


@pytest.mark.parametrize("shape", [(2, 3, 8), (1, 197, 192), (1, 3, 113, 113)])
def test_what_is_small_or_has_no_common_factor_stays(shape):
    assert shapes(nn.LayerNorm((shape[-1],)), shape) is None


def test_sizes_of_different_axes_stay_different():
    (made,) = shapes(nn.GELU(), (3, 96, 48, 64))
    assert len(set(made)) == 4


class OfOneSize(nn.Cell):
    """Works for one size only, which its source has."""

    def construct(self, x):
        return ops.gelu(x.reshape(2, 64, 4, 32), approximate="tanh").reshape(2, 64, 128)


def test_a_cell_that_takes_one_size_is_replaced_all_the_same():
    x = Tensor(np.random.default_rng(0).normal(size=(2, 64, 128)).astype(np.float32))
    net = OfOneSize()
    before = net(x).asnumpy()
    assert [entry.pattern for entry in optimize(net, verify=[x]).replaced] == ["GELU"]
    assert_close(net(x).asnumpy(), before, rtol=1e-4, atol=1e-5)
