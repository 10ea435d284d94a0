"""Convolutions, with their bias and activation, and plain linear layers as operators (level O3), in all engines."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, mint, nn, ops
from ms_ascend_ops.export.engines.cell_engine import _guesses
from ms_ascend_ops.export.graphs.graph import INPUT, Node
from ms_ascend_ops.export.matching.expressions import Expressions

from ms_ascend_ops import Conv2d, cpu_builtins, export_mindir, load, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.modes import MODES, run
from tests.tensors import numpy, tensor

CHANNELS = 4
# Sums of 54 products in float32, in another order.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


class Body(nn.Cell):
    """Convolutions with an activation behind them, without one, and with something else that reads the first."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Conv2d(CHANNELS, 6, 3, has_bias=True), nn.ReLU(), nn.Conv2d(6, 6, 3, 2))
        self.inner = nn.Conv2d(6, 6, 3, pad_mode="pad", padding=(1, 2, 0, 1), dilation=2, group=3, has_bias=True)
        self.activation = nn.SiLU()
        self.shared = nn.Conv2d(6, 6, 1)

    def construct(self, x):
        x = self.body(x)
        x = self.activation(self.inner(x))
        y = self.shared(x)
        return self.activation(y) + y


class Statements(nn.Cell):
    """Functions, between lines that are for the rewrite engine."""

    def __init__(self):
        super().__init__()
        random = np.random.default_rng(3)
        self.weight = Parameter(random.standard_normal((6, CHANNELS, 3, 3)).astype(np.float32) / 6)
        self.bias = Parameter(random.standard_normal(6).astype(np.float32))

    def construct(self, x):
        y = ops.conv2d(x, self.weight, None, 1, "pad", 1)
        y = ops.relu(y + self.bias.reshape(1, -1, 1, 1))
        return y.reshape(x.shape[0], -1).sum(1)


@pytest.fixture
def x():
    return tensor(np.random.default_rng(0).standard_normal((2, CHANNELS, 9, 8)), "float32")


def found(report):
    return sorted((e.place, e.text.partition("; ")[0]) for e in report.replaced if e.pattern == "convolution")


NOTES = [("body", "3 x 3, relu, with bias"), ("body.2", "3 x 3"), ("shared", "1 x 1"),
         ("the network", "3 x 3, silu, with bias")]  # fmt: skip


def test_in_a_network(x):
    net = Body()
    expected, names = numpy(net(x)), [(p.name, id(p)) for p in net.get_parameters()]
    report = optimize(net, verify=[x], gradients=True, level="O3")
    assert found(report) == NOTES
    assert report.gradients.relative < 1e-5
    assert [(p.name, id(p)) for p in net.get_parameters()] == names
    for mode in MODES[:2]:
        assert_close(numpy(run(mode, net, (x,))), expected, **CLOSE)
    report.restore()
    np.testing.assert_array_equal(numpy(net(x)), expected)


def test_other_sizes_than_those_that_were_shown(x):
    """Of "same" with a stride the padding follows from the sizes."""
    net = Body()
    wide = tensor(np.random.default_rng(1).standard_normal((1, CHANNELS, 12, 11)), "float32")
    expected = numpy(net(wide))
    optimize(net, verify=[x], level="O3")
    assert_close(numpy(net(wide)), expected, **CLOSE)


def test_without_inputs_and_below_o3(x):
    net = Body()
    expected = numpy(net(x))
    assert found(optimize(net, level="O2")) == []
    assert [place for place, _ in found(optimize(net, level="O3"))] == ["body.0", "body.2", "inner", "shared"]
    assert_close(numpy(net(x)), expected, **CLOSE)


def test_what_a_convolution_is_tried_with_is_small():
    """Also one with many channels."""
    for layer in (nn.Conv2d(512, 1024, 3), nn.Conv2d(3, 6, (1, 5), dilation=2), nn.Conv2d(8, 9, 1)):
        (spec,) = (inputs["x"] for inputs in _guesses(layer, ["x"], "float32"))
        assert spec.shape[:2] == (2, layer.in_channels)
        assert max(spec.shape[2:]) < 24
        assert not set(spec.shape[2:]) & set(layer.weight.shape)


def test_functions(x):
    net = Statements()
    expected = numpy(net(x))
    report = optimize(net, verify=[x], gradients=True, level="O3")
    assert [(e.engine, e.text) for e in report.replaced] == [("rewrite", "3 x 3, relu, with bias")]
    np.testing.assert_allclose(numpy(net(x)), expected, rtol=1e-5)  # sums of 432 numbers


def test_in_a_file(x, tmp_path):
    net = Body()
    stock = export_mindir(net, x, path=tmp_path / "stock", dynamic={0: (0,)})
    report = optimize_mindir(stock, tmp_path / "fused.mindir", level="O3")
    assert sorted(note for _, note in found(report)) == sorted(note for _, note in NOTES)
    network = load(tmp_path / "fused.mindir")
    for value in (x, ops.cat((x, x))):
        assert_close(numpy(network(value)), numpy(net(value)), **CLOSE)


def test_a_file_for_any_sizes_keeps_a_padding_that_follows_from_them(x, tmp_path):
    net = Body()
    stock = export_mindir(net, x, path=tmp_path / "stock", dynamic={0: (2, 3)})
    report = optimize_mindir(stock, tmp_path / "fused.mindir", level="O3")
    assert "its padding follows from sizes that are not known" in [e.text for e in report.entries if not e.replaced]
    assert sorted(note for _, note in found(report)) == sorted({note for _, note in NOTES} - {"3 x 3"})
    network = load(tmp_path / "fused.mindir")
    wide = tensor(np.random.default_rng(1).standard_normal((2, CHANNELS, 12, 11)), "float32")
    assert_close(numpy(network(wide)), numpy(net(wide)), **CLOSE)


def test_a_layer_with_a_hook_or_casts_stays(x):
    net = nn.SequentialCell(nn.Conv2d(CHANNELS, 6, 3), nn.Conv2d(6, 6, 1).to_float(ms.float16))
    net[0].register_forward_hook(lambda cell, inputs, output: output * 2)
    expected = numpy(net(x))
    report = optimize(net, level="O3")
    reasons = {e.place: e.text for e in report.entries if not e.replaced}
    assert reasons["0"] == "a hook is registered on it"
    assert "casts its inputs" in reasons["1"]
    np.testing.assert_array_equal(numpy(net(x)), expected)


@pytest.mark.parametrize("mode", MODES)
def test_linear_layers(mode):
    x = tensor(np.random.default_rng(0).standard_normal((2, 3, 8)), "float32")
    net = nn.SequentialCell(
        mint.nn.Linear(8, 5), mint.nn.Linear(5, 4, bias=False), nn.Dense(4, 3), nn.Dense(3, 2, has_bias=False)
    )
    expected = numpy(net(x))
    report = optimize(net, verify=[x], gradients=True, level="O3")
    assert [(e.place, e.pattern) for e in report.replaced] == [(place, "linear layer") for place in "012"]
    assert_close(numpy(run(mode, net, (x,))), expected, **CLOSE)


def test_a_transposed_or_other_convolution_stays(x):
    net = nn.SequentialCell(nn.Conv2dTranspose(CHANNELS, 3, 3), nn.Conv2d(3, 2, 1))
    expected = numpy(net(x))
    assert [place for place, _ in found(optimize(net, verify=[x], level="O3"))] == ["1"]
    assert_close(numpy(net(x)), expected, **CLOSE)


LAYERS_OF_MINT = [
    {"padding": 1},
    {"padding": "same", "dilation": 2, "bias": False},
    {"stride": 2, "padding": (0, 1), "groups": 2},
]


@pytest.mark.parametrize("arguments", LAYERS_OF_MINT)
@pytest.mark.parametrize("mode", MODES)
def test_a_layer_of_mint(mode, arguments, x):
    """Which a CPU has no kernel for: where somebody calls it, and in a network."""
    net = nn.SequentialCell(mint.nn.Conv2d(CHANNELS, 6, 3, **arguments), nn.ReLU())
    same = Conv2d.of(net[0], "relu")
    expected = numpy(same(x))
    with cpu_builtins():
        assert_close(numpy(run(mode, net, (x,))), expected, **CLOSE)
    assert [note.partition(",")[0] for _, note in found(optimize(net, level="O3"))] == ["3 x 3"]
    assert_close(numpy(run(mode, net, (x,))), expected, **CLOSE)


def test_few_places_with_many_terms_each():
    """Some results are near zero, where sums in another order have a large relative error."""
    ms.set_seed(0)
    net = nn.SequentialCell(nn.Conv2d(64, 2048, 3, pad_mode="valid", has_bias=True))
    x = tensor(np.random.default_rng(0).standard_normal((1, 64, 3, 3)), "float32")
    assert found(optimize(net, verify=[x], level="O3")) == [("0", "3 x 3, with bias")]


@pytest.mark.parametrize(
    "wrong",
    [{"pad": (1, 1, 1)}, {"pad": "1111"}, {"stride": (1,)}, {"dilation": 1}, {"group": 1.0}, {"pad_mode": "full"}],
)
def test_a_file_that_says_something_else(wrong):
    """A place of no convolution that anybody knows, and no error."""
    attributes = {"pad_mode": "pad", "pad": (1, 1, 1, 1), "stride": (1, 1, 2, 2), "dilation": (1, 1, 1, 1), "group": 1}
    inputs = tuple(Node(INPUT, (), name, (1, 4, 5, 6), "float32") for name in ("x", "weight"))
    assert Expressions()(Node("Conv2D", inputs, attributes=attributes)).op == "conv2d"
    assert Expressions()(Node("Conv2D", inputs, attributes=attributes | wrong)).op == "other:Conv2D"
    assert Expressions()(Node("Conv2D", inputs)).op == "other:Conv2D"
