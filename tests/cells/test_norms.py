"""RMSNorm, AddRMSNorm, LayerNorm and GroupNorm: the functions, whose values tests/ops tests, with parameters."""

import copy

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import AddRMSNorm, GroupNorm, LayerNorm, RMSNorm, ops
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.modes import run
from tests.tensors import numpy, tensor

ROWS = [(2, 3, 16)]
IMAGES = [(2, 6, 5, 6)]
# A layer with arguments that are not the defaults, the same by the function, and shapes of inputs.
LAYERS = {
    "RMSNorm": (
        lambda: RMSNorm(16, epsilon=1e-2, scheme="one_plus_gamma", param_init="normal"),
        lambda n, x: ops.rms_norm(x, n.weight, 1e-2, "one_plus_gamma")[0],
        ROWS,
    ),
    "AddRMSNorm": (
        lambda: AddRMSNorm(16, epsilon=1e-2, scheme="one_plus_gamma", param_init="normal"),
        lambda n, x, y: ops.add_rms_norm(x, y, n.weight, 1e-2, "one_plus_gamma")[::2],
        ROWS * 2,
    ),
    "LayerNorm": (
        lambda: LayerNorm((16,), gamma_init="normal", beta_init="normal", epsilon=1e-2, activation="relu"),
        lambda n, x: ops.layer_norm(x, n.gamma, n.beta, 1e-2, "relu")[0],
        ROWS,
    ),
    "GroupNorm": (
        lambda: GroupNorm(3, 6, 1e-2, gamma_init="normal", beta_init="normal", activation="silu"),
        lambda n, x: ops.group_norm(x, n.gamma, n.beta, 3, 1e-2, "silu")[0],
        IMAGES,
    ),
    "GroupNorm of channels last": (
        lambda: GroupNorm(3, 6, gamma_init="normal", activation="relu", data_format="NHWC"),
        lambda n, x: ops.group_norm(x, n.gamma, n.beta, 3, 1e-5, "relu", "NHWC")[0],
        IMAGES,
    ),
}


def inputs(shapes):
    rng = np.random.default_rng(0)
    return [tensor(draw(rng, shape), "float32") for shape in shapes]


@pytest.mark.parametrize("mode", ["pynative", "graph", "jit"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_is_the_function(name, mode):
    """Bit for bit, and so are the gradients of its parameters."""
    make, function, shapes = LAYERS[name]
    layer, given = make(), inputs(shapes)
    for mine, theirs in zip(flat(run(mode, layer, given)), flat(function(layer, *given)), strict=True):
        np.testing.assert_array_equal(numpy(mine), numpy(theirs))

    def total(call):
        def summed(*tensors):
            result = call(*tensors)
            return (result[0] if isinstance(result, tuple) else result).square().sum()

        return ms.grad(summed, None, layer.trainable_params())

    found, expected = run(mode, total(layer), given), total(lambda *x: function(layer, *x))(*given)
    for mine, theirs in zip(flat(found), flat(expected), strict=True):
        assert numpy(mine).any()
        np.testing.assert_array_equal(numpy(mine), numpy(theirs))


AXES = [
    ((16,), -1, -1),
    ((16,), 2, 2),
    ((3, 16), 1, 1),
    ((3, 16), -2, 1),
    ((16,), 1, 2),  # normalized over more axes than gamma has
    ((16,), 0, -1),
]


@pytest.mark.parametrize(("shape", "norm", "params"), AXES)
def test_axes_of_layer_norm(shape, norm, params):
    """As nn.LayerNorm has them, with the gradients of gamma and beta."""
    (x,) = inputs(ROWS)
    layer = LayerNorm(shape, norm, params, gamma_init="normal", beta_init="normal", epsilon=1e-5)
    # nn.LayerNorm takes no negative axes but -1
    stock = nn.LayerNorm(shape, norm % 3, params % 3, layer.gamma.value(), layer.beta.value(), 1e-5)
    # Stock sums in another order, in float32: accuracy itself is tested with the kernels.
    assert_close(numpy(layer(x)), numpy(stock(x)), rtol=1e-4, atol=1e-5)
    steps = [ms.grad(lambda x, n=n: (n(x) * x).sum(), None, n.trainable_params())(x) for n in (layer, stock)]
    for mine, theirs in zip(*steps, strict=True):
        assert_close(numpy(mine), numpy(theirs), rtol=1e-4, atol=1e-5)


def test_group_norm_takes_the_arguments_of_the_stock_layer():
    (x,) = inputs(IMAGES)
    arguments = 2, 6, 1e-3, True, "normal", "ones", ms.float32
    stock, layer = nn.GroupNorm(*arguments), GroupNorm(*arguments)
    layer.gamma.set_data(stock.gamma)
    # Stock sums in another order, in float32: accuracy itself is tested with the kernels.
    assert_close(numpy(layer(x)), numpy(stock(x)), rtol=1e-4, atol=1e-5)
    assert [p.name for p in layer.trainable_params()] == [p.name for p in stock.trainable_params()]
    assert GroupNorm(2, 6, affine=False).trainable_params() == []


def parameter(size):
    return Parameter(Tensor(np.arange(size), ms.float32), name="encoder.weight")


@pytest.mark.parametrize(
    ("make", "names", "text"),
    [
        (lambda **o: RMSNorm(8, epsilon=1e-5, **o), ["weight"], "RMSNorm(8, epsilon=1e-05, scheme='round_then_scale')"),
        (
            lambda **o: AddRMSNorm(8, epsilon=1e-5, **o),
            ["weight"],
            "AddRMSNorm(8, epsilon=1e-05, scheme='round_then_scale')",
        ),
        (
            lambda **o: LayerNorm([8], epsilon=1e-5, **o),
            ["gamma", "beta"],
            "LayerNorm((8,), begin_norm_axis=-1, begin_params_axis=-1, epsilon=1e-05, activation='none')",
        ),
        (
            lambda **o: GroupNorm(2, 8, epsilon=1e-4, **o),
            ["gamma", "beta"],
            "GroupNorm(2, 8, epsilon=0.0001, activation='none', data_format='NCHW')",
        ),
    ],
)
def test_parameters_and_repr(make, names, text):
    layer, given = make(dtype=ms.float16), parameter(8)
    assert repr(layer) == text
    assert [p.name for p in layer.trainable_params()] == names
    assert all(p.dtype == ms.float16 for p in layer.trainable_params())
    assert nn.CellList([layer]).trainable_params()[0].name == f"0.{names[0]}"
    taken = make(**{"param_init" if names == ["weight"] else "gamma_init": given})
    assert taken.trainable_params()[0] is given
    assert given.name == "encoder.weight"
    other = copy.deepcopy(taken)
    other.trainable_params()[0].set_data(Tensor(np.full(8, 2), ms.float32))
    assert given.asnumpy()[1] == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: RMSNorm(8.0), TypeError, "RMSNorm: hidden_size must be an int or a shape of one int, got 8.0"),
        (lambda: RMSNorm((2, 8)), TypeError, r"RMSNorm: hidden_size must be an int or a shape of one int, got \(2"),
        (lambda: RMSNorm(0), ValueError, "RMSNorm: hidden_size must be >= 1, got 0"),
        (lambda: AddRMSNorm(0), ValueError, "AddRMSNorm: hidden_size must be >= 1, got 0"),
        (lambda: RMSNorm(8, epsilon=0.0), ValueError, "RMSNorm: epsilon must be > 0 in float32, got 0.0"),
        (lambda: AddRMSNorm(8, epsilon="a"), TypeError, "AddRMSNorm: epsilon must be a float, got str"),
        (lambda: RMSNorm(8, scheme="t5"), ValueError, "RMSNorm: scheme must be 'round_then_scale' or 'one_plus_gam"),
        (lambda: RMSNorm(8, param_init=parameter(7)), ValueError, r"RMSNorm: param_init.shape must be \(8,\), got \(7"),
        (lambda: LayerNorm(8), TypeError, "LayerNorm: normalized_shape must be a shape of at least one int, got 8"),
        (lambda: LayerNorm(()), TypeError, "LayerNorm: normalized_shape must be a shape of at least one int, got"),
        (lambda: LayerNorm((8.0,)), TypeError, r"LayerNorm: normalized_shape must be a shape of ints, got \(8.0,\)"),
        (lambda: LayerNorm((0,)), ValueError, r"LayerNorm: normalized_shape must have sizes >= 1, got \(0,\)"),
        (lambda: LayerNorm((8,), begin_norm_axis=1.5), TypeError, "LayerNorm: begin_norm_axis must be an int"),
        (lambda: LayerNorm((8,), activation="silu"), ValueError, "LayerNorm: activation must be 'none' or 'relu', got"),
        (lambda: LayerNorm((8,), gamma_init=parameter(7)), ValueError, r"LayerNorm: gamma_init.shape must be \(8,\)"),
        (lambda: GroupNorm(3, 8), ValueError, r"GroupNorm: num_channels must be a multiple of num_groups \(3\), got 8"),
        (lambda: GroupNorm(0, 8), ValueError, "GroupNorm: num_groups must be > 0, got 0"),
        (lambda: GroupNorm(2.0, 8), TypeError, "GroupNorm: num_groups must be an int, got float"),
        (lambda: GroupNorm(2, 0), ValueError, "GroupNorm: num_channels must be >= 1, got 0"),
        (lambda: GroupNorm(2, 8, 1e-5, 1), TypeError, "GroupNorm: affine must be a bool, got int"),
        (lambda: GroupNorm(2, 8, activation="elu"), ValueError, "GroupNorm: activation must be 'none', 'silu' or"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=f"^{message}"):
        make()


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
        LayerNorm((8,), norm, params)(tensor(np.ones((2, 3, 8)), "float32"))
