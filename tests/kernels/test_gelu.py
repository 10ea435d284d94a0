import numpy as np
import pytest

from ms_ascend_ops.library import native
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.native import launch
from tests.reference import gelu as reference

FORMS = ["none", "tanh"]
# A scalar, one element, less than one instruction, tails, several tiles, rank 5.
SHAPES = [(), (1,), (31,), (4097,), (127, 129), (3, 65537), (2, 1, 3, 5, 64), (1024, 1023)]


@cover("shape", SHAPES, dtype=FLOATS, form=FORMS)
def test_forward(shape, dtype, form):
    (y,), (x,) = launch("gelu", [draw(np.random.default_rng(len(shape)), shape)], [dtype], approximate=form)
    assert_accurate(y, reference.forward(x, form), dtype)


@cover("shape", SHAPES, dtype=FLOATS, form=FORMS)
def test_gradient(shape, dtype, form):
    rng = np.random.default_rng(len(shape))
    (dx,), rounded = launch("gelu_grad", [draw(rng, shape), draw(rng, shape)], [dtype] * 2, approximate=form)
    assert_accurate(dx, reference.backward(*rounded, form), dtype, reference.backward_terms(*rounded, form))


def test_references_are_the_published_formulas():
    x = np.linspace(-3, 3, 61)
    tanh = x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert np.allclose(reference.forward(x, "tanh"), tanh, rtol=1e-13, atol=0)
    assert np.allclose(reference.forward(np.array([1.0, -1.0])), [0.8413447460685429, -0.15865525393145705], rtol=1e-14)


# The exponential of a rounded argument: 86 (none) and 87 (tanh) at the end, with one and three roundings of half an ULP
# of it. The tanh form gives 0 below 3e-38.
@pytest.mark.parametrize(("form", "end", "bound"), [("none", -13.1, 6e-6), ("tanh", -10.0, 1.6e-5)])
def test_the_negative_tail_keeps_its_relative_accuracy(form, end, bound):
    (y,), (x,) = launch("gelu", [np.linspace(0, end, 20001)[1:]], ["float32"], approximate=form)
    golden = reference.forward(x, form)
    assert np.abs(y / golden - 1).max() < bound


# Half of a unit in the last place, and what the polynomial adds; values of half are subnormal below -4.1.
@pytest.mark.parametrize(
    ("dtype", "begin", "end", "bound"),
    [
        ("float16", -1e-3, -3.8, 2**-11 + 4.5e-5),
        ("bfloat16", -1e-3, -4, 2**-8 + 3e-4),
        ("bfloat16", -4, -6, 2**-8 + 1.4e-3),
        ("bfloat16", -6, -13, 2**-8 + 3e-3),
    ],
)
def test_the_negative_tail_in_16_bits(dtype, begin, end, bound):
    (y,), (x,) = launch("gelu", [np.linspace(begin, end, 20001)], [dtype])
    assert np.abs(y.astype(np.float64) / reference.forward(x) - 1).max() < bound


def test_the_tail_fades_out_through_the_subnormal_numbers():
    (y,), (x,) = launch("gelu", [np.linspace(-13.1, -15, 5001)], ["float32"])
    golden = reference.forward(x)
    smallest = 2.0**-149
    # The factor exp(-x^2 / 2) is a subnormal number itself.
    assert np.all(np.abs(y - golden) <= 6e-6 * np.abs(golden) + 16 * smallest)
    assert np.count_nonzero(y) > 1000


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(dtype, form):
    """inf stays; -inf becomes 0, by tanh NaN; large values overflow nothing; 0 keeps its sign."""
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 6e4, -6e4, 1e30, -1e30, 3e38, -3e38, 1e-40, -1e-40, 6e-8, -6e-8])
    (y,), (rounded,) = launch("gelu", [x], [dtype], approximate=form)
    golden = reference.forward(rounded, form)
    assert_accurate(y, golden, dtype)
    signed = (golden != 0) | (rounded == 0)  # not what fades to 0
    assert np.array_equal(np.signbit(y[signed]), np.signbit(golden[signed]))
    (dx,), (dy, rounded) = launch("gelu_grad", [np.full(x.shape, 2.0), x], [dtype] * 2, approximate=form)
    golden = dy * reference.slope(rounded, form)
    assert golden[:2].tolist() == [2, 0]  # the limits, not inf * 0
    assert_accurate(dx, golden, dtype)


@pytest.mark.parametrize("form", FORMS)
def test_subnormal_inputs(form):
    """Half of them: to the next subnormal number."""
    x = np.arange(-9, 10) * 2.0**-149
    (y,), (rounded,) = launch("gelu", [x], ["float32"], approximate=form)
    assert np.abs(y - rounded / 2).max() <= 2.0**-149


# Bytes of the Unified Buffer for an element: moved tensors twice, in float too if they are not, and scratch. The tanh
# form needs no scratch forward; the gradient has the value, which is thrown away, in it.
@pytest.mark.parametrize(
    ("kernel", "form", "dtype", "scratch", "element_bytes"),
    [
        ("gelu", "none", "float32", 3, 28),
        ("gelu", "none", "bfloat16", 2, 24),
        ("gelu", "tanh", "float32", 0, 16),
        ("gelu", "tanh", "bfloat16", 0, 16),
        ("gelu_grad", "none", "float32", 4, 40),
        ("gelu_grad", "none", "float16", 4, 40),
        ("gelu_grad", "tanh", "float32", 3, 36),
        ("gelu_grad", "tanh", "float16", 3, 36),
    ],
)
def test_a_tile_is_as_large_as_its_form_leaves_room_for(kernel, form, dtype, scratch, element_bytes):
    tensors, ub_bytes = (1 if kernel == "gelu" else 2), 188160
    tiling = native().tiling(kernel, [(8192, 8192)] * tensors, [dtype] * tensors, {"approximate": form}, 48, ub_bytes)
    line = 512 // (4 if dtype == "float32" else 2)
    assert tiling["scratch"] == scratch
    assert tiling["tileLength"] * element_bytes < ub_bytes < (tiling["tileLength"] + line + 1) * element_bytes
