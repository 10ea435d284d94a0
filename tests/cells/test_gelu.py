import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import GELU
from tests.acceptance import assert_accurate, assert_close
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import gelu as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("approximate", "form"), [(True, "tanh"), (False, "none")])
def test_takes_the_argument_of_the_stock_layer(mode, approximate, form):
    x = tensor(draw(np.random.default_rng(0), (2, 6, 5)), "float32")
    y = numpy(run(mode, GELU(approximate), (x,)))
    assert_accurate(y, reference.forward(numpy(x), form), "float32")
    assert_close(y, numpy(nn.GELU(approximate)(x)), atol=1e-5)


def test_the_default_is_that_of_the_stock_layer():
    x = tensor(np.linspace(-3, 3, 61), "float32")
    assert GELU().approximate
    assert_close(numpy(GELU()(x)), numpy(nn.GELU()(x)), rtol=0, atol=1e-6)
    assert not np.allclose(numpy(GELU(False)(x)), numpy(nn.GELU()(x)), rtol=0, atol=1e-6)


def test_repr():
    assert repr(GELU(False)) == "GELU(approximate=False)"


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"^GELU: approximate must be a bool, got str"):
        GELU("tanh")
