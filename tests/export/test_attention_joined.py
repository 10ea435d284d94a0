"""Attention whose batch and heads are one axis at both ends, masks that are subtracted, and `+=` in files."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from ms_ascend_ops import load, optimize
from tests.acceptance import assert_close
from tests.export.test_attention import OUTPUT, D, S, T, draw, gradients_of, kinds, optimized, reference, tensors
from tests.modes import Together, few_modes, run
from tests.tensors import numpy

H = 6  # batch * heads
HEADS = [draw(H, S, D), draw(H, T, D), draw(H, T, D, seed=1)]
HIDDEN = np.tri(S, T, T - S) == 0
LOW = np.where(HIDDEN, -1e9, 0)
SCALE = 0.3


class Plain(nn.Cell):
    def construct(self, q, k, v):
        return ops.bmm(ops.softmax(ops.bmm(q * SCALE, k.swapaxes(1, 2)), -1), v)


class Added(nn.Cell):
    def construct(self, q, k, v, mask):
        scores = ops.bmm(q, k.swapaxes(1, 2)) * SCALE
        scores = scores + mask
        return ops.matmul(ops.softmax(scores, -1), v)


class Subtracted(nn.Cell):
    def construct(self, q, k, v, visible):
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE - (1 - visible) * 1e9
        return ops.matmul(ops.softmax(scores, -1), v)


class Filled(nn.Cell):
    def construct(self, q, k, v, mask):
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE
        scores = scores.masked_fill(mask, -1e9)
        return ops.matmul(ops.softmax(scores - scores.max(-1, keepdims=True), -1), v)


class InPlace(nn.Cell):
    """Each of them on memory that nobody reads otherwise."""

    def __init__(self, subtract):
        super().__init__()
        self.subtract = subtract

    def construct(self, q, k, v, mask):
        q *= SCALE
        scores = ops.matmul(q, k.swapaxes(1, 2))
        scores /= 2.0
        scores *= 2.0
        if self.subtract:
            scores -= -mask
        else:
            scores += mask
        return ops.matmul(ops.softmax(scores, -1), v)


CASES = {
    "plain": (Plain, None, 0),
    "mask": (Added, LOW, LOW),
    "one for each head": (Added, draw(H, S, T), draw(H, S, T)),
    "one for each key": (Added, draw(1, 1, T), draw(1, 1, T)),
    "subtracted": (Subtracted, 1.0 - HIDDEN, LOW),
    "filled": (Filled, HIDDEN, LOW),
}


def expected(bias):
    return reference(*(x[None] for x in HEADS), bias, SCALE)[0]


@pytest.mark.parametrize("name", CASES)
def test_in_a_network(name):
    make, mask, bias = CASES[name]
    net, inputs = make(), tensors(HEADS if mask is None else [*HEADS, mask])
    stock = gradients_of(net, inputs) if mask is None else None
    report = optimize(net, verify=inputs)
    assert [e.pattern for e in report.replaced] == ["attention"], report
    for mode in few_modes(name, CASES):
        assert_close(numpy(run(mode, net, inputs)), expected(bias), atol=OUTPUT)
    if stock is not None:
        for got, wanted in zip(gradients_of(net, inputs), stock, strict=True):
            assert_close(got, wanted, atol=2e-5)


def test_in_a_file(tmp_path):
    values = [HEADS if mask is None else [*HEADS, mask] for _, mask, _ in CASES.values()]
    net = Together([make() for make, *_ in CASES.values()], [len(some) for some in values])
    inputs = tensors([value for some in values for value in some])
    report, network = optimized(net, inputs, tmp_path)
    assert [e.pattern for e in report.replaced].count("attention") == len(CASES), report
    assert not {"Softmax", "BatchMatMul", "MatMulExt"} & set(kinds(tmp_path / "fused.mindir"))
    for name, given in zip(CASES, network(*inputs), strict=True):
        assert_close(numpy(given), expected(CASES[name][2]), atol=OUTPUT, err_msg=name)


@pytest.mark.parametrize("subtract", [False, True])
def test_writes_in_place_become_values_of_a_file(subtract, tmp_path):
    inputs = tensors([*HEADS, LOW])
    report, network = optimized(Inner(subtract), inputs, tmp_path)
    assert [e.pattern for e in report.replaced][-1] == "attention", report
    assert not any(kind.startswith("Inplace") for kind in kinds(tmp_path / "fused.mindir"))
    assert_close(numpy(network(*inputs)), expected(LOW), atol=OUTPUT)


class Inner(nn.Cell):
    """The queries are a value of the network: an input that is changed belongs to the caller."""

    def __init__(self, subtract):
        super().__init__()
        self.inner = InPlace(subtract)

    def construct(self, q, k, v, mask):
        return self.inner(ops.relu(q) - ops.relu(-q), k, v, mask)


class Alias(nn.Cell):
    """Two names of one tensor: in a graph both have the sum."""

    def construct(self, q, k, v, mask):
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE
        kept = scores
        scores += mask
        return ops.matmul(ops.softmax(scores, -1), v), kept


class View(nn.Cell):
    """A part of what is read as a whole afterwards."""

    def construct(self, q, k, v, mask):
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE
        part = scores[:2].reshape(2, -1)
        scores += mask
        return ops.matmul(ops.softmax(scores, -1), v), part


class Read(nn.Cell):
    """What is written over was read before."""

    def construct(self, q, k, v, mask):
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE
        largest = ops.relu(scores)
        scores += mask
        return ops.matmul(ops.softmax(scores, -1), v), largest


class Input(nn.Cell):
    """The memory is that of an input."""

    def construct(self, q, k, v, mask):
        q *= SCALE
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(1, 2)) + mask, -1), v), q + 0


class Stored(nn.Cell):
    """The memory is that of a Parameter, which keeps the sum."""

    def __init__(self):
        super().__init__()
        self.bias = Parameter(Tensor(np.full((S, T), 0.5, np.float32)), name="bias", requires_grad=False)

    def construct(self, q, k, v, mask):
        self.bias += mask * 0.125
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(1, 2)) * SCALE + self.bias, -1), v), self.bias + 0


class Loop(nn.Cell):
    def construct(self, q, k, v, mask):
        total = ops.zeros((H, S, T), ms.float32)
        for _ in range(3):
            total += mask * 0.125
        scores = ops.matmul(q, k.swapaxes(1, 2)) * SCALE
        scores += total
        scores += total
        return ops.matmul(ops.softmax(scores, -1), v), total


@pytest.mark.parametrize("kind", [Alias, View, Read, Input, Stored, Loop])
def test_what_others_read_stays_in_a_file(kind, tmp_path):
    values = [*HEADS, draw(S, T)]
    _, network = optimized(kind(), tensors(values), tmp_path)
    stock = load(tmp_path / "stock.mindir")
    for _ in range(2):  # a Parameter has another value then
        for got, wanted in zip(network(*tensors(values)), stock(*tensors(values)), strict=True):
            assert_close(numpy(got), numpy(wanted), atol=OUTPUT)


class Weighted(nn.Cell):
    def construct(self, q, k, v, mask):
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(1, 2)) * SCALE * mask, -1), v)


def test_scores_times_a_tensor_are_left_with_the_reason():
    net, inputs = Weighted(), tensors([*HEADS, draw(S, T)])
    report = optimize(net, verify=inputs)
    assert ("attention", "its scores are multiplied by a tensor") in [(e.pattern, e.text) for e in report.skipped]


class FiveAxes(nn.Cell):
    def construct(self, q, k, v):
        q, k, v = (x.reshape(1, 1, *x.shape) for x in (q, k, v))
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(3, 4)) * SCALE, -1), v)


def test_five_axes_are_left_with_the_reason():
    report = optimize(FiveAxes(), verify=tensors(HEADS))
    assert ("attention", "its scores have more than four axes") in [(e.pattern, e.text) for e in report.skipped]
