"""Convolutions are replaced where the operator is not slower on this machine."""

from contextlib import nullcontext

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn
from ms_ascend_ops.export.engines import timing
from ms_ascend_ops.export.graphs.modes import graph_mode

from ms_ascend_ops import export_mindir, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.tensors import numpy, tensor


class Network(nn.Cell):
    """A depthwise convolution and a small one, each with an activation."""

    def __init__(self):
        super().__init__()
        self.depthwise = nn.Conv2d(32, 32, 7, pad_mode="pad", padding=3, group=32, has_bias=True)
        self.small, self.relu = nn.Conv2d(32, 4, 1), nn.ReLU()

    def construct(self, x):
        return self.relu(self.small(self.relu(self.depthwise(x))))


@pytest.fixture
def measured(monkeypatch):
    """The seconds that each takes are set; returns what was measured."""
    monkeypatch.setattr(timing, "_known", {})
    monkeypatch.setattr(timing, "_slow", {})
    seconds, calls = {"ours": 1.0, "stock": 2.0}, []

    def times(ours, stock):
        calls.append((numpy(ours()), numpy(stock())))
        in_graph = ms.get_context("mode") == ms.GRAPH_MODE
        return seconds["graph" if in_graph and "graph" in seconds else "ours"], seconds["stock"]

    monkeypatch.setattr(timing, "_times", times)
    return seconds, calls


@pytest.mark.parametrize("ours", [1.0, 3.0])
def test_what_is_slower_stays(ours, measured, tmp_path):
    seconds, calls = measured
    seconds["ours"] = ours
    net = Network()
    x = tensor(draw(np.random.default_rng(0), (2, 32, 24, 20)), "float32")
    expected = numpy(net(x))
    file = export_mindir(net, x, path=tmp_path / "net.mindir")
    reports = [optimize(net, verify=[x], level="O3"), optimize_mindir(file, tmp_path / "fused.mindir", level="O3")]
    for report in reports:
        places = [e for e in report.replaced if e.pattern == "convolution"]
        assert len(places) == (2 if ours < 2 else 1)  # the small one takes no time
        left = [e.text for e in report.skipped if e.pattern == "convolution"]
        assert bool(left) is (ours > 2)
        assert all("MindSpore's takes 2e+03 ms and the operator 3e+03 ms" in text for text in left)
    assert_close(numpy(net(x)), expected, atol=1e-5)
    # Both were asked for the same: bias and activation included. Each size is measured once.
    for new, old in calls:
        np.testing.assert_allclose(new, old, atol=1e-4 * np.abs(old).max())
    # With activation and bias: what is slower so is so alone. Networks in PyNative and in a graph, files in a graph.
    assert len(calls) == (3 if ours < 2 else 2)


@pytest.mark.parametrize("mode", [None, True, False, "GRAPH"])
def test_modes(mode, measured):
    """A network stays if the operator is slower in a graph, unless the caller says that it runs in PyNative."""
    seconds, calls = measured
    seconds["graph"] = 3.0
    x = tensor(draw(np.random.default_rng(0), (2, 32, 24, 20)), "float32")
    with graph_mode() if mode == "GRAPH" else nullcontext():
        report = optimize(Network(), verify=[x], level="O3", graph=None if mode == "GRAPH" else mode)
    left = {e.text for e in report.skipped if e.pattern == "convolution"}
    assert len([e for e in report.replaced if e.pattern == "convolution"]) == (2 if mode is False else 1)
    assert len(left) == (0 if mode is False else 1)
    assert all("MindSpore's takes 2e+03 ms and the operator 3e+03 ms, in a graph" in text for text in left)
    assert len(calls) == (1 if mode in (False, "GRAPH") else 2)
    assert ms.get_context("mode") == ms.PYNATIVE_MODE


def test_times():
    """The worse of process and clock, from runs in turn; the first of ours does not count."""
    order = []

    def run(name, value):
        order.append(name)
        return tensor(np.full(2000, value), "float32")

    ours, stock = timing._times(lambda: run("ours", 1.0), lambda: run("stock", 2.0))
    assert ours > 0
    assert stock > 0
    assert order[:3] == ["ours", "ours", "stock"]
    assert 5 <= len(order) <= 13


class Projected(Network):
    """The same, and a layer of mint."""

    def __init__(self):
        super().__init__()
        self.linear = mint.nn.Linear(4, 3)

    def construct(self, x):
        return self.linear(super().construct(x).mean((2, 3)))


@pytest.mark.parametrize("emulated", ["", "traced", "untraced"])
def test_on_an_npu(emulated, measured, monkeypatch):
    """Its events are asked, for any size and the real batch; an emulated one has those of an NPU with --trace only."""
    _, calls = measured
    monkeypatch.setattr(timing, "device_target", lambda: "Ascend")
    monkeypatch.setattr(timing, "_times_of_device", lambda ours, stock: calls.append(numpy(ours()).shape) or (2.0, 1.0))
    monkeypatch.setenv("MS_ASCEND_EMULATED_CHIP", "soc=Ascend910B2" if emulated else "")
    monkeypatch.setenv("MS_ASCEND_EMULATED_TRACE", "trace.json" if emulated == "traced" else "")
    x = tensor(draw(np.random.default_rng(0), (2, 32, 24, 20)), "float32")
    report = optimize(Projected(), verify=[x], level="O3")
    places = [e for e in report.replaced if e.pattern == "convolution"]
    assert len(places) == (2 if emulated == "untraced" else 0)
    assert {shape[0] for shape in calls} == (set() if emulated == "untraced" else {2})
    assert {shape[1] for shape in calls} == (set() if emulated == "untraced" else {4, 32})
    # It gains nothing there.
    assert [(e.pattern, e.replaced) for e in report.entries if e.place == "linear"] == [("linear layer", False)]
