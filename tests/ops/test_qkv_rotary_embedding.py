import re
from itertools import cycle

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import combinations, last_compiled, run
from tests.reference import qkv_rotary_embedding as reference
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


@pytest.mark.parametrize(
    ("mode", "types", "pairs", "layout"),
    combinations(TYPES, ["half", "interleave"], ["BNSD", "BSND"]),
    ids=str,
)
def test_forward_and_gradient(mode, types, pairs, layout):
    """Tables for every sequence; of a head of 24 elements 20 are rotated."""
    rng = np.random.default_rng(0)
    qkv = tensor(draw(rng, (2, 5, sum(HEADS), 24)), types[0])
    cos, sin = tables(rng, (2, 5, 10), types[1])
    arguments = (*HEADS, pairs, layout, 20)
    outputs = run(mode, ops.qkv_rotary_embedding, (qkv, cos, sin), *arguments)
    exact = numpy(qkv), numpy(cos), numpy(sin), *arguments
    for y, golden, terms in zip(outputs, reference.forward(*exact), reference.terms(*exact), strict=True):
        assert (dtype_name(y), y.shape) == (types[0], golden.shape)
        assert_accurate(numpy(y), golden, types[0], terms)

    dys = [tensor(draw(rng, y.shape), types[0]) for y in outputs]
    dqkv = run(mode, ms.grad(weighted_sum), (qkv, cos, sin, *dys), *arguments)
    exact = *map(numpy, (*dys, cos, sin)), *arguments
    assert dtype_name(dqkv) == types[0]
    assert_accurate(numpy(dqkv), reference.backward(*exact), types[0], reference.backward_terms(*exact))


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


@pytest.mark.parametrize(
    ("qkv", "cos", "arguments", "message"),
    [
        ((2, 5, 3, 7), (5, 3), (), "qkv.shape[-1] must be even (its elements are rotated in pairs), got (2, 5, 3, 7)"),
        (
            (2, 5, 4, 8),
            (5, 4),
            (),
            "qkv.shape[2] must be q_heads + k_heads + v_heads (3), got (2, 5, 4, 8)",
        ),
        ((2, 5, 24), (5, 4), (), "qkv must have 4 dims, got shape (2, 5, 24)"),
        ((2, 5, 3, 8), (4, 4), (), "cos.shape[-2] must equal qkv.shape[1] (5), got (4, 4)"),
        ((2, 5, 3, 8), (3, 5, 4), (), "cos.shape[:-2] must broadcast to qkv.shape[0] (2,), got (3, 5, 4)"),
        (
            (2, 5, 3, 8),
            (5, 3),
            (),
            "cos.shape[-1] must be 8 or 4 where 8 elements of a head are rotated, got (5, 3)",
        ),
        ((2, 5, 3, 8), (5, 4), (1, 1, "half", "BNSD", 10), "rotary_dim must be at most qkv.shape[-1] (8), got 10"),
        ((2, 5, 3, 8), (5, 4), (1, 1, "half", "BNSD", 3), "rotary_dim must be even and at least 0, got 3"),
        ((2, 5, 3, 8), (5, 4), (1, 1, "halves"), "mode must be 'half' or 'interleave', got 'halves'"),
        ((2, 5, 3, 8), (5, 4), (1, 1, "half", "SBND"), "layout must be 'BNSD' or 'BSND', got 'SBND'"),
        ((2, 5, 3, 8), (5, 4), (0,), "k_heads must be > 0, got 0"),
        ((1, 1, 3, 2056), (1, 1028), (), "qkv.shape[-1] must be at most 2048, got (1, 1, 3, 2056)"),
    ],
)
def test_bad_arguments(qkv, cos, arguments, message):
    tensors = [Tensor(np.ones(shape, np.float32)) for shape in (qkv, cos, cos)]
    with pytest.raises(ValueError, match="^" + re.escape(f"qkv_rotary_embedding: {message}")):
        run("pynative", ops.qkv_rotary_embedding, tensors, 1, *arguments)


def test_tables_of_two_shapes():
    """The kernel walks through both tables alike."""
    qkv, cos, sin = (Tensor(np.ones(shape, np.float32)) for shape in ((2, 5, 3, 8), (2, 5, 4), (1, 5, 4)))
    with pytest.raises(ValueError, match=re.escape("sin.shape must be cos.shape ((2, 5, 4)), got (1, 5, 4)")):
        run("pynative", ops.qkv_rotary_embedding, (qkv, cos, sin), 1)
