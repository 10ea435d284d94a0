"""Attention with masks of the cell, objects with a call, functions in a construct, and branches."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, Tensor, nn, ops

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.modes import MODES, run
from tests.tensors import numpy, tensor

SIZE, HEADS, LENGTH = 32, 4, 8
CAUSAL = np.triu(np.full((LENGTH, LENGTH), -1e9, np.float32), 1)


class Base(nn.Cell):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Dense(SIZE, SIZE, has_bias=False) for _ in range(3))
        self.scale = 0.35

    def heads(self, x):
        return x.reshape(x.shape[0], x.shape[1], HEADS, -1).swapaxes(1, 2)


class OfTheCell(Base):
    """A mask that is a Tensor, or a Parameter that is frozen or trained."""

    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def construct(self, x):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        s = ops.matmul(q, k.swapaxes(2, 3)) * self.scale + self.mask[None, None]
        return ops.matmul(ops.softmax(s, -1), v)


class Processor:
    def __init__(self, factor):
        self.factor = factor

    def rotated(self, cell, x):
        return cell.heads(x) * self.factor

    def __call__(self, cell, x, mask=None):
        q, k, v = self.rotated(cell, cell.q(x)), cell.heads(cell.k(x)), cell.heads(cell.v(x))
        s = ops.matmul(q, k.swapaxes(2, 3)) * cell.scale
        s = s if mask is None else s + mask
        return ops.matmul(ops.softmax(s, -1), v)


class Processed(Base):
    def __init__(self):
        super().__init__()
        self.processor = Processor(2.0)

    def construct(self, x):
        return self.processor(self, x) + 1


class Nested(Base):
    """Functions in the construct, one of which takes names from around it."""

    def construct(self, x):
        b, n, _ = x.shape
        h = HEADS

        def split(t):
            return t.reshape(b, n, h, -1).transpose(0, 2, 1, 3).reshape(b * h, n, -1)

        def join(t):
            t = t.reshape(b, self.count(), n, -1)
            return t.transpose(0, 2, 1, 3).reshape(b, n, -1)

        q, k, v = split(self.q(x)), split(self.k(x)), split(self.v(x))
        a = ops.softmax(ops.matmul(q, k.transpose(0, 2, 1)) * self.scale, -1)
        return join(ops.matmul(a, v))

    def count(self):
        return HEADS


class Branches(Base):
    """Keys and values that a branch makes, and names that get other values afterwards."""

    def __init__(self, own):
        super().__init__()
        self.own = own

    def construct(self, x, context):
        q = self.heads(self.q(x))
        if self.own:
            k = self.heads(self.k(x))
            v = self.heads(self.v(x))
        else:
            k, v = self.heads(self.k(context)), self.heads(self.v(context))
        k = k.swapaxes(2, 3)
        s = ops.matmul(q, k)
        s *= self.scale
        return ops.matmul(ops.softmax(s, -1), v)


def mask(kind):
    return (
        Tensor(CAUSAL) if kind == "tensor" else Parameter(Tensor(CAUSAL), requires_grad=kind == "trained", name="mask")
    )


CASES = {
    "tensor": (lambda: OfTheCell(mask("tensor")), "attention"),
    "frozen": (lambda: OfTheCell(mask("frozen")), "attention"),
    "trained": (lambda: OfTheCell(mask("trained")), "scale + mask + softmax"),
    "processor": (Processed, "attention"),
    "nested": (Nested, "attention"),
    "own": (lambda: Branches(True), "attention"),
    "other": (lambda: Branches(False), "attention"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_found(name):
    make, pattern = CASES[name]
    net = make().set_train(False)
    random = np.random.default_rng(0)
    inputs = [tensor(draw(random, (2, LENGTH, SIZE)), "float32") for _ in range(2 if isinstance(net, Branches) else 1)]
    expected = numpy(net(*inputs))
    report = optimize(net, verify=inputs)
    assert [e.pattern for e in report.replaced] == [pattern], report
    for mode in MODES[:2]:
        assert_close(numpy(run(mode, net, inputs)), expected, atol=1e-5)


def test_a_cast_that_does_nothing():
    net = nn.SequentialCell(nn.LayerNorm((8,)).to_float(ms.float32), nn.LayerNorm((8,)).to_float(ms.float16))
    x = tensor(draw(np.random.default_rng(0), (3, 8)), "float32")
    report = optimize(net, verify=[x])
    assert [(e.place, e.replaced) for e in report.entries] == [("0", True), ("1", False)]
