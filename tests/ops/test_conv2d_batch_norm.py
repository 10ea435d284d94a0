import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import conv2d
from tests.reference import conv2d_batch_norm as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]
GEOMETRIES = [{"pad": (1, 1, 1, 1)}, {"stride": (2, 1), "pad": (0, 1, 2, 1), "dilation": (2, 1), "groups": 2}]
EPSILON = 1e-3


def arrays(rng, options, data_format="NCHW", has_bias=True):
    x, weight = draw(rng, (2, 4, 7, 6)), draw(rng, (8, 4 // options.get("groups", 1), 3, 3)) / 3
    placed = [np.moveaxis(value, 1, -1) if data_format == "NHWC" else value for value in (x, weight)]
    gamma, beta, mean, variance, bias = (draw(rng, 8) for _ in range(5))
    return [*placed, gamma, beta, mean, 0.1 + variance**2, bias if has_bias else None]


def called(options, activation, data_format="NCHW"):
    """A function of the inputs in the order of the definition."""
    geometry = {"stride": 1, "pad": 0, "dilation": 1, "groups": 1, **options}

    def function(*tensors):
        return ops.conv2d_batch_norm(*tensors, *geometry.values(), EPSILON, activation, data_format)

    return function


def gradients(dy, inputs, attributes, step=1e-6):
    """Along a direction of each of x, weight, gamma, beta and bias, in float64: (direction, slope)."""
    rng = np.random.default_rng(1)
    for place in (0, 1, 2, 3, 6):
        if inputs[place] is None:
            continue
        direction = rng.normal(size=inputs[place].shape)
        ends = []
        for sign in (1, -1):
            moved = [v + sign * step * direction if i == place else v for i, v in enumerate(inputs)]
            ends.append((reference.forward(*moved, **attributes) * dy).sum())
        yield place, direction, (ends[0] - ends[1]) / (2 * step)


@pytest.mark.parametrize(
    ("mode", "options", "types", "data_format", "has_bias", "activation"),
    combinations(GEOMETRIES, TYPES, ["NCHW", "NHWC"], [False, True], list(reference.ACTIVATIONS)),
)
def test_forward_and_gradient(mode, options, types, data_format, has_bias, activation):
    rng = np.random.default_rng(0)
    dtypes = [types[0]] * 2 + [types[1]] * 5
    values = zip(arrays(rng, options, data_format, has_bias), dtypes, strict=True)
    inputs = [None if value is None else tensor(value, dtype) for value, dtype in values]
    function = called(options, activation, data_format)
    y = run(mode, function, inputs)
    exact = [None if value is None else numpy(value).astype(np.float64) for value in inputs]
    placed = conv2d.attributes(**options, data_format=data_format)
    attributes = {**placed, "epsilon": EPSILON, "activation": activation}
    assert dtype_name(y) == types[0]
    # GELU and SiLU have a slope of 1.1 at most, hard swish of 1.5; sums are in the order of a library.
    golden, terms = reference.forward(*exact, **attributes), 16 * reference.forward_terms(*exact, **attributes)
    assert_accurate(numpy(y), golden, types[0], terms)
    ulp = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-20}[types[0]]

    dy = tensor(draw(rng, y.shape), types[0])
    wanted = tuple(i for i, value in enumerate(inputs) if value is not None)
    weighted = lambda *tensors: (function(*tensors[:7]).astype(ms.float32) * tensors[7].astype(ms.float32)).sum()  # noqa: E731
    found = dict(zip(wanted, run(mode, ms.grad(weighted, wanted), [*inputs, dy]), strict=True))
    assert [dtype_name(found[place]) for place in wanted] == [dtypes[place] for place in wanted]
    for place, direction, slope in gradients(numpy(dy).astype(np.float64), exact, attributes):
        # dz is rounded, and so is the gradient: of as many values of both signs as it has.
        scale = np.linalg.norm(numpy(found[place])) * np.linalg.norm(direction)
        assert abs((numpy(found[place]) * direction).sum() - slope) <= 4 * ulp * scale
    assert not numpy(found[4]).any()  # the statistics are what they are
    assert not numpy(found[5]).any()


def test_as_the_layers_of_mindspore():
    rng = np.random.default_rng(0)
    convolution = nn.Conv2d(4, 8, 3, 2, "pad", 1, has_bias=True)
    norm = nn.BatchNorm2d(8)
    for parameter in (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance):
        parameter.set_data(ms.Tensor(0.5 + np.abs(draw(rng, 8)), ms.float32))
    norm.set_train(False)
    x = tensor(draw(rng, (2, 4, 9, 8)), "float32")
    vectors = (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance, convolution.bias)
    y = ops.conv2d_batch_norm(x, convolution.weight, *vectors, 2, 1, epsilon=norm.eps, activation="hard_swish")
    stock = ms.ops.hardswish(norm(convolution(x)))
    # Sums of 36 products in another order, less the bias and mean, which are as large.
    np.testing.assert_allclose(y.asnumpy(), stock.asnumpy(), rtol=1e-5, atol=1e-5)
