import copy

import numpy as np
import pytest

from ms_ascend_ops import SwiGLU
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import silu_mul, swiglu
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
def test_one_tensor(mode):
    x = tensor(draw(np.random.default_rng(0), (2, 6, 5)), "float32")
    y = run(mode, SwiGLU(axis=1, interleaved=True), (x,))
    assert_accurate(numpy(y), swiglu.forward(numpy(x), 1, True), "float32")


@pytest.mark.parametrize("mode", MODES)
def test_two_tensors(mode):
    rng = np.random.default_rng(0)
    gate, up = (tensor(draw(rng, (2, 5)), "float32") for _ in range(2))
    assert_accurate(numpy(run(mode, SwiGLU(), (gate, up))), silu_mul.forward(numpy(gate), numpy(up)), "float32")


def test_deepcopy():
    x = tensor(draw(np.random.default_rng(0), (2, 6)), "float32")
    assert np.array_equal(numpy(copy.deepcopy(SwiGLU())(x)), numpy(SwiGLU()(x)))


def test_repr():
    assert repr(SwiGLU(1, True)) == "SwiGLU(axis=1, interleaved=True)"


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"^SwiGLU: axis must be an int, got str"):
        SwiGLU(axis="last")
    with pytest.raises(TypeError, match=r"^SwiGLU: interleaved must be a bool, got int"):
        SwiGLU(interleaved=1)
