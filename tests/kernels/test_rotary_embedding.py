import numpy as np
import pytest

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import rotary_embedding as reference

TYPES = [(row["T"], row["C"]) for row in registry.signature("rotary_embedding").types]
MODES = ["half", "interleave"]
WIDTHS = ["once", "twice", "own"]  # how often an angle stands in a table; see width_of()

CASES = [  # x, axis of the sequence, leading dims of the tables, rotary_dim
    ((2, 5, 3, 128), 1, (), 0),
    ((1, 33, 32, 128), 1, (), 0),  # several tiles
    ((2, 3, 37, 64), 2, (), 0),  # BNSD
    ((3, 1, 8, 64), 1, (3,), 0),  # decoding: a position a sequence
    ((2, 3, 5, 64), 2, (2, 1), 0),  # BNSD, tables for every sequence
    ((50, 3, 3, 16), 2, (), 0),  # many short sequences: several to a tile
    ((7, 2, 3, 20), 1, (), 0),  # halves that are no whole blocks
    ((3, 4, 2, 2), 1, (), 0),  # one pair
    ((2, 5, 3, 128), 1, (), 64),  # the first half of a head
    ((2, 5, 3, 80), 1, (2,), 20),
    ((1, 300, 1, 32), 1, (), 0),  # one head, more positions than repeats
    ((1, 2, 600, 64), 1, (), 0),  # heads that do not fit one tile
    ((2, 3, 2, 2056), 1, (), 0),  # heads longer than the stride of an instruction
    ((31, 6), 0, (), 0),  # (seq, d)
]


def tables(rng, shape, axis, lead, width):
    angles = rng.uniform(-np.pi, np.pi, (*lead, shape[axis], width))
    return np.cos(angles), np.sin(angles)


def width_of(table, mode, width):
    """Every angle once, or twice; "own": other values for the second element of a pair."""
    if width == "once":
        return table
    second = table if width == "twice" else np.flip(table, -1) * 0.75
    both = np.stack([table, second], -1)
    return np.concatenate([table, second], -1) if mode == "half" else both.reshape(*table.shape[:-1], -1)


@cover("shape, axis, lead, rotary_dim", CASES, types=TYPES, mode=MODES, width=WIDTHS)
def test_forward_and_gradient(shape, axis, lead, rotary_dim, types, mode, width):
    rng = np.random.default_rng(len(shape) + shape[-1])
    cos, sin = tables(rng, shape, axis, lead, (rotary_dim or shape[-1]) // 2)
    inputs = [draw(rng, shape), width_of(cos, mode, width), width_of(sin, mode, width)]
    attributes = {"mode": mode, "seq_axis": axis, "rotary_dim": rotary_dim, "separate_halves": width == "own"}
    for name, golden in (("rotary_embedding", reference.forward), ("rotary_embedding_grad", reference.backward)):
        (y,), exact = launch(name, inputs, [types[0], types[1], types[1]], **attributes)
        assert_accurate(y, golden(*exact, **attributes), types[0], reference.terms(*exact, **attributes))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [8, 16, 20])
def test_special_values_stay_in_their_pair(dim, value, mode):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 2, dim))
    x[0, 0, 0, 0], x[1, 1, 0, 3], x[1, 2, 1, dim - 1] = value, value, value
    cos, sin = tables(rng, x.shape, 1, (), dim // 2)
    (y,), exact = launch("rotary_embedding", [x, cos, sin], ["float32"] * 3, mode=mode)
    golden = reference.forward(*exact, mode)
    assert np.isnan(golden).sum() + np.isinf(golden).sum() == 6
    assert_accurate(y, golden, "float32", np.where(np.isfinite(golden), 10.0, 0.0))


def test_zeros_and_denormals():
    x = np.array([0.0, -0.0, 1e-40, -1e-40]).reshape(1, 1, 1, 4)
    (y,), _ = launch("rotary_embedding", [x, np.ones((1, 2)), np.zeros((1, 2))], ["float32"] * 3)
    assert np.array_equal(y, x.astype(np.float32))


@pytest.mark.parametrize(
    ("x", "cos", "sin", "message"),
    [
        ((2, 3, 5, 8), (2, 1, 5, 4), (1, 1, 5, 4), "sin.shape must be cos.shape"),
        ((2, 3, 2, 5, 8), (2, 1, 2, 5, 4), (2, 1, 2, 5, 4), "cos must not broadcast in a dim between two"),
    ],
)
def test_tables_that_the_kernel_cannot_walk_through(x, cos, sin, message):
    """A graph learns some shapes only when it runs: the tiling refuses then."""
    inputs = [np.ones(shape) for shape in (x, cos, sin)]
    with pytest.raises(ValueError, match=message):
        launch("rotary_embedding", inputs, ["float32"] * 3, seq_axis=len(x) - 2)
