import numpy as np
import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.kernels.test_conv2d import CASES, arrays
from tests.native import launch, tiles_of_a_chip
from tests.reference import conv2d
from tests.reference import conv2d_batch_norm as reference

SIGNATURE = registry.signature("conv2d_batch_norm")
TYPES = [(row["T"], row["G"]) for row in SIGNATURE.types]
FORMATS = ["NCHW", "NHWC"]
ACTIVATIONS = list(reference.ACTIVATIONS)


def tensors(rng, case, data_format, has_bias=True):
    """In the order of the definition; the statistics are like those of a trained network."""
    outs = case[0][4]
    gamma, beta, mean, bias = (draw(rng, outs) for _ in range(4))
    vectors = [gamma, beta, mean, 0.05 + draw(rng, outs) ** 2, bias if has_bias else None]
    return [*arrays(rng, case, data_format), *vectors]


def run(inputs, types, attributes):
    """The output, and the inputs as they were rounded."""
    (y,), rounded = launch("conv2d_batch_norm", inputs, [types[0]] * 2 + [types[1]] * 5, **attributes)
    return y, rounded


def attributes_of(case, data_format, activation="none"):
    placed = conv2d.attributes(**case[1], data_format=data_format)
    return {**placed, "epsilon": 1e-3, "activation": activation}


@cover(
    "case",
    CASES,
    types=TYPES,
    data_format=FORMATS,
    has_bias=[0, 1],
    activation=list(reference.ACTIVATIONS),
    chip=[0, 1],
)
def test_forward(case, types, data_format, has_bias, activation, chip):
    rng = np.random.default_rng(sum(case[0][:5]))
    attributes = attributes_of(case, data_format, activation)
    with tiles_of_a_chip(chip):
        y, rounded = run(tensors(rng, case, data_format, has_bias), types, attributes)
    # The order of a library's sums is its own, and GELU and SiLU have a slope of 1.1 at most, hard swish of 1.5.
    terms = 16 * reference.forward_terms(*rounded, **attributes)
    assert_accurate(y, reference.forward(*rounded, **attributes), types[0], terms)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("activation", ["none", "relu"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_library_of_conv2d_answers(dtype, activation, data_format):
    for case in CASES[:-1]:  # the last kernel is as large as x: oneDNN's code of that is too long with a norm
        attributes = attributes_of(case, data_format, activation)
        shapes = [None if each is None else each.shape for each in tensors(np.random.default_rng(0), case, data_format)]
        answers = native().answering_library("conv2d_batch_norm", shapes, [dtype] * 7, attributes)
        plain = {**reference.convolution_attributes(attributes), "activation": activation}
        biased = [*shapes[:2], shapes[2]]
        assert answers == native().answering_library("conv2d", biased, [dtype] * 3, plain)


@pytest.mark.parametrize("chip", [0, 1])
def test_without_a_norm_it_is_conv2d(chip):
    """With a variance of 1 - epsilon and a mean of 0."""
    case = CASES[1]
    attributes = {**attributes_of(case, "NCHW", "silu"), "epsilon": 0.25}
    x, weight, *_, bias = tensors(np.random.default_rng(0), case, "NCHW")
    ones, zeros = np.ones(len(bias)), np.zeros(len(bias))
    with tiles_of_a_chip(chip):
        y, _ = run([x, weight, ones, zeros, zeros, 0.75 * ones, bias], ("float32", "float32"), attributes)
        plain = {**reference.convolution_attributes(attributes), "activation": "silu"}
        (alone,), _ = launch("conv2d", [x, weight, bias], ["float32"] * 3, **plain)
    # The bias is added behind the sum here, and oneDNN's begins with it: sums of 45 products in another order.
    np.testing.assert_allclose(y, alone, rtol=2e-6, atol=1e-6)


def test_a_channel_without_a_scale():
    """gamma is 0: what is left is beta, whatever the statistics; an offset divided by the factor would be infinite."""
    case = CASES[10]
    inputs = tensors(np.random.default_rng(0), case, "NCHW")
    inputs[2] = np.where(np.arange(case[0][4]) % 3 == 0, 0.0, inputs[2])
    y, rounded = run(inputs, ("float32", "float32"), attributes_of(case, "NCHW"))
    np.testing.assert_array_equal(y[:, ::3], np.broadcast_to(rounded[3][::3, None, None], y[:, ::3].shape))
