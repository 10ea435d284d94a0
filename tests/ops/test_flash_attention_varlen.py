import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.kernels.test_flash_attention import TERMS
from tests.modes import MODES, run
from tests.reference import flash_attention_varlen as reference
from tests.tensors import dtype_name, numpy, tensor

SHAPES = ((9, 4, 16), (37, 2, 16), (37, 2, 12))  # query, key, value
LENGTHS = ([5, 5, 9], [20, 30, 37])


def lengths():
    return [Tensor(np.array(ends, np.int32)) for ends in LENGTHS]


def inputs(dtype):
    rng = np.random.default_rng(0)
    return [tensor(draw(rng, shape) / 2, dtype) for shape in SHAPES]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_forward_and_gradient(mode, dtype):
    tensors = inputs(dtype)
    out, lse = run(mode, ops.flash_attention_varlen, (*tensors, *lengths()), None, True)
    attributes = {"scale": 0.25, "causal": True}
    exact = [numpy(value) for value in tensors]
    golden, golden_lse = reference.forward(*exact, *LENGTHS, **attributes)
    assert (dtype_name(out), dtype_name(lse)) == (dtype, "float32")
    terms = reference.forward(*exact[:2], np.abs(exact[2]), *LENGTHS, **attributes)[0]
    assert_accurate(numpy(out), golden, dtype, TERMS[dtype] * terms)
    assert_accurate(numpy(lse), golden_lse, "float32", np.abs(golden_lse) + 1)
    dout = tensor(draw(np.random.default_rng(1), golden.shape) / 2, dtype)

    def weighted(query, key, value, query_lengths, key_lengths, dout):
        out = ops.flash_attention_varlen(query, key, value, query_lengths, key_lengths, causal=True)[0]
        return (out.astype(ms.float32) * dout).sum()

    gradients = run(mode, ms.grad(weighted, (0, 1, 2)), (*tensors, *lengths(), dout.astype(ms.float32)))
    exact = [numpy(dout), *exact, *LENGTHS]
    for gradient, value, term in zip(
        gradients, reference.backward(*exact, **attributes), reference.backward_terms(*exact, **attributes), strict=True
    ):
        assert_accurate(numpy(gradient), value, dtype, TERMS[dtype] * term)


def test_gradient_of_the_logarithm():
    """Of the sum of exponentials, by which scores are regularised: the probabilities."""
    query, key, value = inputs("float32")
    dquery = ms.grad(lambda q: ops.flash_attention_varlen(q, key, value, *lengths(), scale=1.0)[1].sum())(query)
    golden, begin = np.zeros(query.shape), [0, 0]
    for ends in zip(*LENGTHS, strict=True):
        queries, keys = (slice(*pair) for pair in zip(begin, ends, strict=True))
        of_heads = np.repeat(numpy(key)[keys], 2, axis=1)
        scores = np.einsum("shd,thd->hst", numpy(query)[queries], of_heads)
        probabilities = np.exp(scores - scores.max(-1, keepdims=True))
        golden[queries] = np.einsum("hst,thd->shd", probabilities / probabilities.sum(-1, keepdims=True), of_heads)
        begin = ends
    assert_accurate(numpy(dquery), golden, "float32", np.abs(golden).max() * np.ones_like(golden))


BAD = [
    (((9, 3, 16), *SHAPES[1:]), ((3,), (3,)), {}, "query.shape[1] must be a multiple of"),
    ((SHAPES[0], (37, 2, 8), SHAPES[2]), ((3,), (3,)), {}, "key.shape[2] must equal query.shape[2] (16)"),
    ((SHAPES[0], SHAPES[1], (36, 2, 12)), ((3,), (3,)), {}, "value.shape[0] must equal key.shape[0] (37)"),
    (((9, 4, 300), (37, 2, 300), SHAPES[2]), ((3,), (3,)), {}, "query.shape[-1] must be at most 256"),
    (SHAPES, ((3,), (4,)), {}, "key_lengths.shape[0] must equal query_lengths.shape[0] (3), got (4,)"),
    (SHAPES, ((3,), (3,)), {"window": -1}, "window must be 0 (all keys) or more, got -1"),
    (((1, *SHAPES[0]), *SHAPES[1:]), ((3,), (3,)), {}, "query must have 3 dims"),
]


@pytest.mark.parametrize(("shapes", "of_lengths", "attributes", "message"), BAD)
def test_bad_input(shapes, of_lengths, attributes, message):
    tensors = [Tensor(np.zeros(shape, np.float32)) for shape in shapes]
    tensors += [Tensor(np.zeros(shape, np.int32)) for shape in of_lengths]
    with pytest.raises(ValueError, match="^" + re.escape("flash_attention_varlen: ") + ".*" + re.escape(message)):
        ops.flash_attention_varlen(*tensors, **attributes)


def test_lengths_of_another_dtype():
    of_queries, of_keys = lengths()
    with pytest.raises(TypeError, match=r"^flash_attention_varlen: query_lengths.dtype must be int32, got int64"):
        ops.flash_attention_varlen(*inputs("float32"), of_queries.astype(ms.int64), of_keys)
