import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.kernels.test_conv2d import check
from tests.modes import MODES, Caller, combinations, graph_mode, run
from tests.reference import conv2d as reference
from tests.tensors import dtype_name, numpy, tensor
from tests.versions import without

TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]
GEOMETRIES = [  # kernel; stride, padding, dilation, groups
    ((3, 3), {"pad": (1, 1, 1, 1)}),
    ((3, 3), {"stride": (2, 2), "pad": (0, 1, 0, 1)}),
    ((1, 1), {"stride": (2, 3)}),  # most of x reaches nothing
    ((3, 2), {"stride": (3, 4), "pad": (2, 0, 1, 3), "dilation": (2, 3), "groups": 2}),
    ((3, 3), {"stride": (2, 1), "pad": (1, 0, 0, 2), "dilation": (4, 2), "groups": 4}),
    ((1, 1), {"pad": (2, 1, 0, 1)}),  # more padding than kernel
]


# By a library: few channels, which it takes as they lie; a gradient of a weight in parts, of rows and of samples.
IN_LIBRARY = [
    ((2, 4, 60, 70, 8, (3, 3)), {"pad": (1, 1, 1, 1)}),
    ((2, 8, 90, 100, 16, (3, 3)), {"stride": (1, 2), "pad": (1, 1, 1, 1)}),
    ((9, 16, 24, 40, 16, (3, 3)), {"pad": (1, 0, 1, 1), "groups": 2}),
]


def arguments(options, activation="none", data_format="NCHW"):
    """Those of the function behind the tensors."""
    options = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1, **options}
    return (*(options[name] for name in ("stride", "pad", "dilation", "groups")), activation, data_format)


def arrays(rng, kernel, options, data_format):
    x, weight = draw(rng, (2, 4, 9, 11)), draw(rng, (8, 4 // options.get("groups", 1), *kernel)) / 3
    return [a if data_format == "NCHW" else np.moveaxis(a, 1, -1) for a in (x, weight)]


@pytest.mark.parametrize(
    ("mode", "geometry", "types", "data_format"), combinations(GEOMETRIES, TYPES, ["NCHW", "NHWC"])
)
def test_forward_and_gradient(mode, geometry, types, data_format):
    rng = np.random.default_rng(0)
    (kernel, options), a = geometry, reference.attributes(**geometry[1], data_format=data_format)
    x, weight = (tensor(values, types[0]) for values in arrays(rng, kernel, options, data_format))
    bias = tensor(draw(rng, (8,)), types[1])
    given = arguments(options, data_format=data_format)
    y = run(mode, ops.conv2d, (x, weight, bias), *given)
    exact = [numpy(value) for value in (x, weight, bias)]
    assert dtype_name(y) == types[0]
    terms = reference.forward(*map(np.abs, exact), **a)
    assert_accurate(numpy(y), reference.forward(*exact, **a), types[0], 8 * terms)
    dy = tensor(draw(rng, y.shape), types[0])

    def weighted(x, weight, bias, dy):
        y = ops.conv2d(x, weight, bias, *given)
        return (y.astype(ms.float32) * dy.astype(ms.float32)).sum()

    gradients = run(mode, ms.grad(weighted, (0, 1, 2)), (x, weight, bias, dy))
    seen, channel = numpy(dy), -1 if data_format == "NHWC" else 1
    for gradient, of, dtype in zip(gradients, ("x", "weight", "bias"), (types[0], *types), strict=True):
        if of == "bias":
            golden, magnitude = (np.moveaxis(v, channel, 0).reshape(8, -1).sum(1) for v in (seen, np.abs(seen)))
        else:
            backward = reference.backward_x if of == "x" else reference.backward_weight
            golden = backward(seen, *exact[:2], **a)
            magnitude = backward(np.abs(seen), *map(np.abs, exact[:2]), **a)
        assert_accurate(numpy(gradient), golden, dtype, 8 * magnitude)


@without("oneDNN 2 on a CPU")
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("case", IN_LIBRARY, ids=str)
def test_in_a_library(case, dtype, data_format):
    check(case, (dtype, "float32"), data_format, True)


@pytest.mark.parametrize("activation", list(reference.ACTIVATIONS)[1:])
def test_gradient_through_activations(activation):
    rng = np.random.default_rng(0)
    x, weight = arrays(rng, *GEOMETRIES[0], "NCHW")
    inputs = [tensor(values, "float32") for values in (x[:, :, :4, :5], weight, draw(rng, (8,)))]
    dy = tensor(draw(rng, (2, 8, 4, 5)), "float32")

    def weighted(x, weight, bias):
        return (ops.conv2d(x, weight, bias, *arguments(GEOMETRIES[0][1], activation)) * dy).sum()

    exact, a = [numpy(value) for value in inputs], reference.attributes(**GEOMETRIES[0][1])
    for place, gradient in enumerate(ms.grad(weighted, (0, 1, 2))(*inputs)):
        direction = rng.normal(size=exact[place].shape)
        sums = []
        for step in (1e-5, -1e-5):
            moved = [value + step * direction if i == place else value for i, value in enumerate(exact)]
            sums.append((reference.forward(*moved, activation, **a) * numpy(dy)).sum())
        expected = (sums[0] - sums[1]) / 2e-5
        assert np.isclose((numpy(gradient) * direction).sum(), expected, rtol=1e-4)


def zeros(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


X, WEIGHT = (1, 4, 5, 6), (6, 4, 3, 3)


@pytest.mark.parametrize("mode", MODES)
def test_a_padding_by_its_name(mode):
    """As TensorFlow has it: of an odd number of zeros the larger part is below and to the right."""
    rng = np.random.default_rng(0)
    x, weight = (tensor(rng.standard_normal(shape), "float32") for shape in ((1, 4, 10, 7), (6, 4, 4, 3)))
    for name, pads in (("same", (1, 2, 2, 2)), ("valid", 0)):
        y = run(mode, ops.conv2d, (x, weight, None), (3, 2), name, (1, 2))
        np.testing.assert_array_equal(numpy(y), numpy(ops.conv2d(x, weight, None, (3, 2), pads, (1, 2))))


def test_a_padding_by_its_name_for_unknown_sizes():
    weight = zeros(*WEIGHT)
    plain, strided = (Caller(ops.conv2d, None, stride, "same") for stride in (1, 2))
    for net in (plain, strided):
        net.set_inputs(Tensor(shape=(None, 4, None, None), dtype=ms.float32), weight)
    with graph_mode():
        assert plain(zeros(*X), weight).shape == (1, 6, 5, 6)
        with pytest.raises(ValueError, match="padding 'same' with a stride needs an x whose sizes are known"):
            strided(zeros(*X), weight)


def test_gradients_are_the_same_bits_again():
    rng = np.random.default_rng(0)
    x, weight = (tensor(values, "float32") for values in arrays(rng, *GEOMETRIES[1], "NCHW"))
    gradient = ms.grad(lambda x, w: ops.conv2d(x, w, None, *arguments(GEOMETRIES[1][1])).sum(), (0, 1))
    first = [numpy(value) for value in gradient(x, weight)]
    for again, value in zip(gradient(x, weight), first, strict=True):
        np.testing.assert_array_equal(numpy(again), value)
