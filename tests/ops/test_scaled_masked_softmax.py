import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter
from mindspore import ops as stock

from ms_ascend_ops import gradients, ops, registry
from tests.acceptance import assert_accurate
from tests.inputs import draw
from tests.modes import combinations, run
from tests.reference import scaled_masked_softmax as reference
from tests.tensors import dtype_name, numpy, tensor

TYPES = [(row["T"], row["M"]) for row in registry.signature("scaled_masked_softmax").types]


def weighted_sum(x, mask, dy, scale):
    return (ops.scaled_masked_softmax(x, mask, scale).astype(ms.float32) * dy.astype(ms.float32)).sum()


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
