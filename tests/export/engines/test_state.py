"""Networks that keep something between their calls: each run of `optimize` starts from what it was, and leaves that."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, nn, ops

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.export import equivalent_forms
from tests.export.equivalent_forms import HIDDEN
from tests.inputs import draw
from tests.modes import run
from tests.tensors import numpy, tensor


class Counting(nn.Cell):
    """A scalar that counts, a matrix that sums up, a tensor and numbers that are attributes, around a norm."""

    def __init__(self):
        super().__init__()
        self.norm = equivalent_forms.PowMeanNorm()
        self.steps = Parameter(tensor(0.0, "float32"), name="steps", requires_grad=False)
        self.sums = Parameter(tensor(np.zeros((3, HIDDEN)), "float32"), name="sums", requires_grad=False)

    def construct(self, x):
        ops.assign_add(self.steps, tensor(1.0, "float32"))
        ops.assign_add(self.sums, x)
        return self.norm(x + self.sums) + self.steps


class Attributes(nn.Cell):
    """What only PyNative mode can write: attributes."""

    def __init__(self):
        super().__init__()
        self.norm = equivalent_forms.PowMeanNorm()
        self.calls, self.last, self.seen = 0, tensor(np.zeros((3, HIDDEN)), "float32"), []

    def construct(self, x):
        self.calls += 1
        self.seen.append(self.calls)
        self.last = self.last + x
        return self.norm(self.last) + self.calls


def example():
    return [tensor(draw(np.random.default_rng(0), (3, HIDDEN)), "float32")]


@pytest.mark.parametrize(("mode", "gradients"), [("pynative", True), ("graph", False)])
def test_parameters(mode, gradients):
    net = Counting()
    inputs = example()
    run(mode, net, inputs)  # not from zero
    before = {id(p): p.asnumpy().copy() for p in net.get_parameters()}
    expected = numpy(run(mode, net, inputs))
    for parameter in net.get_parameters():  # `run` may put a cell around it, which renames them
        parameter.set_data(tensor(before[id(parameter)], "float32"))
    current = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    try:
        report = optimize(net, verify=[inputs, inputs], gradients=gradients, graph=mode == "pynative" or None)
    finally:
        ms.set_context(mode=current)
    assert [e.pattern for e in report.replaced] == ["RMSNorm"]
    assert report.rolled_back == ""
    assert "graph mode" in report.modes
    for parameter in net.get_parameters():
        np.testing.assert_array_equal(parameter.asnumpy(), before[id(parameter)])
        assert parameter.shape == before[id(parameter)].shape  # the scalar stays one
    assert_close(numpy(run(mode, net, inputs)), expected, atol=1e-5)


def test_attributes():
    net = Attributes()
    inputs = example()
    net(*inputs)
    last = net.last
    report = optimize(net, verify=inputs)
    assert [e.pattern for e in report.replaced] == ["RMSNorm"]
    assert (net.calls, net.seen) == (1, [1])
    assert net.last is last


class Mode(nn.Cell):
    """Gives another value in a graph: as what the modes take differently does."""

    def __init__(self, wrong):
        super().__init__()
        self.norm, self.wrong = equivalent_forms.PowMeanNorm(), wrong

    def construct(self, x):
        y = x * 2
        z = y.reshape(-1)
        y += 1
        return self.norm(y), z


def test_what_the_modes_take_differently_by_themselves():
    """In a graph the view is changed, too. That is how the network is, and nothing is put back for it."""
    net = Mode(True)
    inputs = example()
    expected = [numpy(v) for v in run("graph", net, inputs)]
    report = optimize(net, verify=inputs, graph=True)
    assert [e.pattern for e in report.replaced] == ["RMSNorm"]
    assert "in PyNative mode, and in graph mode" in str(report)
    for new, old in zip(run("graph", net, inputs), expected, strict=True):
        assert_close(numpy(new), old, atol=1e-5)


def test_graph_without_inputs():
    with pytest.raises(TypeError, match="graph=True needs the inputs"):
        optimize(Counting(), graph=True)
