import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn

from ms_ascend_ops import LayerNorm
from tests.acceptance import assert_accurate, assert_close
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import layer_norm as reference
from tests.tensors import numpy, tensor

AXES = [
    ((16,), -1, -1),
    ((16,), 2, 2),
    ((3, 16), 1, 1),
    ((3, 16), -2, 1),
    ((16,), 1, 2),  # normalized over more axes than gamma has
    ((16,), 0, -1),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("shape", "norm", "params"), AXES)
def test_values(mode, shape, norm, params):
    """As nn.LayerNorm has them, within the rules."""
    x = tensor(draw(np.random.default_rng(0), (2, 3, 16)), "float32")
    layer = LayerNorm(shape, norm, params, gamma_init="normal", beta_init="normal", epsilon=1e-5)
    axes = x.shape[norm:]
    gamma, beta = (np.broadcast_to(numpy(p), axes) for p in (layer.gamma, layer.beta))
    exact = numpy(x), gamma, beta, 1e-5
    y = run(mode, layer, (x,))
    assert_accurate(numpy(y), reference.forward(*exact)[0], "float32", reference.forward_terms(*exact))
    norm, params = norm % 3, params % 3  # nn.LayerNorm takes no negative axes but -1
    theirs = nn.LayerNorm(shape, norm, params, layer.gamma.value(), layer.beta.value(), 1e-5)(x)
    # Stock sums in another order, in float32: accuracy itself is tested with the kernels.
    assert_close(numpy(y), numpy(theirs), rtol=1e-4, atol=1e-5)


def test_activation():
    x = tensor(draw(np.random.default_rng(0), (2, 3, 16)), "float32")
    layer = LayerNorm((16,), beta_init="normal", activation="relu")
    y = numpy(layer(x))
    assert (y == 0).any()
    np.testing.assert_array_equal(y, np.maximum(numpy(LayerNorm((16,), beta_init=layer.beta)(x)), 0))
    with pytest.raises(ValueError, match="LayerNorm: activation must be 'none' or 'relu', got 'silu'"):
        LayerNorm((16,), activation="silu")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("norm", "axes"), [(-1, (16,)), (1, (3, 16))])
def test_training_moves_the_parameters_like_the_reference(mode, norm, axes):
    x = tensor(draw(np.random.default_rng(0), (4, 3, 16)), "float32")
    layer = LayerNorm((16,), norm, -1, epsilon=1e-5)

    def loss(x):
        return (layer(x) * x).sum()

    _, (dgamma, dbeta) = run(mode, ms.value_and_grad(loss, None, layer.trainable_params()), (x,))
    state = np.zeros((4, *[3 if norm == -1 else 1], 1))
    exact = numpy(x), state, state, numpy(x), np.ones(axes)
    golden, terms = reference.backward(*exact), reference.backward_terms(*exact)
    for output, *arrays in zip((dgamma, dbeta), golden[1:], terms[1:], strict=True):
        value, sums = (np.sum(array.reshape(-1, 16), axis=0) for array in arrays)
        assert_accurate(numpy(output), value, "float32", sums)


def test_names_dtypes_and_repr():
    layer = LayerNorm([8], epsilon=1e-5, dtype=ms.float16)
    assert [p.name for p in layer.trainable_params()] == ["gamma", "beta"]
    assert layer.gamma.dtype == layer.beta.dtype == ms.float16
    assert repr(layer) == "LayerNorm((8,), begin_norm_axis=-1, begin_params_axis=-1, epsilon=1e-05, activation='none')"
    parameter = Parameter(Tensor(np.arange(8), ms.float32), name="encoder.beta")
    assert LayerNorm((8,), beta_init=parameter).beta is parameter


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"normalized_shape": 8}, TypeError, "LayerNorm: normalized_shape must be a shape of at least one int, got 8"),
        ({"normalized_shape": ()}, TypeError, r"LayerNorm: normalized_shape must be a shape of at least one int, got"),
        ({"normalized_shape": (8.0,)}, TypeError, r"LayerNorm: normalized_shape must be a shape of ints, got \(8.0,\)"),
        ({"normalized_shape": (0,)}, ValueError, r"LayerNorm: normalized_shape must have sizes >= 1, got \(0,\)"),
        ({"normalized_shape": (8,), "epsilon": 0.0}, ValueError, "LayerNorm: epsilon must be > 0 in float32, got 0.0"),
        ({"normalized_shape": (8,), "begin_norm_axis": 1.5}, TypeError, "LayerNorm: begin_norm_axis must be an int"),
        (
            {"normalized_shape": (8,), "gamma_init": Parameter(Tensor(np.ones(7, np.float32)), name="w")},
            ValueError,
            r"LayerNorm: gamma_init.shape must be \(8,\), got \(7,\)",
        ),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=f"^{message}"):
        LayerNorm(**arguments)


@pytest.mark.parametrize(
    ("norm", "params", "message"),
    [
        (-1, 1, "begin_params_axis must leave the 1 axes of normalized_shape, got 1 for x of 3 dims"),
        (3, -1, "begin_norm_axis must be an axis of x, not after begin_params_axis, got 3 for x of 3 dims"),
        (-4, -1, "begin_norm_axis must be an axis of x, not after begin_params_axis, got -4 for x of 3 dims"),
    ],
)
def test_axes_that_do_not_fit(norm, params, message):
    with pytest.raises(ValueError, match=message):
        run("pynative", LayerNorm((8,), norm, params), (tensor(np.ones((2, 3, 8)), "float32"),))
