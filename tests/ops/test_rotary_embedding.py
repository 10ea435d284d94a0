from itertools import cycle

import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, combinations, last_compiled, run
from tests.reference import rotary_embedding as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["C"]) for row in registry.signature("rotary_embedding").types]


def tables(rng, shape, dtype):
    angles = rng.uniform(-np.pi, np.pi, shape)
    return tensor(np.cos(angles), dtype), tensor(np.sin(angles), dtype)


def weighted_sum(q, k, cos, sin, dq, dk, layout, mode):
    q, k = ops.apply_rotary_pos_emb(q, k, cos, sin, layout, mode)
    return (q.astype(ms.float32) * dq.astype(ms.float32)).sum() + (k.astype(ms.float32) * dk.astype(ms.float32)).sum()


@pytest.mark.parametrize(
    ("mode", "types", "pairs", "layout"),
    combinations(TYPES, ["half", "interleave"], ["BSND", "BNSD"]),
    ids=str,
)
def test_apply_rotary_pos_emb(mode, pairs, layout, types):
    """Grouped queries: more heads of q than of k; tables for every sequence."""
    rng = np.random.default_rng(0)
    axis = 1 if layout == "BSND" else 2
    shapes = [(2, 5, heads, 20) if layout == "BSND" else (2, heads, 5, 20) for heads in (6, 2)]
    q, k, dq, dk = (tensor(draw(rng, shape), types[0]) for shape in shapes * 2)
    cos, sin = tables(rng, (2, 5, 10), types[1])
    outputs = run(mode, ops.apply_rotary_pos_emb, (q, k, cos, sin), layout, pairs)
    gradients = run(mode, ms.grad(weighted_sum, (0, 1)), (q, k, cos, sin, dq, dk), layout, pairs)
    exact = [numpy(table) if axis == 1 else numpy(table)[:, None] for table in (cos, sin)]
    for x, y, dy, dx in zip((q, k), outputs, (dq, dk), gradients, strict=True):
        assert dtype_name(y) == dtype_name(dx) == types[0]
        for source, result, golden in ((x, y, reference.forward), (dy, dx, reference.backward)):
            arguments = numpy(source), *exact, pairs, axis
            assert_accurate(numpy(result), golden(*arguments), types[0], reference.terms(*arguments))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_without_a_batch(mode, dtype):
    """Packed images."""
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (5, 3, 8)), dtype) for _ in range(2))
    cos, sin = tables(rng, (5, 4), dtype)
    exact = numpy(cos), numpy(sin), "half", 0
    y = run(mode, ops.rotary_embedding, (x, cos, sin), "half", "SND")
    dx = run(mode, ms.grad(turned_sum), (x, cos, sin, dy), "half", "SND", 0, False)
    for source, result, golden in ((x, y, reference.forward), (dy, dx, reference.backward)):
        assert_accurate(numpy(result), golden(numpy(source), *exact), dtype, reference.terms(numpy(source), *exact))


def turned_sum(x, cos, sin, dy, mode, layout, rotary_dim, separate_halves):
    y = ops.rotary_embedding(x, cos, sin, mode, layout, rotary_dim, separate_halves)
    return (y.astype(ms.float32) * dy.astype(ms.float32)).sum()


LEARNED = [
    ("half", "BSND", (5, 4), 0, False),
    ("half", "BNSD", (2, 5, 8), 0, False),  # every angle twice: the first is read, and gets the gradient
    ("interleave", "BSND", (1, 5, 4), 0, False),
    ("interleave", "BNSD", (5, 6), 6, False),  # every angle twice, and not the whole head rotated
    ("half", "BNSD", (2, 5, 8), 0, True),  # both elements of a pair have values of their own
    ("interleave", "BSND", (5, 6), 6, True),
    ("half", "SND", (5, 8), 0, False),
]


@pytest.mark.parametrize(
    ("mode", "types", "tables_of"), last_compiled(list(zip(cycle(TYPES), LEARNED, strict=False))), ids=str
)
def test_gradient_of_learned_tables(mode, types, tables_of):
    pairs, layout, shape, rotary_dim, own = tables_of
    rng, axis = np.random.default_rng(0), layout.index("S")
    sizes = {"B": 2, "S": 5, "N": 3, "D": 8}
    x, dy = (tensor(draw(rng, [sizes[name] for name in layout]), types[0]) for _ in range(2))
    cos, sin = tables(rng, shape, types[1])
    results = run(mode, ms.grad(turned_sum, (1, 2)), (x, cos, sin, dy), pairs, layout, rotary_dim, own)
    exact = numpy(x), numpy(cos), numpy(sin), pairs, axis, rotary_dim, own
    golden = reference.backward_tables(numpy(dy), *exact)
    terms = reference.backward_tables_terms(numpy(dy), *exact)
    for result, value, sums in zip(results, golden, terms, strict=True):
        assert (result.shape, dtype_name(result)) == (shape, types[1])
        assert_accurate(numpy(result), value, types[1], sums)
