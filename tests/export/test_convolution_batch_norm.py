"""A convolution and the batch normalization behind it as one operator outside training (level O3), in all engines."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops
from ms_ascend_ops.export.graphs.graph import INPUT, Node, constant
from ms_ascend_ops.export.matching.expressions import Expressions

from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.modes import few_modes, run
from tests.tensors import numpy, tensor

CHANNELS = 8
# Sums of 72 products in float32, in another order.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


class Inverted(nn.Cell):
    """As MobileNet has it: sequences of convolution, norm and activation."""

    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(
            *(nn.Conv2d(CHANNELS, 16, 1), nn.BatchNorm2d(16, 1e-3), nn.HSwish()),
            *(nn.Conv2d(16, 16, 3, 2, "pad", 1, group=16), nn.BatchNorm2d(16), nn.ReLU6()),
            *(nn.Conv2d(16, CHANNELS, 1, has_bias=True), nn.BatchNorm2d(CHANNELS)),
        )

    def construct(self, x):
        return self.body(x)


class Bottleneck(nn.Cell):
    """As ResNet has it: layers by name, one activation for all, and a sum."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(CHANNELS, CHANNELS, 3), nn.BatchNorm2d(CHANNELS)
        self.conv2, self.bn2 = nn.Conv2d(CHANNELS, CHANNELS, 1), nn.BatchNorm2d(CHANNELS)
        self.relu = nn.ReLU()

    def construct(self, x):
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.bn2(self.conv2(out))
        return self.relu(out + x)


class Statements(Bottleneck):
    """A line that only the engine for statements keeps."""

    def construct(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        return y.reshape(y.shape[0], -1).sum(1)


# How many of its norms become part of an operator.
NETWORKS = {Inverted: 3, Bottleneck: 2, Statements: 1}


def trained(net):
    """With statistics and scales as training leaves them."""
    rng = np.random.default_rng(0)
    for parameter in net.get_parameters():
        if parameter.ndim == 1:
            parameter.set_data(ms.Tensor(rng.uniform(0.5, 1.5, parameter.shape), parameter.dtype))
    return net.set_train(False)


@pytest.fixture
def x():
    return tensor(np.random.default_rng(0).standard_normal((2, CHANNELS, 9, 7)), "float32")


def found(report):
    return [e.text for e in report.replaced if e.pattern == "convolution + BatchNorm"]


@pytest.mark.parametrize(("kind", "count"), NETWORKS.items())
def test_in_a_network(kind, count, x):
    net = trained(kind())
    expected, names = numpy(net(x)), [(p.name, id(p)) for p in net.get_parameters()]
    report = optimize(net, verify=[x], gradients=True, level="O3")
    assert len(found(report)) == count
    assert all("outside training" in text for text in found(report))
    assert report.gradients.relative < 1e-4
    assert [(p.name, id(p)) for p in net.get_parameters()] == names
    for mode in few_modes(kind, NETWORKS):
        assert_close(numpy(run(mode, net, [x])), expected, **CLOSE)
    report.restore()
    np.testing.assert_array_equal(numpy(net(x)), expected)


def test_activations_are_part_of_it(x):
    texts = [text.partition("; ")[0] for text in found(optimize(trained(Inverted()), verify=[x], level="O3"))]
    assert texts == ["1 x 1, eps 0.001, hard_swish", "3 x 3, eps 1e-05, relu6", "1 x 1, eps 1e-05"]


@pytest.mark.parametrize("kind", NETWORKS)
def test_in_training_it_is_the_stock_network(kind, x):
    """Statistics are those of the batch, and are gathered; convolutions stay replaced by themselves."""
    stock, net = trained(kind()), trained(kind())
    for ours, theirs in zip(net.get_parameters(), stock.get_parameters(), strict=True):
        ours.set_data(theirs.value())
    report = optimize(net, verify=[x], level="O3")
    assert any(entry.pattern == "convolution" for entry in report.replaced)
    results = []
    for network in (stock, net):
        network.set_train()
        step = ms.value_and_grad(lambda x, network=network: (network(x) ** 2).mean(), None, network.trainable_params())
        results.append([numpy(value) for value in (step(x)[0], *step(x)[1])])
        network.set_train(False)
    # Gradients go through statistics of 126 values and less, whose differences cancel: ten times CLOSE.
    for ours, theirs in zip(*results, strict=True):
        assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(net.get_parameters(), stock.get_parameters(), strict=True):
        assert_close(numpy(ours), numpy(theirs), **CLOSE)  # the gathered statistics
    # Both have gathered their statistics themselves, which differ by CLOSE, and sums of lines have 504 terms.
    assert_close(numpy(net(x)), numpy(stock(x)), rtol=1e-4, atol=1e-4)


def test_a_norm_that_is_frozen_or_trained_by_itself(x):
    """What counts is whether the norm is trained, not the network around it."""
    stock, net = trained(Bottleneck()), trained(Bottleneck())
    for ours, theirs in zip(net.get_parameters(), stock.get_parameters(), strict=True):
        ours.set_data(theirs.value())
    optimize(net, verify=[x], level="O3")
    for training in (True, False):
        for network in (stock, net):
            network.set_train(training)
            network.bn1.set_train(not training)
        assert_close(numpy(net(x)), numpy(stock(x)), **CLOSE)
        assert_close(numpy(net.bn1.moving_mean), numpy(stock.bn1.moving_mean), **CLOSE)


def test_a_dropout_beside_it_stays_random(x):
    net = nn.SequentialCell(nn.Conv2d(CHANNELS, CHANNELS, 3), nn.BatchNorm2d(CHANNELS), nn.Dropout(p=0.5))
    report = optimize(trained(net), verify=[x], level="O3")
    assert found(report) == []
    net[2].set_train()
    assert (numpy(net(x)) == 0).mean() > 0.2


def test_lower_levels_leave_it(x):
    assert found(optimize(trained(Bottleneck()), verify=[x], level="O2")) == []


def test_in_a_file(x, tmp_path):
    net = trained(Inverted())
    stock = export_mindir(net, x, path=tmp_path / "stock", dynamic={0: (0,)})
    assert len(found(optimize_mindir(stock, tmp_path / "fused.mindir", level="O3"))) == 3
    network = load(tmp_path / "fused.mindir")
    for values in (x, ops.cat((x, x))):
        assert_close(numpy(network(values)), numpy(net(values)), **CLOSE)


@pytest.mark.parametrize(
    ("kind", "given"),
    {"BatchNorm": [False, 1e-3, 0.1, 0], "BatchNormExt": [False, 0.1, 1e-3]}.items(),
)
def test_primitives_with_given_statistics(kind, given):
    """A CPU has no kernel of the second, which is `mint.nn.BatchNorm2d`'s."""
    tensors = [Node(INPUT, (), name, (8,), "float32") for name in ("x", "gamma", "beta", "mean", "variance")]

    def found(values):
        return Expressions()(Node(kind, (*tensors, *map(constant, values))))

    assert found(given).op == "tuple:batch_norm"
    assert found(given).attributes == {"epsilon": 1e-3}
    for wrong in ([True, *given[1:]], [None, *given[1:]], [0, *given[1:]]):
        assert found(wrong).op == f"other:{kind}"
