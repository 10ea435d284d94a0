import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import conv2d
from tests.reference import conv2d_group_norm as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]
GEOMETRIES = [{"pad": (1, 1, 1, 1)}, {"stride": (2, 1), "pad": (0, 1, 2, 1), "dilation": (2, 1), "groups": 2}]
NORM = {"num_groups": 4, "epsilon": 1e-3}
NAMES = ["x", "weight", "gamma", "beta", "bias", "shift", "residual"]


def arrays(rng, options, data_format, given):
    """The inputs in the order of the definition; those that may be absent are, by their names."""
    x, weight = draw(rng, (2, 4, 7, 6)), draw(rng, (8, 4 // options.get("groups", 1), 3, 3)) / 3
    shape = conv2d.forward(x, weight, **conv2d.attributes(**options)).shape
    values = [x, weight, 1 + draw(rng, 8) / 4, draw(rng, 8), draw(rng, 8), draw(rng, (2, 8)), draw(rng, shape)]
    placed = [np.moveaxis(value, 1, -1) if value.ndim == 4 and data_format == "NHWC" else value for value in values]
    return [value if name in given or name in NAMES[:4] else None for name, value in zip(NAMES, placed, strict=True)]


def called(options, activation, data_format):
    """A function of the inputs in the order of the definition."""
    geometry = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1, **options}
    behind = (*geometry.values(), NORM["epsilon"], activation, data_format)

    def function(x, weight, gamma, beta, bias, shift, residual):
        return ops.conv2d_group_norm(x, weight, gamma, beta, bias, shift, residual, NORM["num_groups"], *behind)

    return function


def differences(function, values, place, direction, step=1e-5):
    """The change of a function of float64 along a direction of one of its inputs."""
    moved = [
        function(*[value + sign * step * direction if i == place else value for i, value in enumerate(values)])
        for sign in (1, -1)
    ]
    return (moved[0] - moved[1]) / (2 * step)


@pytest.mark.parametrize(
    ("mode", "options", "types", "data_format", "given", "activation"),
    combinations(
        GEOMETRIES, TYPES, ["NCHW", "NHWC"], [(), ("bias", "shift"), ("residual",), NAMES], ["none", "silu", "relu"]
    ),
)
def test_forward_and_gradient(mode, options, types, data_format, given, activation):
    rng = np.random.default_rng(0)
    dtypes = [types[0], types[0], *[types[1]] * 3, *[types[0]] * 2]
    inputs = [
        None if value is None else tensor(value, dtype)
        for value, dtype in zip(arrays(rng, options, data_format, given), dtypes, strict=True)
    ]
    function = called(options, activation, data_format)
    y, z, mean, rstd = run(mode, function, inputs)
    exact = [None if value is None else numpy(value) for value in inputs]
    attributes = {**conv2d.attributes(**options, data_format=data_format), **NORM, "activation": activation}
    golden = reference.forward(*exact, **attributes)
    assert [dtype_name(value) for value in (y, z, mean, rstd)] == [types[0], types[0], "float32", "float32"]
    assert mean.shape == rstd.shape == (2, 4)
    # Of a float64 z that is not rounded: 2 ULP of each value, and 8 of 1, as a norm takes away what is large in z.
    ulp = {"float16": 2**-9, "bfloat16": 2**-6, "float32": 2**-19}[types[0]]
    for value, exactly in zip((y, z, mean, rstd), golden, strict=True):
        np.testing.assert_allclose(numpy(value), exactly, rtol=ulp, atol=4 * ulp)

    # Gradients are those of the kernels' z, whose rounding they do not have either.
    dy, dz = (tensor(draw(rng, y.shape), types[0]) for _ in range(2))

    def weighted(*tensors):
        y, z, _, _ = function(*tensors[:7])
        wide = [value.astype(ms.float32) for value in (y, z, *tensors[7:])]
        return (wide[0] * wide[2] + wide[1] * wide[3]).sum()

    wanted = tuple(i for i, value in enumerate(inputs) if value is not None)
    gradients = run(mode, ms.grad(weighted, wanted), [*inputs, dy, dz])
    backward = reference.backward(numpy(dy), numpy(dz), *exact, **attributes)
    # 4 ULP of the largest: sums of dz, which is rounded, of both signs.
    for place, gradient in zip(wanted, gradients, strict=True):
        assert dtype_name(gradient) == dtypes[place]
        largest = np.abs(backward[place]).max()
        np.testing.assert_allclose(numpy(gradient), backward[place], rtol=2 * ulp, atol=2 * ulp * largest)


def test_references_are_derivatives():
    rng = np.random.default_rng(0)
    attributes = {**conv2d.attributes(**GEOMETRIES[1]), **NORM, "activation": "silu"}
    values = arrays(rng, GEOMETRIES[1], "NCHW", NAMES)
    y, z = reference.forward(*values, **attributes)[:2]
    dy, dz = rng.normal(size=y.shape), rng.normal(size=z.shape)

    def weighted(*values):
        y, z = reference.forward(*values, **attributes)[:2]
        return (y * dy + z * dz).sum()

    for place, gradient in enumerate(reference.backward(dy, dz, *values, **attributes)):
        direction = rng.normal(size=values[place].shape)
        assert np.isclose((gradient * direction).sum(), differences(weighted, values, place, direction), rtol=1e-6)


def test_gradients_through_the_statistics():
    rng = np.random.default_rng(0)
    values = arrays(rng, GEOMETRIES[0], "NCHW", NAMES)
    attributes = {**conv2d.attributes(**GEOMETRIES[0]), **NORM}
    weights = [rng.normal(size=(2, 4)) for _ in range(2)]
    function, inputs = called(GEOMETRIES[0], "none", "NCHW"), [tensor(value, "float32") for value in values]

    def weighted(*tensors):
        _, _, mean, rstd = function(*tensors)
        return (mean * Tensor(weights[0], ms.float32) + rstd * Tensor(weights[1], ms.float32)).sum()

    def exactly(*values):
        _, _, mean, rstd = reference.forward(*values, **attributes)
        return (mean * weights[0] + rstd * weights[1]).sum()

    gradient = numpy(ms.grad(weighted, 0)(*inputs))
    direction = rng.normal(size=gradient.shape)
    assert np.isclose((gradient * direction).sum(), differences(exactly, values, 0, direction), rtol=1e-4)


def test_as_the_operators_it_is_made_of():
    """y and statistics are those of the rounded z, and z is what conv2d gives, but for the order of its sums."""
    rng = np.random.default_rng(0)
    for dtype in ("float16", "float32"):
        given = ("bias",)
        x, weight, gamma, beta, bias = (tensor(value, dtype) for value in arrays(rng, GEOMETRIES[0], "NCHW", given)[:5])
        y, z, mean, rstd = ops.conv2d_group_norm(
            x, weight, gamma, beta, bias, num_groups=4, padding=1, activation="silu"
        )
        alone = numpy(ops.conv2d(x, weight, bias, 1, 1))
        assert_accurate(numpy(z), alone, dtype_name(z), np.abs(alone).max())
        apart = ops.group_norm(z, gamma, beta, 4, activation="silu")
        for one, other in zip((y, mean, rstd), apart, strict=True):
            assert_accurate(numpy(one), numpy(other), dtype_name(one), np.abs(numpy(other)).max())


def test_results_and_gradients_are_the_same_bits_again():
    rng = np.random.default_rng(0)
    inputs = [tensor(value, "float32") for value in arrays(rng, GEOMETRIES[0], "NCHW", NAMES)]
    function = called(GEOMETRIES[0], "silu", "NCHW")
    gradient = ms.grad(lambda *tensors: function(*tensors)[0].sum(), tuple(range(7)))
    first = [numpy(value) for value in gradient(*inputs)]
    for again, value in zip(gradient(*inputs), first, strict=True):
        np.testing.assert_array_equal(numpy(again), value)
