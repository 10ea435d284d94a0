import numpy as np
import pytest

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch, tiles_of_a_chip
from tests.reference import conv2d, group_norm
from tests.reference import conv2d_group_norm as reference

TYPES = [(row["T"], row["G"]) for row in registry.signature("conv2d_group_norm").types]

# n, channels, h, w, output channels, kernel, groups of the norm; options of the convolution
CASES = [
    ((1, 1, 1, 1, 1, (1, 1), 1), {}),  # one value
    ((3, 8, 1, 1, 12, (1, 1), 4), {}),  # one position
    ((2, 5, 6, 7, 6, (3, 3), 2), {"pad": (1, 1, 1, 1)}),  # tails of blocks
    ((2, 16, 9, 10, 20, (1, 1), 4), {}),  # no columns
    ((2, 8, 11, 9, 12, (3, 3), 12), {"stride": (2, 2), "pad": (0, 1, 0, 1)}),  # instance norm
    ((1, 6, 13, 15, 4, (3, 2), 1), {"stride": (3, 4), "pad": (2, 0, 1, 3), "dilation": (2, 3)}),  # layer norm
    ((2, 12, 7, 5, 8, (3, 3), 2), {"pad": (1, 1, 1, 1), "groups": 4}),  # a group of the norm has two of channels
    ((2, 6, 9, 8, 12, (3, 3), 3), {"pad": (1, 1, 1, 1), "groups": 6}),  # groups of the norm that cross those
    ((1, 40, 30, 40, 72, (3, 3), 3), {"pad": (1, 1, 1, 1)}),  # groups that lie in several tiles of channels
    ((2, 4, 8, 1100, 6, (3, 3), 2), {"pad": (1, 1, 1, 1)}),  # pieces of a row, the last of them smaller
    ((2, 9, 40, 37, 16, (1, 1), 4), {}),  # the same of positions that are one row
    ((1, 200, 6, 20, 24, (3, 3), 2), {"pad": (1, 1, 1, 1)}),  # several chunks of terms
    ((1, 3, 4, 4, 1100, (2, 2), 1), {}),  # a group of more channels than are combined at a time
]
FORMATS = ["NCHW", "NHWC"]


def tensors(rng, case, data_format, given):
    """x, weight, gamma, beta, bias, shift, residual, of which the last three may be absent."""
    (n, channels, h, w, outs, kernel, _), options = case
    groups = options.get("groups", 1)
    x = draw(rng, (n, channels, h, w))
    weight = draw(rng, (outs, channels // groups, *kernel)) / (channels // groups * kernel[0] * kernel[1]) ** 0.5
    shape = conv2d.forward(x, weight, **conv2d.attributes(**options)).shape
    maybe = [values if given else None for values in (draw(rng, outs), draw(rng, (n, outs)), draw(rng, shape))]
    placed = [
        values if values is None or data_format == "NCHW" else np.moveaxis(values, 1, -1)
        for values in (x, weight, maybe[2])
    ]
    return [*placed[:2], draw(rng, outs, 2), draw(rng, outs, 2), *maybe[:2], placed[2]]


def attributes_of(case, data_format, activation="none"):
    norm = {"num_groups": case[0][6], "epsilon": 1e-4, "activation": activation}
    return {**conv2d.attributes(**case[1], data_format=data_format), **norm}


def run(inputs, types, attributes):
    t, g = types
    return launch("conv2d_group_norm", inputs, [t, t, g, g, g, t, t], **attributes)


def check(case, types, data_format, given, activation, chip):
    with tiles_of_a_chip(chip):
        check_accuracy(case, types, data_format, given, activation)


def check_accuracy(case, types, data_format, given, activation):
    rng = np.random.default_rng(sum(case[0][:5]))
    attributes = attributes_of(case, data_format, activation)
    (y, z, mean, rstd), rounded = run(tensors(rng, case, data_format, given), types, attributes)
    golden = reference.convolution(*rounded[:2], *rounded[4:], **attributes)
    magnitudes = [None if values is None else np.abs(values) for values in rounded]
    terms = reference.convolution(*magnitudes[:2], *magnitudes[4:], **attributes)
    assert_accurate(z, golden, types[0], 8 * terms)  # the order of a library's sums is its own
    norm = reference.norm_attributes(attributes)
    golden_y, golden_mean, golden_rstd = group_norm.forward(z, *rounded[2:4], **norm)
    assert_accurate(y, golden_y, types[0], group_norm.forward_terms(z, *rounded[2:4], **norm))
    assert_accurate(mean, golden_mean, "float32", np.abs(z).max(initial=0))
    assert_accurate(rstd, golden_rstd, "float32")


@cover("case", CASES, types=TYPES, data_format=FORMATS, given=[0, 1], activation=["none", "silu", "relu"], chip=[0, 1])
def test_forward(case, types, data_format, given, activation, chip):
    check(case, types, data_format, given, activation, chip)


def test_all_queues_at_once():
    """Columns of every second element, and all that can be added: a position of the Unified Buffer has 8 buffers."""
    check(CASES[4], ("bfloat16", "float32"), "NCHW", 1, "silu", chip=1)


@cover("kinds", ["shift", "residual"], types=TYPES, data_format=FORMATS, chip=[0, 1])
def test_one_addend(kinds, types, data_format, chip):
    rng = np.random.default_rng(0)
    case, dtypes = CASES[9], [types[0], types[0], *[types[1]] * 3, *[types[0]] * 2]
    inputs = tensors(rng, case, data_format, True)
    inputs[5 if kinds == "residual" else 6] = None
    attributes = attributes_of(case, data_format)
    with tiles_of_a_chip(chip):
        (_, z, _, _), rounded = launch("conv2d_group_norm", inputs, dtypes, **attributes)
    golden = reference.convolution(*rounded[:2], *rounded[4:], **attributes)
    magnitudes = [None if values is None else np.abs(values) for values in rounded]
    assert_accurate(z, golden, types[0], 8 * reference.convolution(*magnitudes[:2], *magnitudes[4:], **attributes))


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_library_of_conv2d_answers(dtype, data_format):
    for case in CASES:
        attributes = attributes_of(case, data_format)
        inputs = tensors(np.random.default_rng(0), case, data_format, 0)
        shapes = [None if values is None else values.shape for values in inputs]
        answers = native().answering_library("conv2d_group_norm", shapes, [dtype] * 7, attributes)
        plain = reference.convolution_attributes(attributes)
        assert answers == native().answering_library("conv2d", [*shapes[:2], None], [dtype] * 3, plain)


def test_no_samples():
    case = ((0, 4, 5, 6, 3, (3, 3), 1), {})
    results, _ = run(tensors(np.random.default_rng(0), case, "NCHW", True), TYPES[-1], attributes_of(case, "NCHW"))
    assert [result.shape for result in results] == [(0, 3, 3, 4), (0, 3, 3, 4), (0, 1), (0, 1)]


@cover("case", CASES[2:4], types=TYPES[2:], data_format=FORMATS)
@pytest.mark.parametrize("chip", [0, 1])
def test_z_is_that_of_conv2d(case, types, data_format, chip):
    attributes = attributes_of(case, data_format)
    x, weight, gamma, beta, bias = tensors(np.random.default_rng(0), case, data_format, True)[:5]
    plain = reference.convolution_attributes(attributes)
    with tiles_of_a_chip(chip):
        (_, z, _, _), _ = run([x, weight, gamma, beta, bias, None, None], types, attributes)
        (of_conv2d,), _ = launch("conv2d", [x, weight, bias], [types[0], *types], **plain)
    np.testing.assert_array_equal(z, of_conv2d)


@pytest.mark.parametrize("data_format", FORMATS)
def test_a_mean_far_from_zero(data_format):
    """Sums of squares would have nothing left of a deviation of 1."""
    case = CASES[8]
    attributes = attributes_of(case, data_format)
    inputs = tensors(np.random.default_rng(0), case, data_format, True)
    inputs[4] = inputs[4] + 3e4
    (y, z, _, rstd), rounded = run(inputs, ("float32", "float32"), attributes)
    golden_y, _, golden_rstd = group_norm.forward(z, *rounded[2:4], **reference.norm_attributes(attributes))
    ulp = 2.0**-9  # of 3e4: the mean of a channel is a float, and so is each z
    assert np.abs(rstd / golden_rstd - 1).max() < ulp * golden_rstd.max()
    assert np.abs(y - golden_y).max() < ulp * np.abs(rounded[2]).max() * golden_rstd.max()


def test_shapes_that_the_rules_do_not_know():
    shapes = ((1, 4, 5, 5), (6, 4, 3, 3), (6,), (6,), (1, 6, 2, 3))
    x, weight, gamma, beta, residual = (np.zeros(shape, np.float32) for shape in shapes)
    y, statistics = np.zeros((1, 6, 3, 3), np.float32), np.zeros((1, 4), np.float32)
    outputs = [y, y.copy(), statistics, statistics.copy()]
    with pytest.raises(ValueError, match=r"conv2d_group_norm.*multiple of num_groups \(4\), got \(6, 4, 3, 3\)"):
        native().launch("conv2d_group_norm", [x, weight, gamma, beta, None, None, None], outputs, {"num_groups": 4})
    outputs[2:] = [statistics[:, :2].copy(), statistics[:, :2].copy()]
    with pytest.raises(
        ValueError, match=r"conv2d_group_norm: residual.shape\[2\] must be that of the output \(3\), got \(1, 6, 2, 3\)"
    ):
        native().launch("conv2d_group_norm", [x, weight, gamma, beta, None, None, residual], outputs, {"num_groups": 2})
