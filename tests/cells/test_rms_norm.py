import copy

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn

from ms_ascend_ops import RMSNorm
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import rms_norm as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scheme", ["round_then_scale", "one_plus_gamma"])
def test_values(mode, scheme):
    x = tensor(draw(np.random.default_rng(0), (2, 3, 16)), "float32")
    norm = RMSNorm(16, epsilon=1e-5, scheme=scheme, param_init="normal")
    assert_accurate(
        numpy(run(mode, norm, (x,))), reference.forward(numpy(x), numpy(norm.weight), 1e-5, scheme)[0], "float32"
    )


@pytest.mark.parametrize("mode", MODES)
def test_training_moves_the_weight_like_the_reference(mode):
    x = tensor(draw(np.random.default_rng(0), (4, 16)), "float32")
    norm = RMSNorm((16,))

    def loss(x):
        return norm(x).sum()

    _, (dweight,) = run(mode, ms.value_and_grad(loss, None, norm.trainable_params()), (x,))
    exact = np.ones((4, 16)), np.zeros((4, 1)), numpy(x), np.ones(16)
    assert_accurate(numpy(dweight), reference.backward(*exact)[1], "float32", reference.backward_terms(*exact)[1])


def test_names_and_dtypes():
    class Block(nn.Cell):
        def __init__(self):
            super().__init__()
            self.input_layernorm = RMSNorm(8, dtype=ms.float16)

    weight = Block().input_layernorm.weight
    assert weight.name == "input_layernorm.weight"
    assert weight.dtype == ms.float16
    assert np.array_equal(weight.asnumpy(), np.ones(8))


def test_a_parameter_becomes_the_weight_itself():
    parameter = Parameter(Tensor(np.arange(1, 9), ms.float32), name="model.norm.weight")
    norm = RMSNorm(8, param_init=parameter)
    assert norm.weight is parameter
    assert parameter.name == "model.norm.weight"


def test_deepcopy_has_a_weight_of_its_own():
    x = tensor(draw(np.random.default_rng(0), (2, 8)), "float32")
    norm = RMSNorm(8)
    y = numpy(norm(x))
    other = copy.deepcopy(norm)
    other.weight.set_data(Tensor(np.full(8, 2), ms.float32))
    assert np.array_equal(numpy(other(x)), 2 * y)
    assert np.array_equal(numpy(norm(x)), y)


def test_repr():
    assert repr(RMSNorm(8, epsilon=1e-5)) == "RMSNorm(8, epsilon=1e-05, scheme='round_then_scale')"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"hidden_size": 8.0}, TypeError, "RMSNorm: hidden_size must be an int or a shape of one int, got 8.0"),
        (
            {"hidden_size": (2, 8)},
            TypeError,
            r"RMSNorm: hidden_size must be an int or a shape of one int, got \(2, 8\)",
        ),
        ({"hidden_size": 0}, ValueError, "RMSNorm: hidden_size must be >= 1, got 0"),
        ({"hidden_size": 8, "epsilon": 0.0}, ValueError, "RMSNorm: epsilon must be > 0 in float32, got 0.0"),
        ({"hidden_size": 8, "epsilon": "a"}, TypeError, "RMSNorm: epsilon must be a float, got str"),
        (
            {"hidden_size": 8, "scheme": "t5"},
            ValueError,
            "RMSNorm: scheme must be 'round_then_scale' or 'one_plus_gam",
        ),
        (
            {"hidden_size": 8, "param_init": Parameter(Tensor(np.ones(7, np.float32)), name="w")},
            ValueError,
            r"RMSNorm: param_init.shape must be \(8,\), got \(7,\)",
        ),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^{message}"):
        RMSNorm(**arguments)
