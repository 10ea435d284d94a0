import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_ascend_ops.convolution import inputs_first, whole_gradient_of_x
from ms_ascend_ops.library import get_num_threads, native, set_num_threads
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch, tiles_of_a_chip
from tests.reference import conv2d as reference

# n, channels, h, w, output channels, kernel; stride, padding (top, bottom, left, right), dilation, groups
CASES = [
    ((1, 1, 1, 1, 1, (1, 1)), {}),
    ((2, 5, 6, 7, 3, (3, 3)), {"pad": (1, 1, 1, 1)}),  # tails of blocks
    ((2, 16, 9, 10, 20, (1, 1)), {}),  # no columns
    ((1, 9, 8, 12, 33, (1, 1)), {"stride": (2, 2)}),  # every second element
    ((2, 8, 11, 9, 12, (3, 3)), {"stride": (2, 2), "pad": (0, 1, 0, 1)}),  # rows that end in the padding
    ((1, 6, 13, 15, 4, (3, 2)), {"stride": (3, 4), "pad": (2, 0, 1, 3), "dilation": (2, 3)}),
    ((2, 12, 7, 5, 8, (3, 3)), {"pad": (1, 1, 1, 1), "groups": 4}),
    ((2, 6, 9, 8, 6, (3, 3)), {"pad": (1, 1, 1, 1), "groups": 6}),  # depthwise
    ((1, 4, 6, 6, 8, (3, 3)), {"stride": (2, 1), "pad": (1, 0, 2, 1), "groups": 4}),  # two of each channel
    ((1, 3, 4, 4, 5, (5, 4)), {"pad": (3, 2, 4, 3)}),  # kernel offsets that see padding alone; a kernel larger than x
    ((1, 40, 30, 40, 72, (3, 3)), {"pad": (1, 1, 1, 1)}),  # several tiles of positions and of channels
    ((1, 3, 3, 1100, 2, (3, 3)), {"pad": (1, 1, 1, 1)}),  # pieces of a row
    ((1, 600, 6, 20, 24, (3, 3)), {"pad": (1, 1, 1, 1)}),  # several chunks of terms
    ((2, 6, 7, 9, 4, (2, 3)), {"pad": (-1, -2, -1, 1)}),  # rows and columns that are left out
    ((0, 4, 5, 6, 3, (3, 3)), {}),  # no samples
    # Depthwise, with channels last: tiles of rows, of columns and of channels.
    ((2, 300, 12, 9, 300, (3, 3)), {"pad": (1, 1, 1, 1), "groups": 300}),
    ((1, 20, 4, 150, 20, (3, 5)), {"stride": (1, 2), "pad": (1, 2, 2, 2), "dilation": (2, 1), "groups": 20}),
    ((1, 20, 40, 60, 20, (5, 4)), {"pad": (2, 2, 2, 2), "groups": 20}),  # more positions than a float adds up
    ((1, 3, 40, 60, 3, (40, 60)), {"groups": 3}),  # channels last: too large a kernel for the Unified Buffer
]
TYPES = [("float16", "float16"), ("bfloat16", "float32"), ("float32", "float32")]
ACTIVATIONS = list(reference.ACTIVATIONS)


def arrays(rng, case, data_format):
    (n, channels, h, w, outs, kernel), options = case
    groups = options.get("groups", 1)
    x = draw(rng, (n, channels, h, w))
    weight = draw(rng, (outs, channels // groups, *kernel)) / (channels // groups * kernel[0] * kernel[1]) ** 0.5
    return [a if data_format == "NCHW" else np.moveaxis(a, 1, -1) for a in (x, weight)]


def check(case, types, data_format, has_bias, activation="none", flip=False, chip=0):
    with tiles_of_a_chip(chip):
        check_accuracy(case, types, data_format, has_bias, activation, flip)


def check_accuracy(case, types, data_format, has_bias, activation, flip):
    """Forward and gradients."""
    rng = np.random.default_rng(sum(case[0][:5]))
    attributes = reference.attributes(**case[1], data_format=data_format, flip_weight=flip)
    x, weight = arrays(rng, case, data_format)
    bias = draw(rng, (case[0][4],)) if has_bias else None
    (y,), rounded = launch("conv2d", [x, weight, bias], [types[0], *types], **attributes, activation=activation)
    lies = reference.transposed(weight, attributes["groups"], data_format)
    transposed = {**attributes, "transposed_weight": True, "activation": activation}
    (again,), _ = launch("conv2d", [x, lies, bias], [types[0], *types], **transposed)
    terms = reference.forward(*(None if values is None else np.abs(values) for values in rounded), **attributes)
    # The order of a library's sums is its own: some ULP of the terms.
    for result in (y, again):
        assert_accurate(result, reference.forward(*rounded, activation, **attributes), types[0], 8 * terms)
    if activation != "none":
        return
    dy = draw(rng, y.shape)
    (dweight, dbias), exact = launch("conv2d_grad", [dy, x, weight], [types[0]] * 3, **attributes)
    terms = reference.backward_weight(*map(np.abs, exact), **attributes)
    assert_accurate(dweight, reference.backward_weight(*exact, **attributes), types[0], 8 * terms)
    by_channel = np.moveaxis(exact[0], -1 if data_format == "NHWC" else 1, 0).reshape(len(weight), -1)
    assert_accurate(dbias, by_channel.sum(1), "float32", 8 * np.abs(by_channel).sum(1))


@cover("case", CASES, types=TYPES, data_format=["NCHW", "NHWC"], has_bias=[0, 1], chip=[0, 1])
def test_convolution_and_gradient(case, types, data_format, has_bias, chip):
    check(case, types, data_format, has_bias, chip=chip)


@cover("case", [CASES[1], CASES[4]], types=TYPES, activation=ACTIVATIONS[1:], data_format=["NCHW", "NHWC"], chip=[0, 1])
def test_epilogues(case, types, activation, data_format, chip):
    check(case, types, data_format, True, activation, chip=chip)


@pytest.mark.parametrize("chip", [0, 1])
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_the_gradient_of_a_bias_adds_up_many_positions(data_format, chip):
    """60,000 numbers of one sign, one after the other in float32, are off by 3e-6 of their sum, by parts by 6e-7."""
    rng = np.random.default_rng(0)
    attributes = reference.attributes(data_format=data_format)
    dy, x, weight = rng.random((1, 2, 300, 200)), rng.random((1, 1, 300, 200)), np.ones((2, 1, 1, 1))
    arrays = [a if data_format == "NCHW" else np.moveaxis(a, 1, -1) for a in (dy, x, weight)]
    with tiles_of_a_chip(chip):
        (_, dbias), (dy, _, _) = launch("conv2d_grad", arrays, ["float32"] * 3, **attributes)
    golden = dy.sum((0, 2, 3) if data_format == "NCHW" else (0, 1, 2))
    np.testing.assert_allclose(dbias, golden, rtol=2e-6)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@cover("case", CASES[:-1], dtype=FLOATS, chip=[0, 1])
def test_the_gradient_of_x_is_one_convolution_of_dy_with_gaps(case, dtype, data_format, chip):
    check_gradient_of_x(case, dtype, data_format, chip)


@pytest.mark.slow  # on the checked build
@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_the_gradient_of_x_with_a_kernel_as_large_as_x(data_format):
    check_gradient_of_x(CASES[-1], "float16", data_format, 0)


def check_gradient_of_x(case, dtype, data_format, chip):
    rng = np.random.default_rng(sum(case[0][:5]))
    attributes = reference.attributes(**case[1], data_format=data_format)
    x, weight = arrays(rng, case, data_format)
    dy = draw(rng, reference.forward(x, weight, **attributes).shape)
    whole = whole_gradient_of_x(attributes, x.shape, weight.shape, dy.shape)
    swapped = np.ascontiguousarray(weight).reshape(inputs_first(weight.shape, attributes["groups"], data_format))
    with tiles_of_a_chip(chip):
        (dx,), (dy, swapped, _) = launch("conv2d", [dy, swapped, None], [dtype, dtype, None], **whole)
    weight = swapped.reshape(weight.shape)
    terms = reference.backward_x(np.abs(dy), x, np.abs(weight), **attributes)
    assert_accurate(dx, reference.backward_x(dy, x, weight, **attributes), dtype, 8 * terms)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_an_infinity_of_x_reaches_the_kernel_elements_that_meet_it(data_format):
    """In a vector of the last columns others of x follow those that a kernel element meets."""
    attributes = reference.attributes(pad=(1, 1, 2, 2), groups=3, data_format=data_format)
    x, dy, weight = np.ones((1, 3, 5, 20)), np.ones((1, 3, 5, 20)), np.ones((3, 1, 3, 5))
    x[0, 0, 2, -1] = np.inf
    arrays = [a if data_format == "NCHW" else np.moveaxis(a, 1, -1) for a in (dy, x, weight)]
    (dweight, _), _ = launch("conv2d_grad", arrays, ["float32"] * 3, **attributes)
    meets = np.zeros((3, 3, 5), bool)
    meets[0, :, 2:] = True
    np.testing.assert_array_equal(np.isposinf(dweight.reshape(3, 3, 5)), meets)
    assert np.isfinite(dweight.reshape(3, 3, 5)[~meets]).all()


def small(low, high):
    return st.integers(low, high)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.tuples(small(1, 2), small(1, 9), small(1, 12), small(1, 12), small(1, 9), st.tuples(small(1, 4), small(1, 4))),
    st.tuples(small(1, 3), small(1, 3)), st.tuples(*[small(-1, 4)] * 4), st.tuples(small(1, 3), small(1, 3)),
    small(1, 3), st.sampled_from(FLOATS), st.sampled_from(["NCHW", "NHWC"]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_geometry(sizes, stride, pad, dilation, groups, dtype, data_format, flip, chip):
    n, channels, h, w, outs, kernel = sizes
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    # Room for the kernel, also in what is left of x.
    h, w = (max(size, span + 2) for size, span in zip((h, w), spans, strict=True))
    case = ((n, channels * groups, h, w, outs * groups, kernel), {
        "stride": stride, "pad": pad, "dilation": dilation, "groups": groups
    })  # fmt: skip
    check(case, (dtype, dtype), data_format, False, flip=flip, chip=chip)


# Enough work for several threads, and a square weight, which the gradient of x takes as it is.
ALIKE = ((1, 40, 30, 40, 40, (3, 3)), {"pad": (1, 1, 1, 1)})
OF_X = {"flip_weight": True, "transposed_weight": True}


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", [ALIKE, CASES[15]], ids=["one group", "depthwise"])
def test_results_do_not_depend_on_the_number_of_threads(case, dtype, data_format):
    rng = np.random.default_rng(0)
    attributes = reference.attributes(**case[1], data_format=data_format)
    x, weight = arrays(rng, case, data_format)
    results, before = [], get_num_threads()
    try:
        for threads in (1, 3):
            set_num_threads(threads)
            y = launch("conv2d", [x, weight, None], [dtype, dtype, None], **attributes)[0][0]
            (dx,), _ = launch("conv2d", [y, weight, None], [dtype, dtype, None], **attributes, **OF_X)
            results.append((y, dx, *launch("conv2d_grad", [y, x, weight], [dtype] * 3, **attributes)[0]))
    finally:
        set_num_threads(before)
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_shapes_that_the_rules_do_not_know():
    x, weight, y, dbias = (np.zeros(s, np.float32) for s in ((1, 4, 5, 5), (6, 3, 3, 3), (1, 6, 3, 3), (6,)))
    with pytest.raises(
        ValueError, match=r"conv2d: weight.shape\[1\] must be x.shape\[1\] / groups \(4\), got \(6, 3, 3, 3\)"
    ):
        native().launch("conv2d", [x, weight, None], [y], {})
    with pytest.raises(
        ValueError, match=r"conv2d_grad: dy.shape\[2\] must be that of the output \(3\), got \(1, 6, 2, 3\)"
    ):
        native().launch("conv2d_grad", [y[:, :, :2].copy(), x[:, :3].copy(), weight], [weight.copy(), dbias], {})
    with pytest.raises(ValueError, match=r"conv2d_grad.*no gradient of a transposed weight"):
        native().launch(
            "conv2d_grad", [y, x[:, :3].copy(), weight], [weight.copy(), dbias], {"transposed_weight": True}
        )
