import numpy as np
import pytest

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import layer_norm as reference

TYPES = [(row["T"], row["G"]) for row in registry.signature("layer_norm").types]

SHAPES = [
    ((1,), 1),  # one element
    ((31,), 1),  # shorter than one instruction
    ((4, 64), 1),  # one repeat, and around it
    ((300, 8), 1),
    ((5, 63), 1),
    ((5, 65), 1),
    ((5, 128), 1),  # two repeats
    ((3, 4097), 1),  # a tail after whole repeats
    ((5, 5120), 1),  # float32: a row that fits in single buffers only
    ((2, 65537), 1),  # a row larger than the Unified Buffer
    ((257, 129), 1),  # many short rows that no number of cores divides
    ((3, 5, 7, 9), 3),  # several trailing axes
    ((1023, 256), 1),
]
SINGLE_BUFFERS = [(((5, 5120), 1), ("float32", "float32"), activation) for activation in ("none", "relu")]


@cover("shape, axes", SHAPES, also=SINGLE_BUFFERS, types=TYPES, activation=["none", "relu"])
def test_forward(shape, axes, types, activation):
    rng = np.random.default_rng(len(shape) + shape[-1])
    inputs = [draw(rng, shape), draw(rng, shape[-axes:], 2), draw(rng, shape[-axes:], 2)]
    (y, mean, rstd), rounded = launch("layer_norm", inputs, [*types, types[1]], epsilon=1e-4, activation=activation)
    golden_y, golden_mean, golden_rstd = reference.forward(*rounded, 1e-4, activation)
    assert_accurate(y, golden_y, types[0], reference.forward_terms(*rounded, 1e-4))
    assert_accurate(mean, golden_mean, "float32", np.abs(rounded[0]).max())
    assert_accurate(rstd, golden_rstd, "float32")


@cover("shape, axes", SHAPES, also=SINGLE_BUFFERS, types=TYPES, activation=["none", "relu"])
def test_gradient(shape, axes, types, activation):
    rng = np.random.default_rng(len(shape) + shape[-1])
    batch = (*shape[:-axes], *[1] * axes)
    x, gamma, dy = draw(rng, shape), draw(rng, shape[-axes:], 2), draw(rng, shape)
    dmean, drstd = draw(rng, batch), draw(rng, batch)
    beta = draw(rng, shape[-axes:], 1)
    (z, mean, rstd), _ = launch("layer_norm", [x, gamma, beta], [*types, types[1]])
    if activation == "relu":  # where rounding may decide whether z is positive, there is no gradient to compare
        dy = np.where(np.abs(z) < 1e-3 * np.abs(z).max(), 0, dy)
    dtypes = [types[0], "float32", "float32", types[0], "float32", "float32", types[1], types[1]]
    inputs = [dy, dmean, drstd, x, mean, rstd, gamma, beta]
    outputs, rounded = launch("layer_norm_grad", inputs, dtypes, activation=activation)
    exact = *rounded[:4], rounded[6]
    if activation == "relu":
        exact = (reference.masked(rounded[0], rounded[3], *rounded[6:]), *exact[1:])
    golden, terms = reference.backward(*exact), reference.backward_terms(*exact)
    for value, exact_value, sums, dtype in zip(outputs, golden, terms, [types[0], types[1], types[1]], strict=True):
        assert_accurate(value, exact_value, dtype, sums)


@pytest.mark.parametrize("cols", [64, 100, 1000, 4096, 70000])
def test_a_large_mean_does_not_cancel(cols):
    """float32 holds the mean to 5e-4 only, a two-pass variance in float32 is no better: y is accurate nevertheless."""
    x = np.random.default_rng(cols).normal(1e4, 1, (4, cols))
    (y, mean, rstd), rounded = launch("layer_norm", [x, np.ones(cols), np.zeros(cols)], ["float32"] * 3)
    golden_y, golden_mean, golden_rstd = reference.forward(*rounded)
    assert np.abs(y - golden_y).max() < 4e-6
    assert_accurate(rstd, golden_rstd, "float32")
    assert np.array_equal(mean, golden_mean.astype(np.float32))


@pytest.mark.parametrize("cols", [1000, 4096, 70000])
def test_a_probe_far_from_the_mean(cols):
    """The first columns are nothing like the rest."""
    x = np.random.default_rng(cols).normal(0, 1, (4, cols))
    x[:, : cols // 16] += 1e4
    (y, _, rstd), rounded = launch("layer_norm", [x, np.ones(cols), np.zeros(cols)], ["float32"] * 3)
    golden_y, _, golden_rstd = reference.forward(*rounded)
    assert np.abs(y - golden_y).max() < 1e-5
    assert np.abs(rstd / golden_rstd - 1).max() < 1e-5


def test_equal_values():
    x = np.repeat([0.0, -0.0, 1e4, 2.0**-140], 100).reshape(4, 100)
    (y, mean, rstd), _ = launch("layer_norm", [x, np.ones(100), np.full(100, 3.0)], ["float32"] * 3)
    assert np.abs(y - 3).max() < 1e-6
    assert np.array_equal(mean, np.float32(x[:, :1]))
    assert np.allclose(rstd, 1e-5**-0.5, rtol=1e-6)


def test_distances_beyond_float32():
    """Their row is beta; a large mean alone does no harm."""
    x = np.random.default_rng(0).normal(size=(3, 64))
    x[0] *= 1e25
    x[1] += 1e6
    (y, _, rstd), rounded = launch("layer_norm", [x, np.ones(64), np.full(64, 0.5)], ["float32"] * 3)
    assert (y[0] == 0.5).all()
    assert (rstd[0] == 0).all()
    golden, terms = (f(*rounded) for f in (reference.forward, reference.forward_terms))
    assert_accurate(y[1:], golden[0][1:], "float32", terms[1:])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 37, 99])
def test_special_values_stay_in_their_row(value, place):
    x = np.random.default_rng(0).normal(size=(3, 100))
    clean = launch("layer_norm", [x, np.ones(100), np.zeros(100)], ["float32"] * 3)[0]
    x[1, place] = value
    y, mean, rstd = launch("layer_norm", [x, np.ones(100), np.zeros(100)], ["float32"] * 3)[0]
    assert np.all(np.isnan(y[1]))
    assert np.isnan(rstd[1, 0])
    assert not np.isfinite(mean[1, 0])
    for output, other in zip((y, mean, rstd), clean, strict=True):
        assert np.array_equal(output[[0, 2]], other[[0, 2]])
