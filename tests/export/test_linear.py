"""A linear layer and the activation behind it as one operator (level O3), in all engines."""

import numpy as np
import pytest
from mindspore import Tensor, mint, nn, ops

from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.export import equivalent_forms
from tests.export.equivalent_forms import HIDDEN, INNER
from tests.modes import Together, few_modes, run
from tests.tensors import numpy, tensor


class Layers(nn.Cell):
    """The feed-forward layer of a transformer without a gate."""

    def __init__(self, activation, kind=nn.Dense, bias=True):
        super().__init__()
        name = "has_bias" if kind is nn.Dense else "bias"
        self.first, self.last = kind(HIDDEN, INNER, **{name: bias}), nn.Dense(INNER, HIDDEN)
        self.activation = activation

    def construct(self, x):
        return self.last(self.activation(self.first(x)))


class Statement(Layers):
    """Between lines that are for the rewrite engine."""

    def construct(self, x):
        y = ops.relu(self.first(x)).reshape(-1, INNER)
        return self.last(y).reshape(x.shape)


LAYERS = [
    (lambda: Layers(nn.GELU(approximate=False)), "gelu, with bias"),
    (lambda: Layers(nn.GELU()), "gelu_tanh, with bias"),
    (lambda: Layers(nn.ReLU(), bias=False), "relu"),
    (lambda: Layers(nn.SiLU(), mint.nn.Linear), "silu, with bias"),
    (lambda: Layers(equivalent_forms.TanhGelu()), "gelu_tanh, with bias"),
]


@pytest.fixture
def x():
    return tensor(np.random.default_rng(0).standard_normal((2, 3, HIDDEN)), "float32")


def linear(report):
    return [e for e in report.entries if e.pattern == "linear + activation"]


@pytest.mark.parametrize("dynamic", [(), (0, 1)])
def test_in_a_file(dynamic, x, tmp_path):
    net, count = Together([make() for make, _ in LAYERS]), len(LAYERS)
    stock = export_mindir(net, *[x] * count, path=tmp_path / "stock", dynamic=dict.fromkeys(range(count), dynamic))
    entries = linear(optimize_mindir(stock, tmp_path / "fused.mindir", level="O3"))
    assert all(entry.replaced for entry in entries)
    assert sorted(entry.text for entry in entries) == sorted(note for _, note in LAYERS)
    network = load(tmp_path / "fused.mindir")
    for value in (x, ops.cat((x, x), 1)) if dynamic else (x,):
        for given, wanted in zip(network(*[value] * count), net(*[value] * count), strict=True):
            assert_close(numpy(given), numpy(wanted))  # sums of float32 in another order
    assert not linear(optimize_mindir(stock, tmp_path / "apart.mindir", level="O2"))


IN_NETWORKS = [*LAYERS[:3], (lambda: Statement(None), "relu, with bias")]


@pytest.mark.parametrize(("make", "note"), IN_NETWORKS)
def test_in_a_network(make, note, x):
    net = make()
    expected = numpy(net(x))
    names = [(p.name, id(p)) for p in net.get_parameters()]
    report = optimize(net, verify=[x], gradients=True, level="O3")
    (entry,) = linear(report)
    assert entry.replaced
    assert entry.engine == ("rewrite" if isinstance(net, Statement) else "cell")
    assert note in entry.text
    assert report.gradients.relative < 1e-5
    assert [(p.name, id(p)) for p in net.get_parameters()] == names
    for mode in few_modes((make, note), IN_NETWORKS):
        assert_close(numpy(run(mode, net, (x,))), expected, atol=1e-5)  # sums in another order
    report.restore()
    np.testing.assert_array_equal(numpy(net(x)), expected)


def test_below_o3_there_is_the_activation_alone(x):
    assert [e.pattern for e in optimize(Layers(nn.GELU()), verify=[x]).replaced] == ["GELU"]


@pytest.mark.parametrize("kind", [equivalent_forms.LlamaStyleMLP, equivalent_forms.GeluMLP, equivalent_forms.ChunkMLP])
def test_gates_are_left_to_their_own_patterns(kind, x, tmp_path):
    net = kind()
    stock = export_mindir(net, x, path=tmp_path / "stock")
    reports = [optimize_mindir(stock, tmp_path / "fused.mindir", level="O3"), optimize(net, verify=[x], level="O3")]
    for report in reports:
        assert {e.pattern for e in report.replaced} <= {"SwiGLU", "GeGLU"}
        assert not linear(report)


def test_a_layer_with_a_hook_is_called(x):
    net = Layers(nn.ReLU())
    net.first.register_forward_hook(lambda cell, inputs, output: output * 2)
    expected = numpy(net(x))
    (entry,) = linear(optimize(net, level="O3"))
    assert (entry.replaced, entry.text) == (False, "first: a hook is registered on it")
    np.testing.assert_array_equal(numpy(net(x)), expected)


def test_an_activation_of_the_layer_itself(x):
    """It computes more than a product."""

    class Active(Layers):
        def __init__(self):
            super().__init__(nn.ReLU())
            self.first = nn.Dense(HIDDEN, INNER, activation="tanh")

    net = Active()
    expected = numpy(net(x))
    assert not linear(optimize(net, verify=[x], level="O3"))
    assert_close(numpy(net(x)), expected, atol=1e-6)


def test_a_matrix_for_each_of_the_batch_stays(x, tmp_path):
    class Products(nn.Cell):
        def construct(self, x, y):
            return ops.relu(ops.matmul(x, y))

    inputs = x, Tensor(np.random.default_rng(1).standard_normal((2, HIDDEN, 4)).astype(np.float32))
    stock = export_mindir(Products(), *inputs, path=tmp_path / "stock")
    assert not linear(optimize_mindir(stock, tmp_path / "fused.mindir", level="O3"))
