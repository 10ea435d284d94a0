"""weight_quant_matmul and weight_quant_swiglu, which share the kernel."""

from contextlib import contextmanager

import numpy as np
import pytest

from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import weight_quant_matmul as reference
from tests.reference import weight_quant_swiglu

CASES = [  # batch and rows of x, n, k, size of a group
    ((1,), 70, 64, 32),  # one row: sums of packed numbers, more than one for each core
    ((3,), 33, 576, 32),  # a few; rows of groups that fill no block
    ((2,), 16, 512, 128),  # groups of two sums
    ((1,), 20, 192, 64),
    ((2,), 6, 1024, 256),  # of four, also on a chip
    ((2,), 9, 96, 96),  # a group that is no power of two
    ((2,), 33, 512, 16),  # the smallest group, as GGUF's Q6_K has
    ((1,), 9, 48, 16),  # of which rows fill no blocks of integers
    ((7,), 40, 256, 16),  # of many rows
    ((1,), 5, 4096, 32),  # more groups than lanes
    ((2, 3), 40, 128, 32),  # many: unpacked for the cube
    ((9,), 300, 64, 64),  # several tiles, the last not full
    ((6,), 17, 38, 38),  # a whole row, which fills no block
    ((1,), 7, 1100, 1100),  # in pieces
    ((5,), 3, 2048, 1024),  # the largest group
    ((0,), 4, 64, 32),  # no rows
]
TYPES = [
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
    ("bfloat16", "float16"),
    ("float32", "float16"),
    ("float32", "float32"),
]


def arrays(rng, case, bits, has_offset, has_bias):
    rows, n, k, group = case
    factors = (n, k // group)
    weight = rng.integers(-128, 128, (n, k * bits // 8))
    scale = rng.uniform(0.5, 1.5, factors) / (2 ** (bits - 1) * k**0.5)
    offset = rng.integers(-8, 9, factors).astype(np.float64) if has_offset else None
    return [draw(rng, (*rows, k)), weight, scale, offset, draw(rng, (n,)) if has_bias else None]


def check(inputs, types, activation="none"):
    dtypes = [types[0], "int8", types[1], types[1], "float32"]
    (y,), exact = launch("weight_quant_matmul", inputs, dtypes, activation=activation)
    terms = reference.forward_terms(*exact, dtype=types[0])
    assert_accurate(y, reference.forward(*exact, activation), types[0], terms)


FINISHED = [  # those of CASES in which the finish differs
    ((1,), 70, 64, 32),
    ((3,), 33, 576, 32),
    ((4,), 300, 96, 96),  # blocks of rows of the weight
    ((2,), 70, 1024, 128),  # so long that a chip takes the vector unit, too
    ((2,), 20, 2048, 64),
    ((1,), 9, 1024, 32),
    ((2, 3), 40, 128, 32),  # many rows: tiles
    ((9,), 300, 64, 64),
    ((6,), 17, 38, 38),
    ((300,), 20, 64, 32),  # more rows of x than a product has
    ((0,), 4, 64, 32),
]
ACTIVATIONS = ["silu", "relu", "gelu", "gelu_tanh"]


@cover("case", FINISHED, types=TYPES, activation=ACTIVATIONS)
def test_activations(case, types, activation):
    check(arrays(np.random.default_rng(sum(case[1:])), case, 4, 1, 1), types, activation)


@cover("case", FINISHED, types=TYPES, bits=[4, 8], has_offset=[1, 0], has_bias=[0, 1])
def test_gated(case, types, bits, has_offset, has_bias):
    rows, n, k, group = case
    rng = np.random.default_rng(sum(case[1:]))
    inputs = arrays(rng, (rows, 2 * n, k, group), bits, has_offset, has_bias)
    # Powers of two: a weight is then exact in float16, and no rounding of it hides in the product of two sums.
    # test_products has other scales.
    inputs[2] = 2.0 ** (rng.integers(-1, 2, inputs[2].shape) - bits + 1 - np.ceil(np.log2(k) / 2))
    dtypes = [types[0], "int8", types[1], types[1], "float32"]
    (y,), rounded = launch("weight_quant_swiglu", inputs, dtypes)
    terms = weight_quant_swiglu.forward_terms(*rounded, dtype=types[0])
    assert_accurate(y, weight_quant_swiglu.forward(*rounded), types[0], terms)


@cover("case", CASES, types=TYPES, bits=[4, 8], has_offset=[1, 0], has_bias=[0, 1])
def test_products(case, types, bits, has_offset, has_bias):
    check(arrays(np.random.default_rng(sum(case[1:])), case, bits, has_offset, has_bias), types)


INTEGERS = [
    ((1,), 70, 64, 32),
    ((3,), 33, 576, 32),  # two groups behind the last eight
    ((4,), 16, 1024, 32),  # as many rows as are taken at once
    ((2,), 16, 1024, 128),  # groups of two sums
    ((1,), 20, 192, 64),
    ((2,), 16, 512, 16),
    ((7,), 70, 96, 16),
    ((2,), 6, 1024, 256),
    ((2,), 9, 96, 96),
    ((1,), 24, 96, 32),  # an odd number of groups: eight of them are of several rows
    ((5,), 33, 192, 64),  # taken as 3 and 2
    ((7,), 70, 576, 32),  # as 4 and 3
    ((2, 4), 16, 128, 128),  # as many rows as are one block
    ((9,), 40, 96, 32),  # many: rounded first by the kernel, in blocks by a host's loops
    ((2, 10), 33, 576, 16),
    ((300,), 20, 512, 256),
    ((11,), 24, 160, 32),  # blocks of groups that go from one row to the next
    ((1,), 5, 4224, 32),  # more groups than a host's loops take at once
    ((3,), 9, 8192, 32),  # more than an instruction has repeats
]


@contextmanager
def tiles_of_a_chip(given=True):
    """With them the kernel answers, also where loops of the host would."""
    native().set_ub_bytes(188160 if given else 0)
    try:
        yield
    finally:
        native().set_ub_bytes(0)


def answered(name, inputs, dtypes, **attributes):
    """Whether loops of the host answer in the place of the kernel."""
    shapes = [None if one is None else one.shape for one in inputs]
    return native().answering_library(name, shapes, dtypes, {"quantize_x": "int8", **attributes}) != ""


def test_who_answers():
    """Loops of the host, but of many rows of floats, and of groups that vectors do not divide, or that x is not rounded
    by.
    """
    rng = np.random.default_rng(0)
    inputs = arrays(rng, ((3,), 20, 64, 32), 4, 1, 1)
    dtypes = ["float32", "int8", "float16", "float16", "float32"]
    names = ("weight_quant_matmul", "weight_quant_swiglu")
    if not all(answered(name, inputs, dtypes) for name in names):
        pytest.skip("the build is observed")
    assert answered(names[0], inputs, dtypes, quantize_x="none")
    assert answered(names[0], inputs, dtypes, activation="silu")
    assert answered(names[0], inputs, ["bfloat16", *dtypes[1:]])
    many, long = arrays(rng, ((5,), 20, 64, 32), 4, 1, 1), arrays(rng, ((3,), 20, 1024, 512), 4, 1, 1)
    assert answered(names[0], many, dtypes)
    assert not answered(names[0], many, dtypes, quantize_x="none")
    assert not answered(names[0], long, dtypes)
    assert answered(names[0], long, dtypes, quantize_x="none")
    assert not answered(names[0], arrays(rng, ((3,), 20, 38, 38), 4, 1, 1), dtypes, quantize_x="none")
    with tiles_of_a_chip():
        assert not any(answered(name, inputs, dtypes) for name in names)


@cover("case", INTEGERS, types=TYPES, bits=[4, 8], has_offset=[1, 0], gated=[0, 1], chip=[0, 1])
def test_rounded_activations(case, types, bits, has_offset, gated, chip):
    rows, n, k, group = case
    rng = np.random.default_rng(sum(case[1:]))
    inputs = arrays(rng, (rows, n * (1 + gated), k, group), bits, has_offset, 1)
    inputs[0][..., :32] *= 1e-3  # groups of different sizes
    inputs[0][..., -32:] = 0
    dtypes = [types[0], "int8", types[1], types[1], "float32"]
    name, module = ("weight_quant_swiglu", weight_quant_swiglu) if gated else ("weight_quant_matmul", reference)
    with tiles_of_a_chip(chip):
        (y,), exact = launch(name, inputs, dtypes, quantize_x="int8")
    x = reference.rounded(exact[0], k // group)
    # What rounding takes away is half a step of each element at most, times its weight.
    step = np.repeat(np.abs(exact[0]).reshape(*rows, -1, group).max(-1) / 127, group, -1)
    assert (np.abs(x - exact[0]) <= 0.5001 * step).all()
    weight = np.abs(reference.dequantised(exact[1], exact[2], exact[3], k))
    terms = np.abs(x) @ weight.T
    if gated:
        gate, up = np.split(reference.product(x, *exact[1:]), 2, axis=-1)
        gate_terms, up_terms = np.split(terms, 2, axis=-1)
        terms = 1.1 * gate_terms * np.abs(up) + np.abs(gate) * up_terms
    if np.prod(rows) > 8 or k > 4096:  # rounded x and unpacked weights have the dtype of x
        terms = terms * (1 + reference.ROUNDING[types[0]] * 2.0**20)
    assert_accurate(y, module.forward(*exact, quantize_x="int8"), types[0], 8 * terms)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("size", [1.0, 1e-38, 1e34])
def test_rounded_activations_that_are_not_finite_or_extreme(value, size):
    """A row is NaN if an element is not finite; one of very small or large numbers is what it is."""
    inputs = arrays(np.random.default_rng(0), ((2,), 9, 64, 32), 4, 1, 0)
    inputs[0] *= size
    inputs[0][1, 40] = value
    (y,), exact = launch("weight_quant_matmul", inputs, ["float32", "int8", "float32", "float32", "float32"],
                         quantize_x="int8")  # fmt: skip
    golden = reference.forward(*exact, quantize_x="int8")
    assert np.isnan(y[1]).all()
    terms = np.abs(exact[0][0]) @ np.abs(reference.dequantised(*exact[1:4], 64)).T
    assert_accurate(y[0], golden[0], "float32", 8 * terms)


@pytest.mark.parametrize("name", ["weight_quant_matmul", "weight_quant_swiglu"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("rows", "quantize_x"), [(8, "int8"), (19, "int8"), (4, "none")])
def test_rows_are_what_they_are_alone(name, bits, rows, quantize_x):
    """However many come together, and again where rows of x differ little."""
    inputs = arrays(np.random.default_rng(0), ((rows,), 70, 576, 32), bits, 1, 1)
    inputs[0][1:4] = inputs[0][0]
    inputs[0][2, 575] *= 2
    dtypes = ["float32", "int8", "float16", "float16", "float32"]
    if rows > 8 and not answered(name, inputs, dtypes):
        pytest.skip("the kernel multiplies many rows as floats")
    together = launch(name, inputs, dtypes, quantize_x=quantize_x)[0][0]
    alone = [launch(name, [row[None], *inputs[1:]], dtypes, quantize_x=quantize_x)[0][0] for row in inputs[0]]
    np.testing.assert_array_equal(together, np.concatenate(alone))
