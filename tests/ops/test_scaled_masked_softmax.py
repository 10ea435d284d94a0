import re

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor
from mindspore import ops as stock

from ms_ascend_ops import gradients, ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import MODES, combinations, run
from tests.reference import scaled_masked_softmax as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["M"]) for row in registry.signature("scaled_masked_softmax").types]


def weighted_sum(x, mask, dy, scale):
    return (ops.scaled_masked_softmax(x, mask, scale).astype(ms.float32) * dy.astype(ms.float32)).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_forward_and_gradient(mode, types):
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (2, 3, 5, 37)), types[0]) for _ in range(2))
    mask = tensor(np.where(rng.random((2, 1, 5, 37)) < 0.5, -np.inf, 0.0), types[1])
    y = run(mode, ops.scaled_masked_softmax, (x, mask), 0.25)
    assert dtype_name(y) == types[0]
    assert_accurate(numpy(y), reference.forward(numpy(x), numpy(mask), 0.25), types[0])
    dx = run(mode, ms.grad(weighted_sum), (x, mask, dy), 0.25)
    exact = numpy(dy), numpy(y), 0.25  # the gradient takes the rounded output
    assert_accurate(numpy(dx), reference.backward(*exact), types[0], reference.backward_terms(*exact))


MASKS = [
    (37,),  # of keys
    (5, 37),  # relative position
    (3, 1, 37),  # ALiBi
    (2, 1, 1, 37),  # padding
    (2, 3, 5, 37),
]


@pytest.mark.parametrize(("mode", "types", "shape"), combinations(TYPES, MASKS), ids=str)
def test_gradient_of_a_learned_mask(mode, types, shape):
    """Not scaled, summed over the dims that the mask broadcasts in; zero where a row is masked as a whole."""
    rng = np.random.default_rng(0)
    x, dy = (tensor(draw(rng, (2, 3, 5, 37)), types[0]) for _ in range(2))
    values = rng.normal(size=shape)
    if len(shape) > 1:
        values[..., 0, :] = -np.inf
    mask = tensor(values, types[1])
    y = ops.scaled_masked_softmax(x, mask, 0.25)
    dmask = run(mode, ms.grad(weighted_sum, 1), (x, mask, dy), 0.25)
    assert (dmask.shape, dtype_name(dmask)) == (shape, types[1])
    golden, terms = (
        reference.reduced(f(numpy(dy), numpy(y)), shape) for f in (reference.backward, reference.backward_terms)
    )
    assert_accurate(numpy(dmask), golden, types[1], terms)


def test_the_gradient_of_a_mask_that_needs_none_is_not_computed(monkeypatch):
    """In PyNative. A graph drops what is not used."""
    asked = []
    monkeypatch.setattr(
        gradients._NeedsGradient, "__call__", lambda _, mask: asked.append(mask._requires_grad) or asked[-1]
    )
    x, mask = (tensor(draw(np.random.default_rng(0), shape), "float32") for shape in ((3, 8), (8,)))
    weight = Parameter(mask, name="weight")
    ms.grad(lambda x: weighted_sum(x, mask, x, 1.0))(x)  # a constant
    ms.grad(lambda x: weighted_sum(x, stock.stop_gradient(weight), x, 1.0))(x)
    ms.grad(lambda x: weighted_sum(x, Parameter(mask, name="frozen", requires_grad=False), x, 1.0))(x)
    assert asked == [False] * 3
    ms.grad(lambda x: weighted_sum(x, weight, x, 1.0), None, [weight])(x)
    ms.grad(lambda x, mask: weighted_sum(x, mask * 2, x, 1.0), 1)(x, mask)
    assert asked[3:] == [True] * 2


@pytest.mark.parametrize(
    ("dtype", "shape", "scale", "error", "message"),
    [
        ("float16", (8,), 1.0, TypeError, "mask.dtype must be float32 when x.dtype is float32, got float16"),
        ("float32", (7,), 1.0, ValueError, "mask.shape[-1] must equal x.shape[-1] (8), got (7,)"),
        ("float32", (3, 8), 1.0, ValueError, "mask.shape[:-1] must broadcast to x.shape[:-1] (2, 4), got (3, 8)"),
        ("float32", (), 1.0, ValueError, "mask must have at least 1 dim, got shape ()"),
        ("float32", (8,), float("inf"), ValueError, "scale must be finite in float32, got inf"),
        ("float32", (8,), "1", TypeError, "scale must be a float, got str"),
    ],
)
def test_bad_input(dtype, shape, scale, error, message):
    tensors = Tensor(np.ones((2, 4, 8), np.float32)), Tensor(np.ones(shape, dtype))
    with pytest.raises(error, match="^" + re.escape(f"scaled_masked_softmax: {message}")):
        run("pynative", ops.scaled_masked_softmax, tensors, scale)
