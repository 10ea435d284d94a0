import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate, assert_close
from tests.inputs import draw
from tests.kernels.test_flash_attention import TERMS
from tests.modes import MODES, last_compiled, run
from tests.reference import flash_attention as reference
from tests.tensors import numpy, tensor

SHAPES = ((2, 4, 5, 16), (2, 2, 37, 16), (2, 2, 37, 12))  # query, key, value


def inputs(dtype):
    rng = np.random.default_rng(0)
    return [tensor(draw(rng, shape) / 2, dtype) for shape in SHAPES]


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


def test_training_in_a_graph_logs_nothing(capfd):
    """MindSpore looks for the file of a bprop at each call, and logs an error where there is none."""
    query = tensor(np.ones((1, 1, 3, 8)), "float32")

    def loss(query):
        return ops.flash_attention(query, query, query, causal=True)[0].sum()

    for _ in range(2):
        run("graph", ms.grad(loss), (query,))
    assert "[ERROR]" not in capfd.readouterr().err
