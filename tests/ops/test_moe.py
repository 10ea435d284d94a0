"""The functions of a mixture of experts: gating, the order of experts, grouped products."""

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
    moe_token_permute,
    moe_token_unpermute,
)
from tests.tensors import dtype_name, numpy, tensor


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
