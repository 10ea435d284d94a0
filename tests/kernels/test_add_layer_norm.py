"""The addition; what LayerNorm does is tested in test_layer_norm.py."""

import numpy as np

from ms_ascend_ops import registry
from tests.acceptance import assert_accurate
from tests.cover import cover
from tests.dtypes import decode, encode
from tests.inputs import draw
from tests.native import launch
from tests.reference import layer_norm as reference

TYPES = [(row["T"], row["G"]) for row in registry.signature("add_layer_norm").types]

SHAPES = [
    (1,),
    (3, 31),
    (5, 5120),  # float32: a row that fits in single buffers only
    (2, 65537),  # a row larger than the Unified Buffer
    (257, 129),  # many short rows
]
SINGLE_BUFFERS = [((5, 5120), ("float32", "float32"))]


@cover("shape", SHAPES, also=SINGLE_BUFFERS, types=TYPES)
def test_it_is_layer_norm_of_the_sum(shape, types):
    """Bit for bit, as long as a row is one tile; and the sum is one addition, rounded once.

    Larger rows are summed in tiles of another length: as accurate, and up to an ULP of the result apart.
    """
    rng = np.random.default_rng(shape[-1])
    x1, x2, gamma, beta = draw(rng, shape), draw(rng, shape), draw(rng, shape[-1:]), draw(rng, shape[-1:])
    outputs, rounded = launch("add_layer_norm", [x1, x2, gamma, beta], [types[0], *types, types[1]])
    x = outputs[3]
    assert np.array_equal(x, decode(encode(rounded[0] + rounded[1], types[0]), types[0]))
    plain, _ = launch("layer_norm", [x, gamma, beta], [*types, types[1]])
    if shape[-1] < 65537:
        assert all(np.array_equal(*pair) for pair in zip(outputs[:3], plain, strict=True))
        return
    exact = x, *rounded[2:]
    terms = reference.forward_terms(*exact), None, None
    for output, golden, dtype, sums in zip(
        outputs, reference.forward(*exact), [types[0], "float32", "float32"], terms, strict=False
    ):
        assert_accurate(output, golden, dtype, sums)


@cover("shape", SHAPES, also=SINGLE_BUFFERS, types=TYPES)
def test_gradient(shape, types):
    rng = np.random.default_rng(shape[-1])
    x, dy, dresidual, gamma = draw(rng, shape), draw(rng, shape), draw(rng, shape), draw(rng, shape[-1:])
    dmean, drstd = draw(rng, (*shape[:-1], 1)), draw(rng, (*shape[:-1], 1))
    (_, mean, rstd), _ = launch("layer_norm", [x, gamma, gamma], [*types, types[1]])
    dtypes = [types[0], "float32", "float32", types[0], types[0], "float32", "float32", types[1]]
    inputs = [dy, dmean, drstd, dresidual, x, mean, rstd, gamma]
    outputs, rounded = launch("add_layer_norm_grad", inputs, dtypes)
    exact = *rounded[:3], rounded[4], rounded[7]
    golden, terms = list(reference.backward(*exact)), list(reference.backward_terms(*exact))
    golden[0] = golden[0] + rounded[3]
    terms[0] = terms[0] + np.abs(rounded[3])
    for value, exact_value, sums, dtype in zip(outputs, golden, terms, [types[0], types[1], types[1]], strict=True):
        assert_accurate(value, exact_value, dtype, sums)
