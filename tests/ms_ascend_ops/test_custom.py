import copy
from concurrent.futures import ThreadPoolExecutor

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import custom, ops
from ms_ascend_ops.custom import Selector
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.reference import swiglu as reference
from tests.tensors import numpy, tensor


@pytest.fixture
def x():
    return tensor(draw(np.random.default_rng(0), (3, 8)), "float32")


def test_one_primitive_for_each_set_of_attributes(x):
    select = Selector("swiglu")
    assert select(x, -1, False) is select(x, -1, False)
    assert select(x, -1, False) is not select(x, 1, False)


def test_equal_values_of_other_types_are_still_refused(x):
    select = Selector("swiglu")
    select(x, 1, False)
    with pytest.raises(TypeError, match=r"^swiglu: axis must be an int, got bool"):
        select(x, True, False)


def test_a_cell_that_holds_a_primitive_can_be_copied(x):
    class Holder(nn.Cell):
        def __init__(self):
            super().__init__()
            self.primitive = Selector("swiglu")(x, -1, False)

        def construct(self, x):
            return self.primitive(x)

    holder = Holder()
    assert np.array_equal(numpy(copy.deepcopy(holder)(x)), numpy(holder(x)))


def test_an_operator_without_gradient_says_so(x):
    def twice(x):
        return ms.grad(lambda t: ops.swiglu(t).sum())(x).sum()

    with pytest.raises(RuntimeError, match="bprop not defined"):
        ms.grad(twice)(x)


def test_another_device_target_is_refused(monkeypatch, x):
    monkeypatch.setattr(custom, "device_target", lambda: "GPU")
    with pytest.raises(RuntimeError, match=r"^swiglu: device_target must be CPU or Ascend, got GPU"):
        Selector("swiglu")(x, -1, False)


def test_calls_from_several_threads():
    def run(seed):
        x = tensor(draw(np.random.default_rng(seed), (30, 40)), "float32")
        assert_accurate(numpy(ops.swiglu(x, seed % 2)), reference.forward(numpy(x), seed % 2), "float32")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(300)))


def test_views_and_slices(x):
    """What MindSpore hands over is contiguous, whatever view it came from."""
    transposed = x.T.reshape(4, 6)
    assert_accurate(numpy(ops.swiglu(transposed)), reference.forward(numpy(x).T.reshape(4, 6)), "float32")
    assert_accurate(numpy(ops.swiglu(x[:, 2:6])), reference.forward(numpy(x)[:, 2:6]), "float32")
    assert_accurate(numpy(ops.swiglu(x.swapaxes(0, 1), 0)), reference.forward(numpy(x).T, 0), "float32")
    assert_accurate(
        numpy(ops.swiglu(Tensor(numpy(x)[::2].astype(np.float32)))), reference.forward(numpy(x)[::2]), "float32"
    )
