"""Inputs without elements: a sum of nothing is 0, a mean of nothing NaN, a gradient of nothing zeros.

Stock operators of a CPU leave what was in memory there, so memory is dirtied before each call.
"""

from dataclasses import replace

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import ops
from tests.empty import MORE, first_variants, golden, leave_garbage, without
from tests.modes import Together, run
from tests.tensors import numpy

UNDRAWABLE = {
    ("cross_entropy", (3, 0)),
    ("paged_attention", (0, 5)),
    ("quant_matmul", (5, 0)),
    ("grouped_quant_matmul", (5, 0)),
}
CALLS = [(example, shape) for example in first_variants() for shape, refused in without(example) if not refused]
REFUSALS = [
    (example, shape)
    for example in first_variants()
    for shape, refused in without(example)
    if refused and (example.name, shape[-2:]) not in UNDRAWABLE
]


NAMES = sorted({example.name for example, _ in CALLS})


def thorough(*values):
    return pytest.param(*values, marks=pytest.mark.thorough)


class Gradients(nn.Cell):
    """What a function returns, and the gradients of the sum of its first result."""

    def __init__(self, call, count):
        super().__init__()
        self.function = call.function
        self.gradient = None if call.gradients is None else ms.grad(self.total, tuple(range(count)))

    def total(self, *tensors):
        result = self.function(*tensors)
        return (result[0] if isinstance(result, tuple) else result).sum()

    def construct(self, *tensors):
        return self.function(*tensors), () if self.gradient is None else self.gradient(*tensors)


def assert_equal(name, got, wanted):
    """`wanted` by position, else 0; None: any."""
    for place, value in enumerate(flat(got)):
        if wanted.get(place, 0.0) is not None:
            right = np.broadcast_to(wanted.get(place, 0.0), value.shape)
            np.testing.assert_allclose(numpy(value), right, 1e-4, 1e-5, err_msg=f"{name} {place}")


@pytest.mark.parametrize(
    ("mode", "count", "name"),
    [
        *(("pynative", None, name) for name in NAMES),
        *(("jit", 1, name) for name in NAMES[::6]),
        *(thorough("jit", None, name) for name in NAMES),
    ],
)
def test_values(mode, count, name):
    """A graph for one shape of every sixth operator: it takes ten times as long as the calls."""
    calls = [(example, shape) for example, shape in CALLS if example.name == name][:count]
    tensors = [example.tensors(shape=shape) for example, shape in calls]
    network = Together([example.network() for example, _ in calls], [len(some) for some in tensors])
    leave_garbage()
    results = run(mode, network, [tensor for some in tensors for tensor in some])
    for (example, shape), some, result in zip(calls, tensors, results, strict=True):
        wanted = golden(example, some)
        assert [value.shape for value in flat(result)] == [np.shape(value) for value in wanted], (example, shape)
        assert_equal(f"{example} {shape}", result, dict(enumerate(wanted)))


@pytest.mark.parametrize(("example", "shape"), REFUSALS, ids=str)
def test_refusals(example, shape):
    """By name, never by what MindSpore says from inside."""
    forward = replace(example, gradient=False)
    tensors = forward.tensors(shape=shape)
    with pytest.raises((ValueError, RuntimeError), match=f"{example.name}: .*(must be|must have|must equal)"):
        run("pynative", forward.network(), tensors)


@pytest.mark.parametrize(
    ("function", "ranks", "integers"),
    [(ops.flash_attention, 4, 0), (ops.flash_attention_varlen, 3, 2), (ops.paged_attention, 4, 2)],
)
def test_heads_without_elements_have_no_scale(function, ranks, integers):
    x = ms.Tensor(np.ones((2, 2, 2, 0)[-ranks:], np.float32))
    with pytest.raises(ValueError, match=f"{function.__name__}: .*must be at least 1"):
        function(
            x, x, x, *[ms.Tensor(np.ones((2,) if ranks == 3 else (2, 2)[: 2 - i], np.int32)) for i in range(integers)]
        )


@pytest.mark.parametrize(
    ("mode", "step", "group"),
    [("pynative", 1, 0), *(thorough("jit", 3, group) for group in range(3))],
)
def test_more(mode, step, group):
    """Optional inputs, inputs that broadcast, axes of any rank, and the gradients of all of them."""
    calls = MORE[group::step]
    tensors = [call.tensors() for call in calls]
    networks = [Gradients(call, len(some)) for call, some in zip(calls, tensors, strict=True)]
    leave_garbage()
    results = run(
        mode, Together(networks, [len(some) for some in tensors]), [tensor for some in tensors for tensor in some]
    )
    for call, some, (outputs, gradients) in zip(calls, tensors, results, strict=True):
        assert_equal(call.name, outputs, call.results)
        if call.gradients is not None:
            assert [value.shape for value in flat(gradients)] == [value.shape for value in some], call.name
            assert_equal(f"{call.name}, gradient", gradients, call.gradients)
