import numpy as np

from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import dynamic_quant as reference

SHAPES = [
    (1, 64),  # one repeat
    (3, 1),  # one element
    (2, 3, 33),  # gaps between rows
    (37, 100),  # more rows than a block, a lane of maxima
    (300, 72),  # several tiles
    (5, 4096),  # a row a step
    (2, 4097),
    (70, 2048),
    (2, 65537),  # longer than a tile
    (1, 65600),
    (0, 8),  # no rows
]
TYPES = ["float16", "bfloat16", "float32"]


@cover("shape", SHAPES, dtype=TYPES, smooth=[0, 1])
def test_numbers_and_scales(shape, dtype, smooth):
    rng = np.random.default_rng(sum(shape))
    scales = rng.uniform(0.5, 2, shape[-1:]) if smooth else None
    (y, scale), (x, scales) = launch("dynamic_quant", [draw(rng, shape), scales], [dtype, dtype])
    expected, golden = reference.forward(x, scales)
    assert y.shape == shape
    assert scale.shape == shape[:-1]
    np.testing.assert_allclose(scale, golden, rtol=3e-7)
    quotient = reference.smoothed(x, scales) / golden[..., None] if y.size else y
    # Beside ties, where the float32 quotient decides; at them the neighbour.
    clear = np.abs(quotient - np.floor(quotient) - 0.5) > 1e-4
    np.testing.assert_array_equal(y[clear], expected[clear])
    assert (np.abs(y - quotient) <= 0.5 + 1e-4).all()


def test_magnitudes_of_any_size():
    """The largest is 127, or -127; a scale alone would be beyond float32 for some."""
    sizes = np.array([2.0**-149, 2.0**-140, 2.0**-126, 1e-30, 1.0, 1e30, 3.4e38])
    x = sizes[:, None] * np.array([[1.0, -0.3, 0.25, 0.0, -1.0]])
    (y, scale), (x, _) = launch("dynamic_quant", [x, None], ["float32"] * 2)
    np.testing.assert_array_equal(y[:, 0], 127)
    np.testing.assert_array_equal(y[:, 4], -127)
    np.testing.assert_array_equal(y, reference.forward(x)[0])
    assert (np.abs(scale - sizes / 127) <= 3e-7 * sizes / 127 + 2.0**-149).all()


def test_rows_that_are_zero_or_not_finite():
    x = np.ones((4, 40))
    x[0], x[1, 3], x[2, 4] = 0, np.nan, -np.inf
    (y, scale), _ = launch("dynamic_quant", [x, None], ["float16"] * 2)
    np.testing.assert_array_equal(scale[[0, 1, 2]], [0, np.nan, np.inf])
    np.testing.assert_array_equal(y[0], 0)
    np.testing.assert_array_equal(y[3], 127)
    np.testing.assert_allclose(scale[3], 1 / 127, rtol=3e-7)
