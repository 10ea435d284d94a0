"""Statements as `x += y` beside fused operators: in PyNative mode they make another tensor, in graphs they do not."""

import collections

import numpy as np
import pytest
from mindspore import Parameter, nn, ops
from ms_ascend_ops.export.graphs.dispatch_mode import DispatchMode

from ms_ascend_ops import export_mindir, load, optimize
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.modes import MODES, few_modes, run
from tests.tensors import numpy, tensor

SIZE, HEADS = 32, 4


class Attention(nn.Cell):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = (nn.Dense(SIZE, SIZE, has_bias=False) for _ in range(3))
        bias = draw(np.random.default_rng(1), (1, HEADS, 8, 8))
        self.bias, self.scale = Parameter(tensor(bias, "float32"), name="bias"), 0.5
        self.drop, self.softmax, self.product = nn.Dropout(p=0.0), nn.Softmax(-1), ops.BatchMatMul()

    def heads(self, x):
        return x.reshape(x.shape[0], x.shape[1], HEADS, -1).swapaxes(1, 2)

    def split(self, x):
        return self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))


class LearnedBias(Attention):
    def construct(self, x):
        q, k, v = self.split(x)
        scores = ops.matmul(q, k.swapaxes(2, 3))
        scores += self.bias
        return ops.matmul(ops.softmax(scores, -1), v)


class ScaledAndMasked(Attention):
    def construct(self, x, mask):
        q, k, v = self.split(x)
        scores = ops.matmul(q, k.swapaxes(2, 3))
        scores *= self.scale
        scores += mask
        return ops.matmul(ops.softmax(scores, -1), v)


class ScaledQueries(Attention):
    """What is scaled in place is a view of what a layer gives, and the keys lie beside it."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Dense(SIZE, 3 * SIZE)

    def construct(self, x, mask):
        q, k, v = self.qkv(x).reshape(x.shape[0], x.shape[1], 3, HEADS, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q *= self.scale
        scores = ops.matmul(q, k.swapaxes(2, 3))
        scores += mask
        return ops.matmul(ops.softmax(scores, -1), v)


class Aliased(Attention):
    """Somebody else has what is changed: the modes differ by themselves, and neither may change."""

    def construct(self, x):
        q, k, v = self.split(x)
        scores = ops.matmul(q, k.swapaxes(2, 3))
        plain = scores.reshape(x.shape[0], -1)
        scores += self.bias
        return ops.matmul(ops.softmax(scores, -1), v), plain + 1


def example():
    random = np.random.default_rng(0)
    mask = np.where(np.tri(8), 0, -1e9)[None, None]
    return [tensor(v, "float32") for v in (draw(random, (2, 8, SIZE)), mask)]


KINDS = {LearnedBias: "scale + mask + softmax", ScaledAndMasked: "attention", ScaledQueries: "attention"}


@pytest.mark.parametrize(("kind", "pattern"), KINDS.items())
def test_in_every_mode(kind, pattern, tmp_path):
    net = kind().set_train(False)
    inputs = example()[: 1 if kind is LearnedBias else 2]
    expected = numpy(net(*inputs))
    assert [e.pattern for e in optimize(net, verify=inputs).replaced if e.engine == "rewrite"] == [pattern]
    for mode in few_modes(kind, KINDS):
        assert_close(numpy(run(mode, net, inputs)), expected, atol=1e-5)
    file = export_mindir(net, *inputs, path=tmp_path / "net.mindir")
    assert_close(np.asarray(load(file)(*(x.asnumpy() for x in inputs))), expected, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_what_somebody_else_has(mode):
    net = Aliased().set_train(False)
    inputs = example()[:1]
    expected = [numpy(v) for v in run(mode, net, inputs)]
    report = optimize(net, verify=inputs)
    assert [e.pattern for e in report.replaced if e.engine == "rewrite"] in ([], ["softmax"])
    for new, old in zip(run(mode, net, inputs), expected, strict=True):
        assert_close(numpy(new), old, atol=1e-5)


class Counted(DispatchMode):
    def __init__(self):
        super().__init__()
        self.count = collections.Counter()

    def __ms_dispatch__(self, func, args, kwargs=None):
        self.count[func.name] += 1
        return func(*args)


class Dropping(Attention):
    def construct(self, x, mask):
        q, k, v = self.split(x)
        a = self.product(q, k.swapaxes(2, 3)) * self.scale
        a = self.softmax(a + mask)
        a = self.drop(a)
        return self.product(a, v)


class Remembering(Dropping):
    """Its probabilities are read by a statement that stays."""

    def construct(self, x, mask):
        q, k, v = self.split(x)
        a = self.softmax(self.product(q, k.swapaxes(2, 3)) * self.scale + mask)
        self.last = a
        return self.product(a, v)


def test_dead_statements_do_not_run():
    net = Dropping().set_train(False)
    inputs = example()
    expected = numpy(net(*inputs))
    report = optimize(net, verify=inputs)
    assert "attention" in [e.pattern for e in report.replaced]
    with Counted() as counted:
        assert_close(numpy(net(*inputs)), expected, atol=1e-5)
    assert not counted.count.keys() & {"BatchMatMul", "Softmax"}
    before, after = report.primitives
    assert (before["BatchMatMul"], before["Softmax"]) == (2, 1)
    assert not after.keys() & {"BatchMatMul", "Softmax"}
    assert "BatchMatMul 2 to 0" in str(report)
    assert "Softmax 1 to 0" in str(report)


def test_what_still_runs_is_not_called_replaced():
    net = Remembering().set_train(False)
    inputs = example()
    net(*inputs)
    probabilities = numpy(net.last)
    report = optimize(net, verify=inputs)
    assert "attention" not in [e.pattern for e in report.replaced]
    net(*inputs)
    assert_close(numpy(net.last), probabilities, atol=1e-5)
