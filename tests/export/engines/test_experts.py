"""`optimize` and blocks of experts: the layer in their place, and the blocks back with what it has learned."""

import numpy as np
import pytest
from mindspore import nn
from mindspore import ops as stock
from ms_ascend_ops.export.matching.patterns import PATTERNS

from ms_ascend_ops import MoEFeedForward, ops, optimize
from tests.acceptance import assert_close
from tests.cells.test_moe_feed_forward import SIZES, Block, BlockOfGroups, Network, StackedBlock, numpy, tensor

NAMES = ("gate_proj", "up_proj", "down_proj")
# Block and layer sum in float32, over 3 experts of some 20 elements, in another order; where the terms of a sum cancel,
# that shows as an absolute difference. Another expert, or a weight in another place, is off by far more.
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


def inputs():
    return tensor(np.random.default_rng(6).normal(size=(3, 5, SIZES[0])), "float32")


class Alone(nn.Cell):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def construct(self, x):
        y = self.block(x)
        return y[0] if isinstance(y, tuple) else y


@pytest.mark.parametrize("verified", [False, True])
def test_blocks_become_layers_and_come_back(verified):
    net, x = Network(), inputs()
    blocks, names, expected = (net.layers[1], net.last), [p.name for p in net.trainable_params()], numpy(net(x))
    report = optimize(net, level="O3", verify=[x] if verified else None, gradients=verified)
    replaced = [e.place for e in report.replaced if e.pattern != "linear layer"]
    assert replaced == ["layers.1", "layers.1.shared_experts", "last"]
    assert isinstance(net.layers[1], MoEFeedForward)
    assert isinstance(net.last, MoEFeedForward)
    assert_close(numpy(net(x)), expected, **ROUNDING)
    assert "replaced (8 experts, best 3; weights of all experts in three parameters)" in " ".join(str(report).split())
    if verified:
        assert report.outputs.relative < 1e-5
        assert report.gradients is not None
    report.restore()
    assert (net.layers[1], net.last) == blocks
    assert [p.name for p in net.trainable_params()] == names
    np.testing.assert_array_equal(numpy(net(x)), expected)


@pytest.mark.parametrize("kind", [lambda: Block(NAMES, 2, True), BlockOfGroups, StackedBlock])
def test_blocks_have_the_weights_of_the_layer_when_they_are_back(kind):
    """As after training: each parameter of the layer is changed."""
    net, x = Alone(kind()), inputs()
    stock = numpy(net(x))
    report = optimize(net, level="O3", verify=[x])
    for number, parameter in enumerate(net.block.own_parameters()):
        parameter.set_data(parameter * (1.2 + number / 10))
    trained = numpy(net(x))
    report.restore()
    assert not isinstance(net.block, MoEFeedForward)
    assert_close(numpy(net(x)), trained, **ROUNDING)
    assert np.abs(trained - stock).max() > 0.1 * np.abs(stock).max()


def test_a_wrong_gradient_of_the_experts_is_seen(monkeypatch):
    """The outputs are right."""

    def multiply(self, rows, ends):
        gate, up = (ops.grouped_matmul(rows, w, ends, True) for w in (self.gate_weight, self.up_weight))
        down = stock.stop_gradient(self.down_weight)
        return ops.grouped_matmul(ops.silu_mul(gate, up), down, ends, True)

    monkeypatch.setattr(MoEFeedForward, "multiply", multiply)
    net = Alone(StackedBlock())
    report = optimize(net, level="O3", verify=[inputs()], gradients=True)
    assert "the gradients differ by" in report.rolled_back
    assert isinstance(net.block, StackedBlock)


class Uncallable(Block):
    def construct(self, x):
        raise RuntimeError("there is no such kernel\nin three lines\nof a log")


def wrong_names():
    block = Block(NAMES, 2, True)
    block.renormalize = block.norm_topk_prob
    block.norm_topk_prob = None  # what the layer takes for True
    block.construct = lambda x: Block.construct(block, x)[0] * 2
    return block


def hooked():
    block = Block(NAMES, 2, True)
    block.experts[3].register_forward_hook(lambda cell, inputs, output: None)
    return block


def gated():
    block = Block(NAMES, 2, True)
    block.shared_expert_gate = nn.Dense(SIZES[0], 1)
    return block


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        (lambda: Uncallable(NAMES), "it cannot be called here, so not be compared: there is no such kernel"),
        (wrong_names, "must compute what this layer does"),
        (hooked, "a hook is registered on it"),
        (gated, "the block must have no shared_expert behind a gate"),
    ],
)
def test_blocks_that_stay(block, reason):
    net = Alone(block())
    found = net.block
    (entry,) = [e for e in optimize(net, level="O3").entries if e.pattern == "mixture of experts"]
    assert reason in entry.text
    assert "\n" not in entry.text
    assert not entry.replaced
    assert net.block is found


def test_what_level_and_patterns_leave():
    net = Alone(StackedBlock())
    assert "left: level O3 puts MoEFeedForward here" in " ".join(str(optimize(net)).split())
    assert optimize(net, level="O3", patterns=PATTERNS[:1]).entries == []
    assert "it is the network itself" in str(optimize(net.block, level="O3"))
    assert isinstance(net.block, StackedBlock)


def test_a_block_that_is_not_trained():
    net = Alone(StackedBlock())
    for parameter in net.get_parameters():
        parameter.requires_grad = False
    optimize(net, level="O3")
    assert isinstance(net.block, MoEFeedForward)
    assert net.trainable_params() == []
