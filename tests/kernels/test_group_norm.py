import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_ascend_ops import registry
from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cann_bench import cases, draw_range
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import group_norm as reference

TYPES = [(row["T"], row["G"]) for row in registry.signature("group_norm").types]
FORMATS = ("NCHW", "NHWC")

# N, C, spatial dims; groups
SHAPES = [
    ((1, 1), 1),  # one value
    ((3, 6), 3),  # no spatial dims, tiny groups: many to a tile
    ((300, 40), 8),  # no spatial dims, many samples in a tile
    ((2, 5000), 1),  # no spatial dims, a group of more channels than a tile
    ((2, 6, 5), 6),  # instance norm, channels shorter than a block
    ((2, 64, 8, 8), 32),  # channels of one repeat
    ((3, 10, 7, 7), 2),  # channels that are not aligned
    ((2, 7, 13, 19), 7),
    ((5, 33, 31), 11),  # groups of three channels
    ((2, 20, 64, 64), 4),  # long channels: one a tile
    ((1, 3, 260, 130), 1),  # channels in pieces; one group for all cores
    ((1, 4, 3, 5, 7, 11), 2),  # rank 6
    ((2, 1030, 6), 2),  # channels last: more than one tile of channels
    ((1, 2500, 3), 1),  # a group of more channels than a tile
    ((70, 4, 2, 3), 2),
]


def put(x, data_format):
    return np.moveaxis(x, 1, -1) if data_format == "NHWC" else x


@cover("shape, groups", SHAPES, types=TYPES, data_format=FORMATS, activation=["none", "silu", "relu"])
def test_forward(shape, groups, types, data_format, activation):
    rng = np.random.default_rng(sum(shape))
    inputs = [put(draw(rng, shape), data_format), draw(rng, shape[1], 2), draw(rng, shape[1], 2)]
    attributes = {"num_groups": groups, "epsilon": 1e-4, "activation": activation, "data_format": data_format}
    (y, mean, rstd), rounded = launch("group_norm", inputs, [*types, types[1]], **attributes)
    golden_y, golden_mean, golden_rstd = reference.forward(*rounded, **attributes)
    assert_accurate(y, golden_y, types[0], reference.forward_terms(*rounded, **attributes))
    assert_accurate(mean, golden_mean, "float32", np.abs(rounded[0]).max())
    assert_accurate(rstd, golden_rstd, "float32")


@cover("shape, groups", SHAPES, types=TYPES, data_format=FORMATS, activation=["none", "silu", "relu"])
def test_gradient(shape, groups, types, data_format, activation):
    rng = np.random.default_rng(sum(shape))
    x, dy = (put(draw(rng, shape), data_format) for _ in range(2))
    gamma, beta = draw(rng, shape[1], 2), draw(rng, shape[1], 2)
    dmean, drstd = (draw(rng, (shape[0], groups)) for _ in range(2))
    attributes = {"num_groups": groups, "epsilon": 1e-2, "activation": activation, "data_format": data_format}
    (_, mean, rstd), _ = launch("group_norm", [x, gamma, beta], [*types, types[1]], **attributes)
    dtypes = [types[0], "float32", "float32", types[0], "float32", "float32", types[1], types[1]]
    outputs, rounded = launch("group_norm_grad", [dy, dmean, drstd, x, mean, rstd, gamma, beta], dtypes, **attributes)
    exact = *rounded[:4], rounded[6], rounded[7]
    golden, terms = reference.backward(*exact, **attributes), reference.backward_terms(*exact, **attributes)
    for value, exact_value, sums, dtype in zip(outputs, golden, terms, [types[0], types[1], types[1]], strict=True):
        assert_accurate(value, exact_value, dtype, sums)


def test_gradient_again_and_again():
    """Groups of few channels: their factors are 16 bits with gaps between, cast in one stage and used in another."""
    shape, groups, dtype, rng = (3, 96, 10, 10), 32, "bfloat16", np.random.default_rng(0)
    attributes = {"num_groups": groups, "epsilon": 1e-4}
    x, dy = draw(rng, shape), draw(rng, shape)
    gamma, beta = draw(rng, shape[1], 2), draw(rng, shape[1], 2)
    (_, mean, rstd), _ = launch("group_norm", [x, gamma, beta], [dtype] * 3, **attributes)
    state = [rng.standard_normal((3, groups)) for _ in range(2)]
    types = [dtype, "float32", "float32", dtype, "float32", "float32", dtype, dtype]
    for _ in range(3):
        results, rounded = launch("group_norm_grad", [dy, *state, x, mean, rstd, gamma, beta], types, **attributes)
        exact = *rounded[:4], *rounded[6:]
        golden, terms = reference.backward(*exact, **attributes), reference.backward_terms(*exact, **attributes)
        for got, want, term in zip(results, golden, terms, strict=True):
            assert_accurate(got, want, dtype, term)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("shape", [(2, 64), (2, 12, 30, 30), (1, 4, 200, 200)], ids=str)
def test_a_large_mean_does_not_cancel(shape, data_format):
    """float32 holds the mean to 5e-4 only: y is accurate nevertheless."""
    x = put(np.random.default_rng(1).normal(1e4, 1, shape), data_format)
    inputs = [x, np.ones(shape[1]), np.zeros(shape[1])]
    attributes = {"num_groups": 2, "data_format": data_format}
    (y, _, rstd), rounded = launch("group_norm", inputs, ["float32"] * 3, **attributes)
    golden_y, _, golden_rstd = reference.forward(*rounded, **attributes)
    assert np.abs(y - golden_y).max() < 5e-6
    assert_accurate(rstd, golden_rstd, "float32")


@pytest.mark.parametrize("data_format", FORMATS)
def test_channels_far_apart(data_format):
    """The channels of a group have means of their own: their distances are part of the variance."""
    x = np.random.default_rng(1).normal(0, 1, (2, 6, 40, 40)) + 100 * np.arange(6).reshape(1, 6, 1, 1)
    inputs = [put(x, data_format), np.ones(6), np.zeros(6)]
    attributes = {"num_groups": 2, "data_format": data_format}
    (y, _, rstd), rounded = launch("group_norm", inputs, ["float32"] * 3, **attributes)
    golden_y, _, golden_rstd = reference.forward(*rounded, **attributes)
    assert np.abs(y - golden_y).max() < 1e-5
    assert_accurate(rstd, golden_rstd, "float32")


@pytest.mark.parametrize("which", ["group", "channel"])
@pytest.mark.parametrize(
    ("shape", "groups"), [((2, 16, 14, 14), 2), ((1, 40, 64, 64), 4), ((1, 64, 64, 64), 1)], ids=str
)
def test_first_elements_unlike_the_others(shape, groups, which):
    """The variance is calculated from the distances to the mean of a few elements: these should not be the unlike."""
    x = np.random.default_rng(1).normal(0, 1, shape).astype(np.float32)
    rows = x.reshape(shape[0] * (groups if which == "group" else shape[1]), -1)
    rows[:, :64] += 1000
    inputs = [x, np.ones(shape[1]), np.zeros(shape[1])]
    (_, mean, rstd), rounded = launch("group_norm", inputs, ["float32"] * 3, num_groups=groups)
    _, golden_mean, golden_rstd = reference.forward(*rounded, num_groups=groups)
    assert_accurate(mean, golden_mean, "float32", np.abs(x).max())
    assert_accurate(rstd, golden_rstd, "float32")


@pytest.mark.parametrize("data_format", FORMATS)
def test_first_positions_unlike_the_others(data_format):
    """A shift from these alone would be as far from the others as their mean is from 0."""
    x = np.random.default_rng(1).normal(1e4, 1, (1, 4, 150, 150))
    x[:, :, 0] = 0
    inputs = [put(x, data_format), np.ones(4), np.zeros(4)]
    (_, mean, rstd), rounded = launch("group_norm", inputs, ["float32"] * 3, num_groups=2, data_format=data_format)
    _, golden_mean, golden_rstd = reference.forward(*rounded, num_groups=2, data_format=data_format)
    assert_accurate(mean, golden_mean, "float32", np.abs(x).max())
    assert np.abs(rstd / golden_rstd - 1).max() < 1e-6


@pytest.mark.parametrize("data_format", FORMATS)
@given(
    offset=st.floats(-1e4, 1e4),
    level=st.floats(-1e4, 1e4),
    begin=st.integers(0, 2999),
    length=st.integers(1, 3000),
    channels=st.integers(1, 6),
)
@settings(max_examples=40)
def test_the_variance_of_positions_with_levels(data_format, offset, level, begin, length, channels):
    """Some positions, wherever they are, at a level of their own, as large as the mean or not."""
    x = np.random.default_rng(length).normal(offset, 1, (1, channels, 3000))
    x[:, :, begin : begin + length] += level
    inputs = [put(x, data_format), np.ones(channels), np.zeros(channels)]
    (_, _, rstd), rounded = launch("group_norm", inputs, ["float32"] * 3, num_groups=1, data_format=data_format)
    _, _, golden_rstd = reference.forward(*rounded, num_groups=1, data_format=data_format)
    assert np.abs(rstd / golden_rstd - 1).max() < 4e-6


@pytest.mark.parametrize("spatial", [(), (5,), (70, 70)], ids=str)
def test_equal_values(spatial):
    x = np.empty((4, 6, *spatial))
    x[:] = np.reshape([0.0, -0.0, 1e4, 2.0**-140], (4, *[1] * (1 + len(spatial))))
    (y, _, rstd), _ = launch("group_norm", [x, np.ones(6), np.full(6, 3.0)], ["float32"] * 3, num_groups=2)
    assert np.abs(y - 3).max() < 1e-6
    assert np.allclose(rstd, 1e-5**-0.5, rtol=1e-6)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("spatial", [(), (9, 9), (60, 60)], ids=str)
def test_special_values_stay_in_their_group(spatial, value, data_format):
    x = np.random.default_rng(0).normal(size=(2, 6, *spatial))
    vectors, attributes = [np.ones(6), np.zeros(6)], {"num_groups": 3, "data_format": data_format}
    clean = launch("group_norm", [put(x, data_format), *vectors], ["float32"] * 3, **attributes)[0]
    x[1, 3].reshape(-1)[-1:] = value
    x[1, 3] = x[1, 3] if spatial else value
    y, mean, rstd = launch("group_norm", [put(x, data_format), *vectors], ["float32"] * 3, **attributes)[0]
    y, clean[0] = (np.moveaxis(array, -1, 1) if data_format == "NHWC" else array for array in (y, clean[0]))
    assert np.all(np.isnan(y[1, 2:4]))
    assert np.isnan(rstd[1, 1])
    assert not np.isfinite(mean[1, 1])
    clean[0][1, 2:4] = y[1, 2:4] = 0
    clean[1][1, 1] = mean[1, 1] = clean[2][1, 1] = rstd[1, 1] = 0
    for output, other in zip((y, mean, rstd), clean, strict=True):
        assert np.array_equal(output, other)


@pytest.mark.parametrize("data_format", FORMATS)
@pytest.mark.parametrize(("shape", "groups"), [((3, 12, 50), 4), ((1, 4, 220, 220), 2), ((40, 6), 2)], ids=str)
def test_the_number_of_cores_does_not_change_results(shape, groups, data_format):
    """Whether cores share the stages or take groups of their own."""
    rng = np.random.default_rng(3)
    x, dy = (put(draw(rng, shape), data_format) for _ in range(2))
    vectors, states = [draw(rng, shape[1]), draw(rng, shape[1])], draw(rng, (2, shape[0], groups))
    attributes = {"num_groups": groups, "activation": "silu", "data_format": data_format}
    results = []
    for threads in (1, 2, 5):
        native().set_thread_num(threads)
        try:
            forward = launch("group_norm", [x, *vectors], ["float32"] * 3, **attributes)[0]
            inputs = [dy, *states, x, *forward[1:], *vectors]
            results.append(forward + launch("group_norm_grad", inputs, ["float32"] * 8, **attributes)[0])
        finally:
            native().set_thread_num(0)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("case", cases("GroupNorm"), ids=lambda case: f"case{case['case_id']}")
def test_cann_bench(case):
    rng = np.random.default_rng(case["case_id"])
    inputs = [draw_range(rng, shape, case["value_range"]) for shape in case["input_shape"]]
    (y, mean, rstd), rounded = launch("group_norm", inputs, case["dtype"], **case["attrs"])
    golden_y, golden_mean, golden_rstd = reference.forward(*rounded, **case["attrs"])
    assert_accurate(y, golden_y, case["dtype"][0], reference.forward_terms(*rounded, **case["attrs"]))
    assert_accurate(mean, golden_mean, "float32", np.abs(rounded[0]).max())
    assert_accurate(rstd, golden_rstd, "float32")
