from itertools import cycle

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import last_compiled, run
from tests.reference import rotary_embedding as turn
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["C"]) for row in registry.signature("qkv_rotary_embedding").types]
HEADS = (6, 2, 3)


def tables(rng, shape, dtype):
    angles = rng.uniform(-np.pi, np.pi, shape)
    return tensor(np.cos(angles), dtype), tensor(np.sin(angles), dtype)


def weighted_sum(qkv, cos, sin, dq, dk, dv, *arguments):
    total = 0.0
    outputs = ops.qkv_rotary_embedding(qkv, cos, sin, *arguments)
    for y, dy in zip(outputs, (dq, dk, dv)):  # noqa: B905 (a graph has no strict)
        total += (y.astype(ms.float32) * dy.astype(ms.float32)).sum()
    return total


LEARNED = [
    ("half", "BNSD", (5, 4), 0),
    ("half", "BSND", (2, 5, 8), 0),  # every angle twice: the first is read, and gets the gradient
    ("interleave", "BNSD", (1, 5, 4), 0),
    ("interleave", "BSND", (5, 6), 6),  # every angle twice, and not the whole head rotated
]


@pytest.mark.parametrize(
    ("mode", "types", "tables_of"), last_compiled(list(zip(TYPES, cycle(LEARNED), strict=False))), ids=str
)
def test_gradient_of_learned_tables(mode, types, tables_of):
    """It is that of queries and keys together: composed of operators that take any dtype."""
    pairs, layout, shape, rotary_dim = tables_of
    rng = np.random.default_rng(0)
    qkv = tensor(draw(rng, (2, 5, sum(HEADS), 8)), types[0])
    dys = [tensor(draw(rng, (2, 5, n, 8) if layout == "BSND" else (2, n, 5, 8)), types[0]) for n in HEADS]
    cos, sin = tables(rng, shape, types[1])
    arguments = (*HEADS, pairs, layout, rotary_dim)
    results = run(mode, ms.grad(weighted_sum, (1, 2)), (qkv, cos, sin, *dys), *arguments)
    rotated = HEADS[0] + HEADS[1]
    dy = np.concatenate([numpy(d) if layout == "BSND" else numpy(d).swapaxes(1, 2) for d in dys[:2]], 2)
    exact = numpy(qkv)[:, :, :rotated], numpy(cos), numpy(sin), pairs, 1, rotary_dim
    golden, terms = turn.backward_tables(dy, *exact), turn.backward_tables_terms(dy, *exact)
    for result, value, sums in zip(results, golden, terms, strict=True):
        assert (result.shape, dtype_name(result)) == (shape, types[1])
        assert_accurate(numpy(result), value, types[1], sums)


@pytest.mark.parametrize(("heads", "counts"), [((4,), (4, 4, 4)), ((4, 2), (4, 2, 2)), ((4, 2, 1), (4, 2, 1))], ids=str)
def test_numbers_of_heads_that_are_left_out(heads, counts):
    rng = np.random.default_rng(0)
    qkv, angles = tensor(draw(rng, (1, 3, sum(counts), 8)), "float32"), tables(rng, (3, 4), "float32")
    assert [y.shape[1] for y in ops.qkv_rotary_embedding(qkv, *angles, *heads)] == list(counts)
