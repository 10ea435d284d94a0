import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate, assert_close
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.kernels.test_flash_attention import TERMS
from tests.modes import MODES, last_compiled, run
from tests.reference import flash_attention as reference
from tests.tensors import dtype_name, numpy, tensor

SHAPES = ((2, 4, 5, 16), (2, 2, 37, 16), (2, 2, 37, 12))  # query, key, value


def inputs(dtype):
    rng = np.random.default_rng(0)
    return [tensor(draw(rng, shape) / 2, dtype) for shape in SHAPES]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_forward_and_gradient(mode, dtype):
    tensors = inputs(dtype)
    out, lse = run(mode, ops.flash_attention, tensors, None, None, True)
    attributes = {"scale": 0.25, "causal": True}
    golden, golden_lse = reference.forward(*map(numpy, tensors), **attributes)
    assert (dtype_name(out), dtype_name(lse)) == (dtype, "float32")
    terms = reference.forward(*map(numpy, tensors[:2]), np.abs(numpy(tensors[2])), **attributes)[0]
    assert_accurate(numpy(out), golden, dtype, TERMS[dtype] * terms)
    assert_accurate(numpy(lse), golden_lse, "float32", np.abs(golden_lse) + 1)
    dout = tensor(draw(np.random.default_rng(1), golden.shape) / 2, dtype)

    def weighted(query, key, value, dout):
        return (ops.flash_attention(query, key, value, causal=True)[0].astype(ms.float32) * dout).sum()

    gradients = run(mode, ms.grad(weighted, (0, 1, 2)), (*tensors, dout.astype(ms.float32)))
    exact = [numpy(value) for value in (dout, *tensors)]
    for gradient, value, term in zip(
        gradients, reference.backward(*exact, **attributes), reference.backward_terms(*exact, **attributes), strict=True
    ):
        assert_accurate(numpy(gradient), value, dtype, TERMS[dtype] * term)


def test_gradient_of_the_logarithm():
    """Of the sum of exponentials, by which scores are regularised: the probabilities."""
    query, key, value = inputs("float32")
    dquery = ms.grad(lambda q: ops.flash_attention(q, key, value, scale=1.0)[1].sum())(query)
    q, k = numpy(query), np.repeat(numpy(key), 2, axis=1)
    scores = q @ k.swapaxes(-1, -2)
    probabilities = np.exp(scores - scores.max(-1, keepdims=True))
    golden = probabilities / probabilities.sum(-1, keepdims=True) @ k
    assert_accurate(numpy(dquery), golden, "float32", np.abs(golden).max() * np.ones_like(golden))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(2, 1, 5, 37), (4, 5, 37), (5, 37), (37,)])
def test_masks_of_bools_and_of_fewer_dims(mode, shape):
    """True is a key that is seen."""
    tensors = inputs("float32")
    visible = np.random.default_rng(1).random(shape) < 0.7
    golden, _ = reference.forward(*map(numpy, tensors), np.where(visible, 0, -np.inf), 0.25)
    for mask in (Tensor(visible), Tensor(np.where(visible, 0, -np.inf).astype(np.float32))):
        out, _ = run(mode, ops.flash_attention, [*tensors, mask])
        terms = reference.forward(*map(numpy, tensors[:2]), np.abs(numpy(tensors[2])), None, 0.25)[0]
        assert_accurate(numpy(out), golden, "float32", TERMS["float32"] * (terms + np.abs(golden)))


@pytest.mark.parametrize("mode", MODES)
def test_a_mask_of_what_is_behind_is_causal(mode):
    query, key, value = inputs("float32")
    mask = tensor(np.where(np.tri(5, 37, 32), 0, -np.inf)[None, None], "float32")
    out, _ = run(mode, ops.flash_attention, (query, key, value, mask))
    causal, _ = ops.flash_attention(query, key, value, causal=True)
    assert_close(numpy(out), numpy(causal), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("mode", "shape", "dtype", "layout", "causal", "window"),
    last_compiled(
        [
            ((2, 4, 5, 37), "float32", "BNSD", False, 0),
            ((2, 1, 1, 37), "bfloat16", "BNSD", True, 3),
            ((1, 4, 5, 37), "float32", "BSND", False, 2),
            ((1, 1, 5, 37), "float32", "BSND", True, 0),
        ]
    ),
)
def test_gradient_of_a_mask(mode, shape, dtype, layout, causal, window):
    """A bias of the scores may be learned. Some keys are hidden."""
    rng = np.random.default_rng(3)
    given = [x if layout == "BNSD" else x.swapaxes(1, 2) for x in map(numpy, inputs(dtype))]
    mask = np.where(rng.random(shape) < 0.2, -np.inf, draw(rng, shape)).astype(np.float32)
    dout = draw(rng, reference.forward(*given, layout=layout)[0].shape)

    def total(query, key, value, mask, dout):
        out, _ = ops.flash_attention(query, key, value, mask, 0.25, causal, window, layout)
        return (out.astype(ms.float32) * dout).sum()

    gradient = ms.grad(total, (0, 3))
    tensors = [*(tensor(x, dtype) for x in given), tensor(mask, "float32"), tensor(dout, "float32")]
    dquery, dmask = run(mode, gradient, tensors)
    golden, terms = reference.mask_gradient(dout, *given, mask, 0.25, causal, window, layout)
    if dtype == "float32":
        assert_accurate(numpy(dmask), golden, dtype, TERMS[dtype] * terms)
    else:  # the sum that is taken off every product is one of rounded outputs: some ULP of bfloat16 of what is added up
        assert (np.abs(numpy(dmask) - golden) <= 2.0**-7 * terms).all()
    assert np.isfinite(numpy(dquery)).all()


BAD = [
    (((2, 3, 5, 16), *SHAPES[1:]), {}, ValueError, "query.shape[1] must be a multiple of"),
    ((SHAPES[0], (2, 2, 37, 8), SHAPES[2]), {}, ValueError, "key.shape[3] must equal query.shape[3] (16)"),
    ((SHAPES[0], SHAPES[1], (2, 2, 36, 12)), {}, ValueError, "value.shape[2] must equal key.shape[2] (37)"),
    (((2, 4, 5, 300), (2, 2, 37, 300), SHAPES[2]), {}, ValueError, "query.shape[-1] must be at most 256"),
    (SHAPES, {"window": -1}, ValueError, "window must be 0 (all keys) or more, got -1"),
    (SHAPES, {"layout": "SBND"}, ValueError, "layout must be"),
    ((SHAPES[0][1:], *SHAPES[1:]), {}, ValueError, "query must have 4 dims"),
]


@pytest.mark.parametrize(("shapes", "attributes", "error", "message"), BAD)
def test_bad_input(shapes, attributes, error, message):
    with pytest.raises(error, match="^" + re.escape("flash_attention: ") + ".*" + re.escape(message)):
        ops.flash_attention(*[Tensor(np.zeros(shape, np.float32)) for shape in shapes], **attributes)


def test_a_mask_that_does_not_broadcast():
    mask = Tensor(np.zeros((1, 3, 5, 37), np.float32))
    with pytest.raises(ValueError, match=r"flash_attention: mask\.shape\[1\]"):
        ops.flash_attention(*inputs("float32"), mask)


def test_training_in_a_graph_logs_nothing(capfd):
    """MindSpore looks for the file of a bprop at each call, and logs an error where there is none."""
    query = tensor(np.ones((1, 1, 3, 8)), "float32")

    def loss(query):
        return ops.flash_attention(query, query, query, causal=True)[0].sum()

    for _ in range(2):
        run("graph", ms.grad(loss), (query,))
    assert "[ERROR]" not in capfd.readouterr().err
