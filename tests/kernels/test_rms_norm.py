import numpy as np

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.inputs import draw
from tests.native import launch
from tests.reference import rms_norm as reference

TYPES = [(row["T"], row["G"]) for row in registry.signature("rms_norm").types]

SHAPES = [
    (1,),  # one element
    (31,),  # shorter than one instruction
    (4, 64),  # one repeat, and around it
    (300, 8),
    (5, 63),
    (5, 65),
    (5, 128),  # two repeats
    (3, 4097),  # a tail after whole repeats
    (2, 65537),  # a row larger than the Unified Buffer
    (257, 129),  # many short rows that no number of cores divides
    (2, 3, 5, 7, 96),  # rank 5
    (1, 8192),
    (1023, 256),
]
# Gradients of gamma in chunks, each longer than a row of them.
MANY_CHUNKS = [((257, 129), ("float16", "float16"), "round_then_scale")]


@cover("shape", SHAPES, types=TYPES, scheme=["round_then_scale", "one_plus_gamma"])
def test_forward(shape, types, scheme):
    rng = np.random.default_rng(len(shape) + shape[-1])
    inputs = [draw(rng, shape), draw(rng, shape[-1:], 2)]
    (y, rstd), rounded = launch("rms_norm", inputs, types, epsilon=1e-5, scheme=scheme)
    golden_y, golden_rstd = reference.forward(*rounded, 1e-5, scheme)
    assert_accurate(y, golden_y, types[0])
    assert_accurate(rstd, golden_rstd, "float32")


@cover("shape", SHAPES, also=MANY_CHUNKS, types=TYPES, scheme=["round_then_scale", "one_plus_gamma"])
def test_gradient(shape, types, scheme):
    rng = np.random.default_rng(len(shape) + shape[-1])
    x, gamma, dy = draw(rng, shape), draw(rng, shape[-1:], 2), draw(rng, shape)
    drstd = draw(rng, (*shape[:-1], 1))
    (_, rstd), _ = launch("rms_norm", [x, gamma], types, scheme=scheme)
    dtypes = [types[0], "float32", types[0], "float32", types[1]]
    (dx, dgamma), rounded = launch("rms_norm_grad", [dy, drstd, x, rstd, gamma], dtypes, scheme=scheme)
    exact = rounded[0], rounded[1], rounded[2], rounded[4], 1e-6, scheme
    golden_dx, golden_dgamma = reference.backward(*exact)
    dx_terms, dgamma_terms = reference.backward_terms(*exact)
    assert_accurate(dx, golden_dx, types[0], dx_terms)
    assert_accurate(dgamma, golden_dgamma, types[1], dgamma_terms)


def test_squares_beyond_float32():
    """The root is infinite then: a row of zeros, and no other is touched. Half of that is still exact."""
    x = np.full((3, 64), 2.0)
    x[0], x[1] = 1e18, 1e20
    (y, rstd), rounded = launch("rms_norm", [x, np.ones(64)], ("float32", "float32"))
    golden_y, golden_rstd = reference.forward(*rounded)
    assert_accurate(y[[0, 2]], golden_y[[0, 2]], "float32")
    assert_accurate(rstd[[0, 2]], golden_rstd[[0, 2]], "float32")
    assert not y[1].any()
    assert not rstd[1].any()
