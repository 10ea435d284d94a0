import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor

from ms_ascend_ops import AddRMSNorm
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import add_rms_norm as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("scheme", ["round_then_scale", "one_plus_gamma"])
def test_values(mode, scheme):
    rng = np.random.default_rng(0)
    x1, x2 = (tensor(draw(rng, (2, 3, 16)), "float32") for _ in range(2))
    norm = AddRMSNorm(16, epsilon=1e-5, scheme=scheme, param_init="normal")
    y, x = run(mode, norm, (x1, x2))
    golden_y, _, golden_x = reference.forward(numpy(x1), numpy(x2), numpy(norm.weight), "float32", 1e-5, scheme)
    assert np.array_equal(numpy(x), golden_x)
    assert_accurate(numpy(y), golden_y, "float32")


@pytest.mark.parametrize("mode", MODES)
def test_training_moves_the_weight_like_the_reference(mode):
    rng = np.random.default_rng(0)
    x1, x2 = (tensor(draw(rng, (4, 16)), "float32") for _ in range(2))
    norm = AddRMSNorm((16,))

    def loss(x1, x2):
        y, x = norm(x1, x2)
        return y.sum() + x.sum()

    (dx1, dx2), (dweight,) = run(mode, ms.grad(loss, (0, 1), norm.trainable_params()), (x1, x2))
    ones = np.ones((4, 16))
    exact = ones, np.zeros((4, 1)), ones, numpy(x1 + x2), np.ones(16)
    (golden_dx, golden_dgamma), terms = reference.backward(*exact), reference.backward_terms(*exact)
    assert_accurate(numpy(dx1), golden_dx, "float32", terms[0])
    assert np.array_equal(numpy(dx1), numpy(dx2))
    assert_accurate(numpy(dweight), golden_dgamma, "float32", terms[1])


def test_names_and_repr():
    norm = AddRMSNorm(8, epsilon=1e-5, dtype=ms.float16)
    assert (norm.weight.name, norm.weight.dtype) == ("weight", ms.float16)
    assert repr(norm) == "AddRMSNorm(8, epsilon=1e-05, scheme='round_then_scale')"
    parameter = Parameter(Tensor(np.arange(1, 9), ms.float32), name="model.norm.weight")
    assert AddRMSNorm(8, param_init=parameter).weight is parameter


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"hidden_size": 8.0}, TypeError, "AddRMSNorm: hidden_size must be an int or a shape of one int, got 8.0"),
        ({"hidden_size": 0}, ValueError, "AddRMSNorm: hidden_size must be >= 1, got 0"),
        ({"hidden_size": 8, "epsilon": 0.0}, ValueError, "AddRMSNorm: epsilon must be > 0 in float32, got 0.0"),
        (
            {"hidden_size": 8, "scheme": "t5"},
            ValueError,
            "AddRMSNorm: scheme must be 'round_then_scale' or 'one_",
        ),
        (
            {"hidden_size": 8, "param_init": Parameter(Tensor(np.ones(7, np.float32)), name="w")},
            ValueError,
            r"AddRMSNorm: param_init.shape must be \(8,\), got \(7,\)",
        ),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^{message}"):
        AddRMSNorm(**arguments)
