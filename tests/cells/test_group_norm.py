import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn

from ms_ascend_ops import GroupNorm
from tests.acceptance import assert_accurate, assert_close
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import group_norm as reference
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("activation", ["silu", "relu"])
def test_values(mode, activation, data_format):
    x = tensor(draw(np.random.default_rng(0), (2, 6, 5, 6)), "float32")
    layer = GroupNorm(3, 6, 1e-4, gamma_init="normal", activation=activation, data_format=data_format)
    exact = numpy(x), numpy(layer.gamma), numpy(layer.beta), 3, 1e-4, activation, data_format
    assert_accurate(
        numpy(run(mode, layer, (x,))), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact)
    )


def test_arguments_of_the_stock_layer():
    x = tensor(draw(np.random.default_rng(0), (2, 6, 5, 6)), "float32")
    arguments = 2, 6, 1e-3, True, "normal", "ones", ms.float32
    stock = nn.GroupNorm(*arguments)
    layer = GroupNorm(*arguments)
    layer.gamma.set_data(stock.gamma)
    # Stock sums in another order, in float32: accuracy itself is tested with the kernels.
    assert_close(numpy(layer(x)), numpy(stock(x)), rtol=1e-4, atol=1e-5)
    assert [p.name for p in layer.trainable_params()] == [p.name for p in stock.trainable_params()]
    assert GroupNorm(2, 6, affine=False).trainable_params() == []


@pytest.mark.parametrize("mode", MODES)
def test_training_moves_the_parameters_like_the_reference(mode):
    x = tensor(draw(np.random.default_rng(0), (4, 6, 5)), "float32")
    layer = GroupNorm(3, 6, activation="silu")

    def loss(x):
        return (layer(x) * x).sum()

    _, gradients = run(mode, ms.value_and_grad(loss, None, layer.trainable_params()), (x,))
    state = np.zeros((4, 3))
    exact = numpy(x), state, state, numpy(x), np.ones(6), np.zeros(6), 3, 1e-5, "silu"
    golden, terms = reference.backward(*exact), reference.backward_terms(*exact)
    for output, value, sums in zip(gradients, golden[1:], terms[1:], strict=True):
        assert_accurate(numpy(output), value, "float32", sums)


def test_names_and_repr():
    layer = GroupNorm(2, 8, epsilon=1e-4, dtype=ms.float16, activation="silu")
    assert (layer.gamma.name, layer.beta.name, layer.gamma.dtype) == ("gamma", "beta", ms.float16)
    assert repr(layer) == "GroupNorm(2, 8, epsilon=0.0001, activation='silu', data_format='NCHW')"
    parameter = Parameter(Tensor(np.ones(8), ms.float32), name="block.gamma")
    assert GroupNorm(2, 8, gamma_init=parameter).gamma is parameter


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, 8), ValueError, r"num_channels must be a multiple of num_groups \(3\), got 8"),
        ((0, 8), ValueError, "num_groups must be > 0, got 0"),
        ((2.0, 8), TypeError, "num_groups must be an int, got float"),
        ((2, 0), ValueError, "num_channels must be >= 1, got 0"),
        ((2, 8, 0.0), ValueError, "epsilon must be > 0 in float32, got 0.0"),
        ((2, 8, 1e-5, 1), TypeError, "affine must be a bool, got int"),
        ((2, 8, 1e-5, True, "ones", "zeros", ms.float32, "elu"), ValueError, "activation must be 'none', 'silu' or"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^GroupNorm: {message}"):
        GroupNorm(*arguments)
