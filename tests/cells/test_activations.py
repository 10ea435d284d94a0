"""GELU, SwiGLU and GEGLU: the functions, whose values tests/ops tests, as layers."""

import copy

import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import GEGLU, GELU, SwiGLU, ops
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.modes import last_compiled, run
from tests.tensors import numpy, tensor

LAYERS = [  # a layer with other arguments than its defaults, the function of so many tensors
    (GELU(False), lambda x: ops.gelu(x, "none"), 1),
    (GELU(), lambda x: ops.gelu(x, "tanh"), 1),
    (SwiGLU(1, True), lambda x: ops.swiglu(x, 1, True), 1),
    (SwiGLU(), ops.silu_mul, 2),
    (GEGLU(), ops.gelu_mul, 2),
    (GEGLU(1, True, "tanh"), lambda x: ops.geglu(x, 1, True, "tanh"), 1),
]


@pytest.mark.parametrize(
    ("mode", "layer", "function", "count"),
    last_compiled(LAYERS),
    ids=lambda value: "" if callable(value) and not isinstance(value, nn.Cell) else str(value),
)
def test_the_layer_is_the_function(mode, layer, function, count):
    rng = np.random.default_rng(0)
    given = [tensor(draw(rng, (2, 6, 5)), "float32") for _ in range(count)]
    for one in (layer, copy.deepcopy(layer)):
        np.testing.assert_array_equal(numpy(run(mode, one, given)), numpy(function(*given)))


@pytest.mark.parametrize("arguments", [(), (True,), (False,)])
def test_gelu_takes_the_argument_of_the_stock_layer(arguments):
    """Within the error of its tanh and erf in float32, of results up to 3; the two formulas are 4e-4 apart."""
    x = tensor(np.linspace(-3, 3, 61), "float32")
    assert_close(numpy(GELU(*arguments)(x)), numpy(nn.GELU(*arguments)(x)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (GELU(False), "GELU(approximate=False)"),
        (SwiGLU(1, True), "SwiGLU(axis=1, interleaved=True)"),
        (GEGLU(1, True), "GEGLU(axis=1, activate_left=True, approximate='none')"),
    ],
)
def test_repr(layer, text):
    assert repr(layer) == text


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: GELU("tanh"), TypeError, "GELU: approximate must be a bool, got str"),
        (lambda: SwiGLU(axis="last"), TypeError, "SwiGLU: axis must be an int, got str"),
        (lambda: SwiGLU(interleaved=1), TypeError, "SwiGLU: interleaved must be a bool, got int"),
        (lambda: GEGLU(axis="last"), TypeError, "GEGLU: axis must be an int, got str"),
        (lambda: GEGLU(approximate="erf"), ValueError, "GEGLU: approximate must be 'none' or 'tanh', got 'erf'"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=f"^{message}"):
        make()
