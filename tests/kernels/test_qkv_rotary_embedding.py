import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import qkv_rotary_embedding as reference

NAME = "qkv_rotary_embedding"
TYPES = [(row["T"], row["C"]) for row in registry.signature(NAME).types]
MODES = ["half", "interleave"]
LAYOUTS = ["BNSD", "BSND"]
WIDTHS = ["once", "twice", "own"]  # how often an angle stands in a table; see width_of()

CASES = [  # batch, positions and size of a head; heads of q, k and v; leading dims of the tables; rotary_dim
    ((2, 5, 128), (4, 2, 2), (), 0),  # grouped queries
    ((1, 333, 64), (5, 1, 3), (), 0),  # several tiles, keys and values of different numbers
    ((1, 1, 128), (32, 8, 8), (), 0),  # decoding one token: both layouts are the same
    ((7, 1, 64), (8, 4, 4), (), 0),  # of several sequences, with the same table
    ((7, 1, 64), (8, 4, 4), (7,), 0),  # and each at a position of its own
    ((3, 37, 64), (2, 2, 2), (3,), 0),  # tables for every sequence
    ((3, 37, 64), (2, 2, 2), (1,), 0),
    ((50, 3, 16), (3, 1, 1), (), 0),  # many short sequences
    ((7, 9, 20), (3, 2, 1), (), 0),  # halves that are no whole blocks
    ((2, 4, 20), (9, 2, 1), (), 0),  # and fewer positions than heads
    ((5, 1, 20), (9, 2, 1), (5,), 0),
    ((1, 1, 20), (9, 2, 1), (), 0),
    ((3, 4, 2), (2, 1, 1), (), 0),  # one pair
    ((2, 5, 128), (3, 1, 1), (), 64),  # the first half of a head
    ((2, 6, 80), (3, 1, 1), (2,), 20),
    ((2, 3, 15), (3, 1, 1), (), 6),  # an odd head, of which a part is rotated
    ((1, 300, 32), (1, 1, 1), (), 0),  # one head each, more positions than repeats
    ((1, 2, 64), (600, 2, 1), (), 0),  # heads that do not fit one tile
    ((2, 3, 2048), (2, 1, 1), (), 0),  # heads longer than the stride of an instruction
]


def attributes_of(heads, **others):
    return {**dict(zip(("q_heads", "k_heads", "v_heads"), heads, strict=True)), **others}


def tables(rng, shape, lead, width):
    angles = rng.uniform(-np.pi, np.pi, (*lead, shape[1], width))
    return np.cos(angles), np.sin(angles)


def width_of(table, mode, width):
    """Every angle once, or twice; "own": other values for the second element of a pair."""
    if width == "once":
        return table
    second = table if width == "twice" else np.flip(table, -1) * 0.75
    both = np.stack([table, second], -1)
    return np.concatenate([table, second], -1) if mode == "half" else both.reshape(*table.shape[:-1], -1)


def packed(shape, heads):
    return (*shape[:2], sum(heads), shape[2])


def single(shape, count, layout):
    batch, positions, dim = shape
    return (batch, count, positions, dim) if layout == "BNSD" else (batch, positions, count, dim)


def check(rng, shape, heads, lead, types, width="once", **others):
    """Forward and gradient against the reference; v is copied bit by bit."""
    attributes = attributes_of(heads, **others, separate_halves=width == "own")
    angles = tables(rng, shape, lead, (others["rotary_dim"] or shape[2]) // 2)
    angles = [width_of(table, others["mode"], width) for table in angles]
    dtypes = [types[1]] * 2
    outputs, exact = launch(NAME, [draw(rng, packed(shape, heads)), *angles], [types[0], *dtypes], **attributes)
    golden, terms = reference.forward(*exact, **attributes), reference.terms(*exact, **attributes)
    for y, value, sums in zip(outputs, golden, terms, strict=True):
        assert_accurate(y, value, types[0], sums)
    assert np.array_equal(outputs[2], golden[2])
    dys = [draw(rng, single(shape, count, others["layout"])) for count in heads]
    (dqkv,), exact = launch(f"{NAME}_grad", [*dys, *angles], [types[0]] * 3 + dtypes, **attributes)
    terms = reference.backward_terms(*exact, **attributes)
    assert_accurate(dqkv, reference.backward(*exact, **attributes), types[0], terms)
    assert np.array_equal(*(reference.split(x, *heads)[2] for x in (dqkv, reference.backward(*exact, **attributes))))


@cover("shape, heads, lead, rotary_dim", CASES, types=TYPES, mode=MODES, layout=LAYOUTS, width=WIDTHS)
def test_forward_and_gradient(shape, heads, lead, rotary_dim, types, mode, layout, width):
    rng = np.random.default_rng(sum(shape))
    check(rng, shape, heads, lead, types, width, mode=mode, layout=layout, rotary_dim=rotary_dim)


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 5), st.integers(1, 90), st.integers(1, 70)),
    st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(1, 4)),
    st.data(),
)
def test_any_shape(shape, heads, data):
    rotary_dim = 2 * data.draw(st.integers(0 if shape[2] % 2 == 0 else 1, max(1, shape[2] // 2)))
    if rotary_dim > shape[2]:
        return
    lead = data.draw(st.sampled_from([(), (1,), shape[:1]]))
    types, mode, layout = (data.draw(st.sampled_from(values)) for values in (TYPES, MODES, LAYOUTS))
    rng = np.random.default_rng(0)
    check(rng, shape, heads, lead, types, mode=mode, layout=layout, rotary_dim=rotary_dim)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [8, 16, 20])
def test_special_values_stay_in_their_pair(dim, value, mode, layout):
    rng, heads, shape = np.random.default_rng(0), (2, 1, 1), (2, 3, dim)
    qkv = rng.normal(size=packed(shape, heads))
    qkv[0, 0, 0, 0] = qkv[1, 1, 1, 3] = qkv[1, 2, 2, dim - 1] = qkv[1, 2, 3, 0] = value
    attributes = attributes_of(heads, mode=mode, layout=layout)
    outputs, exact = launch(NAME, [qkv, *tables(rng, shape, (), dim // 2)], ["float32"] * 3, **attributes)
    golden = reference.forward(*exact, **attributes)
    assert sum((~np.isfinite(y)).sum() for y in golden) == 7
    for y, values in zip(outputs, golden, strict=True):
        assert_accurate(y, values, "float32", np.where(np.isfinite(values), 10.0, 0.0))


def test_bits_of_values_are_copied():
    x = np.array([0.0, -0.0, 1e-40, -1e-40])
    qkv = np.broadcast_to(x, (1, 1, 3, 4))
    (_, _, v), _ = launch(NAME, [qkv, np.ones((1, 2)), np.zeros((1, 2))], ["float32"] * 3)
    assert v.astype(np.float32).tobytes() == x.astype(np.float32).tobytes()


@pytest.mark.parametrize(
    ("qkv", "cos", "sin", "message"),
    [
        ((2, 5, 3, 8), (5, 4), (1, 5, 4), "sin.shape must be cos.shape"),
        (
            (2, 5, 3, 8),
            (5, 3),
            (5, 3),
            "cos.shape.-1. must be 8 or 4 where 8 elements of a head are rotated, got .5, 3.",
        ),
        ((1, 1, 3, 2**18), (1, 2**17), (1, 2**17), "qkv.shape.-1. must be at most 2048"),
    ],
)
def test_what_a_graph_learns_only_when_it_runs(qkv, cos, sin, message):
    """The tiling refuses then."""
    inputs = [np.ones(shape) for shape in (qkv, cos, sin)]
    with pytest.raises(ValueError, match=f"{NAME}: {message}"):
        launch(NAME, inputs, ["float32"] * 3)
