import copy

import numpy as np
import pytest

from ms_ascend_ops import GEGLU
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import geglu, gelu_mul
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
def test_one_tensor(mode):
    x = tensor(draw(np.random.default_rng(0), (2, 6, 5)), "float32")
    y = run(mode, GEGLU(1, True, "tanh"), (x,))
    assert_accurate(numpy(y), geglu.forward(numpy(x), 1, True, "tanh"), "float32")


@pytest.mark.parametrize("mode", MODES)
def test_two_tensors(mode):
    rng = np.random.default_rng(0)
    gate, up = (tensor(draw(rng, (2, 5)), "float32") for _ in range(2))
    assert_accurate(numpy(run(mode, GEGLU(), (gate, up))), gelu_mul.forward(numpy(gate), numpy(up)), "float32")


def test_deepcopy():
    x = tensor(draw(np.random.default_rng(0), (2, 6)), "float32")
    assert np.array_equal(numpy(copy.deepcopy(GEGLU())(x)), numpy(GEGLU()(x)))


def test_repr():
    assert repr(GEGLU(1, True)) == "GEGLU(axis=1, activate_left=True, approximate='none')"


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"^GEGLU: axis must be an int, got str"):
        GEGLU(axis="last")
    with pytest.raises(ValueError, match=r"^GEGLU: approximate must be 'none' or 'tanh', got 'erf'"):
        GEGLU(approximate="erf")
