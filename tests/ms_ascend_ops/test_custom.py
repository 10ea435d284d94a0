import copy

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import custom, ops
from ms_ascend_ops.custom import Selector
from tests.inputs import draw
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
