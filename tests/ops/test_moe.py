"""The functions of a mixture of experts: gating, the order of experts, grouped products."""

import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate, assert_close
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, combinations, run
from tests.reference import (
    grouped_matmul,
    grouped_quant_matmul,
    moe_gating_top_k,
    moe_token_permute,
    moe_token_unpermute,
)
from tests.tensors import dtype_name, numpy, tensor


@pytest.mark.parametrize(("mode", "dtype"), combinations(FLOATS))
def test_grouped_quant_matmul(mode, dtype):
    rng = np.random.default_rng(0)
    ends = Tensor(np.array([2, 2, 9, 10], np.int32))
    x, weight = (Tensor(rng.integers(-127, 128, shape).astype(np.int8)) for shape in ((5, 2, 6), (4, 8, 6)))
    scale, row_scale = tensor(rng.uniform(0.5, 1, (4, 8)) / 300, dtype), tensor(rng.uniform(0.5, 1, (5, 2)), "float32")
    y = run(mode, ops.grouped_quant_matmul, (x, weight, scale, ends, row_scale))
    exact = [numpy(x).reshape(10, 6), numpy(weight), numpy(scale), numpy(ends), numpy(row_scale).reshape(10)]
    golden = grouped_quant_matmul.forward(*exact)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y).reshape(10, 8), golden, dtype, 4 * np.abs(golden))


@pytest.mark.parametrize(("mode", "dtype", "transposed"), combinations(FLOATS, [False, True]))
def test_grouped_matmul(mode, dtype, transposed):
    rng = np.random.default_rng(0)
    ends = Tensor(np.array([2, 2, 9, 10], np.int32))
    weight = draw(rng, (4, 6, 8)) / 3
    x, weight = tensor(draw(rng, (5, 2, 6)), dtype), tensor(weight.swapaxes(1, 2) if transposed else weight, dtype)
    y = run(mode, ops.grouped_matmul, (x, weight, ends), transposed)
    exact = [numpy(x).reshape(10, 6), numpy(weight), numpy(ends)]
    golden = grouped_matmul.forward(*exact, transposed)
    terms = 8 * grouped_matmul.forward(*map(np.abs, exact), transposed)
    assert dtype_name(y) == dtype
    assert_accurate(numpy(y).reshape(10, 8), golden, dtype, terms)
    dy = tensor(draw(rng, (5, 2, 8)), dtype)

    def weighted(x, weight, ends, dy):
        return (ops.grouped_matmul(x, weight, ends, transposed).astype(ms.float32) * dy.astype(ms.float32)).sum()

    gradients = run(mode, ms.grad(weighted, (0, 1)), (x, weight, ends, dy))
    seen = numpy(dy).reshape(10, 8)
    expected = grouped_matmul.backward(seen, *exact, transposed)
    terms = grouped_matmul.backward(np.abs(seen), *map(np.abs, exact), transposed)
    for gradient, value, term in zip(gradients, expected, terms, strict=True):
        assert_accurate(numpy(gradient).reshape(value.shape), value, dtype, 8 * term)


@pytest.mark.parametrize(("mode", "dtype"), combinations(FLOATS))
def test_there_and_back(mode, dtype):
    rng = np.random.default_rng(0)
    x, probs = tensor(draw(rng, (7, 9)), dtype), tensor(rng.uniform(size=(7, 3)), "float32")
    experts = Tensor(rng.integers(0, 5, (7, 3)).astype(np.int32))

    def there_and_back(x, experts, probs):
        rows, places, ends = ops.moe_token_permute(x, experts, 5)
        return ops.moe_token_unpermute(rows, places, probs), rows, places, ends

    y, *results = run(mode, there_and_back, (x, experts, probs))
    for result, golden in zip(results, moe_token_permute.forward(numpy(x), numpy(experts), 5), strict=True):
        np.testing.assert_array_equal(numpy(result), golden)
    golden = moe_token_unpermute.forward(*map(numpy, (results[0], results[1], probs)))
    assert_accurate(numpy(y), golden, dtype, np.abs(golden) + np.abs(numpy(x)))
    dy = tensor(draw(rng, (7, 9)), "float32")

    def weighted(x, experts, probs, dy):
        return (there_and_back(x, experts, probs)[0].astype(ms.float32) * dy).sum()

    dx, dprobs = run(mode, ms.grad(weighted, (0, 2)), (x, experts, probs, dy))
    exact, weights, seen = numpy(x), numpy(probs), numpy(tensor(numpy(dy), dtype))
    tolerance = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}[dtype]
    expected = seen * weights.sum(1, keepdims=True)
    np.testing.assert_allclose(numpy(dx), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
    expected = np.repeat((exact * seen).sum(1, keepdims=True), 3, 1)
    np.testing.assert_allclose(numpy(dprobs), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("mode", MODES)
def test_unpermute_without_weights(mode):
    rng = np.random.default_rng(0)
    rows, places = tensor(draw(rng, (4, 2, 5)), "float32"), Tensor(rng.permutation(8).reshape(4, 2).astype(np.int32))

    def total(rows, places):
        return (ops.moe_token_unpermute(rows, places) ** 2).sum()

    golden = moe_token_unpermute.forward(numpy(rows), numpy(places))
    drows = run(mode, ms.grad(total, 0), (rows, places))
    expected = moe_token_unpermute.backward(2 * golden, numpy(rows), numpy(places))[0]
    assert_close(numpy(drows), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("mode", "scoring", "has_bias"), combinations(["softmax", "sigmoid"], [True, False]))
def test_gating(mode, scoring, has_bias):
    rng = np.random.default_rng(0)
    x, bias = tensor(draw(rng, (2, 5, 12)), "float32"), tensor(rng.normal(size=12) / 5, "float32") if has_bias else None
    attributes = {"k": 3, "scoring": scoring, "group_count": 4, "k_group": 2, "group_score": "top2", "scale": 2.0}
    rest = (3, scoring, True, 4, 2, "top2", 2.0)

    def gate(x):
        return ops.moe_gating_top_k(x, bias, *rest)

    weights, experts = run(mode, gate, (x,))
    golden = moe_gating_top_k.forward(numpy(x), None if bias is None else numpy(bias), **attributes)
    np.testing.assert_array_equal(numpy(experts), golden[1])
    assert_accurate(numpy(weights), golden[0], "float32", 4 * golden[0])
    dweights = tensor(draw(rng, (2, 5, 3)), "float32")

    def weighted(x):
        return (gate(x)[0] * dweights).sum()

    dx = run(mode, ms.grad(weighted), (x,))
    seen = (numpy(dweights), numpy(x), golden[1])
    terms = moe_gating_top_k.backward_terms(*seen, **attributes)
    assert_accurate(numpy(dx), moe_gating_top_k.backward(*seen, **attributes), "float32", 4 * terms)


def zeros(*shape, dtype=np.float32):
    return Tensor(np.zeros(shape, dtype))


INDICES = zeros(3, 2, dtype=np.int32)
BAD = [
    (
        lambda: ops.grouped_matmul(zeros(3, 4), zeros(2, 5, 6), zeros(2, dtype=np.int32)),
        "grouped_matmul: weight.shape[1]",
    ),
    (
        lambda: ops.grouped_matmul(zeros(3, 4), zeros(2, 4, 6), zeros(3, dtype=np.int32)),
        "grouped_matmul: group_list.shape",
    ),
    (lambda: ops.grouped_matmul(zeros(0, 4), zeros(0, 4, 6), zeros(0, dtype=np.int32)), "grouped_matmul: "),
    (
        lambda: ops.grouped_quant_matmul(
            zeros(3, 4, dtype=np.int8), zeros(2, 6, 4, dtype=np.int8), zeros(2, 4), zeros(2, dtype=np.int32)
        ),
        "grouped_quant_matmul: scale.shape[1]",
    ),
    (lambda: ops.moe_token_permute(zeros(4, 8), INDICES, 2), "moe_token_permute: indices.shape[0]"),
    (lambda: ops.moe_token_permute(zeros(3, 8), INDICES, 0), "moe_token_permute: num_experts must be"),
    (lambda: ops.moe_token_permute(zeros(3, 8), INDICES, 1025), "moe_token_permute: num_experts must be at most 1024"),
    (
        lambda: ops.moe_token_permute(zeros(3, 8), zeros(3, 257, dtype=np.int32), 2),
        "moe_token_permute: a token must have at most 256 experts, got 257",
    ),
    (lambda: ops.moe_token_unpermute(zeros(3, 3, 8), INDICES), "moe_token_unpermute: sorted_indices.shape[1]"),
    (lambda: ops.moe_gating_top_k(zeros(3, 8), None, 9), "moe_gating_top_k: k must be at most the experts"),
    (lambda: ops.moe_gating_top_k(zeros(3, 8), zeros(7), 2), "moe_gating_top_k: bias.shape[0]"),
    (lambda: ops.moe_gating_top_k(zeros(3, 8), None, 2, "relu"), "moe_gating_top_k: scoring must be"),
    (lambda: ops.moe_gating_top_k(zeros(3, 8), None, 2, group_count=3), "moe_gating_top_k: group_count must divide"),
    (lambda: ops.moe_gating_top_k(zeros(3, 1025), None, 2), "moe_gating_top_k: x.shape[-1] must be at most 1024"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_an_expert_that_there_is_not():
    experts = Tensor(np.array([[0], [7]], np.int32))
    with pytest.raises(RuntimeError, match="moe_token_permute"):
        ops.moe_token_permute(zeros(2, 4), experts, 7)[0].asnumpy()
