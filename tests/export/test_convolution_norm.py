"""A convolution, a time embedding and a group normalization as one operator (level O3), in all engines."""

import numpy as np
import pytest
from mindspore import nn, ops

from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.modes import few_modes, run
from tests.tensors import numpy, tensor

CHANNELS, TIME = 8, 6
# Sums of 72 products in float32, in another order, and what a norm makes of them.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


class ResidualBlock(nn.Cell):
    """As U-Nets of diffusion have it. `has_bias`: of the convolution before the norm."""

    def __init__(self, has_bias=True):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, CHANNELS)
        self.conv1 = nn.Conv2d(CHANNELS, CHANNELS, 3, has_bias=has_bias)
        self.projection = nn.Dense(TIME, CHANNELS)
        self.norm2 = nn.GroupNorm(2, CHANNELS, 1e-3)
        self.conv2 = nn.Conv2d(CHANNELS, CHANNELS, 3, has_bias=True)
        self.activation = nn.SiLU()

    def construct(self, x, time):
        hidden = self.conv1(self.activation(self.norm1(x)))
        hidden = hidden + self.projection(self.activation(time))[:, :, None, None]
        hidden = self.activation(self.norm2(hidden))
        return x + self.conv2(hidden)


class WithReLU(ResidualBlock):
    """Another activation, and an embedding that is added first."""

    def construct(self, x, time):
        hidden = self.projection(time).reshape(x.shape[0], CHANNELS, 1, 1) + self.conv1(x)
        return ops.relu(self.norm2(hidden))


class SumUsedOn(ResidualBlock):
    """What is normalized is also what the next block adds to; there is no activation."""

    def construct(self, x, time):
        hidden = self.conv1(x) + self.projection(time).expand_dims(-1).expand_dims(-1)
        return hidden + self.conv2(self.norm2(hidden))


class NotOfChannels(ResidualBlock):
    """What is added has a value for each channel, but not for each sample, or is a whole tensor."""

    def construct(self, x, time):
        hidden = self.norm1(self.conv1(x) + self.projection(time)[:1, :, None, None])
        return self.norm2(self.conv2(hidden) + x)


@pytest.fixture
def inputs():
    random = np.random.default_rng(0)
    return [tensor(random.standard_normal(shape), "float32") for shape in ((2, CHANNELS, 9, 7), (2, TIME))]


def found(report):
    return [e.text.partition("; ")[0] for e in report.replaced if e.pattern == "convolution + GroupNorm"]


BLOCKS = {
    ResidualBlock: "3 x 3, 2 groups, eps 0.001, silu",
    WithReLU: "3 x 3, 2 groups, eps 0.001, relu",
    SumUsedOn: "3 x 3, 2 groups, eps 0.001",
}


@pytest.mark.parametrize(("block", "note"), BLOCKS.items())
def test_in_a_network(block, note, inputs):
    net = block()
    expected, names = numpy(net(*inputs)), [(p.name, id(p)) for p in net.get_parameters()]
    report = optimize(net, verify=inputs, gradients=True, level="O3")
    assert found(report) == [note]
    assert report.gradients.relative < 1e-4
    assert [(p.name, id(p)) for p in net.get_parameters()] == names
    for mode in few_modes(block, BLOCKS):
        assert_close(numpy(run(mode, net, inputs)), expected, **CLOSE)
    report.restore()
    np.testing.assert_array_equal(numpy(net(*inputs)), expected)


def test_what_stays_apart(inputs):
    for net in (ResidualBlock(has_bias=False), NotOfChannels()):
        expected = numpy(net(*inputs))
        report = optimize(net, verify=inputs, level="O3")
        assert found(report) == []
        assert_close(numpy(net(*inputs)), expected, **CLOSE)
    net = ResidualBlock()
    assert found(optimize(net, verify=inputs, level="O2")) == []


def test_in_a_file(inputs, tmp_path):
    net = ResidualBlock()
    stock = export_mindir(net, *inputs, path=tmp_path / "stock", dynamic={0: (0,), 1: (0,)})
    report = optimize_mindir(stock, tmp_path / "fused.mindir", level="O3")
    assert found(report) == ["3 x 3, 2 groups, eps 0.001, silu"]
    network = load(tmp_path / "fused.mindir")
    for values in (inputs, [ops.cat((value, value)) for value in inputs]):
        assert_close(numpy(network(*values)), numpy(net(*values)), **CLOSE)
