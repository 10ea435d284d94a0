"""Mixed precision around a network that was optimized before: it casts the parameters where operators use them."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn, ops

from ms_ascend_ops import optimize
from ms_ascend_ops.mindspore_versions import has_fault
from tests.modes import MODES, run
from tests.tensors import numpy, tensor


class Block(nn.Cell):
    """A norm of mint, which takes one dtype only, and one between lines that are for the rewrite engine."""

    def __init__(self):
        super().__init__()
        self.first, self.last = mint.nn.GroupNorm(2, 8), nn.GroupNorm(2, 8)

    def construct(self, x):
        y = self.first(x).reshape(x.shape[0], 8, -1)
        y = ops.silu(self.last(y.reshape(x.shape)))
        return y.reshape(x.shape[0], -1)


def without_stock_constructs(net, monkeypatch):
    """Take away what cells fall back to."""
    for _, cell in net.cells_and_names():
        for name in vars(type(cell)):
            if name.startswith("stock_construct"):
                monkeypatch.setattr(type(cell), name, lambda *_: 0)


@pytest.mark.parametrize("mode", MODES)
def test_fused_operators_go_on_in_it(mode, monkeypatch):
    net = nn.SequentialCell(Block())
    x = tensor(np.random.default_rng(0).standard_normal((2, 8, 4, 3)), "float32")
    expected = numpy(net(x))
    report = optimize(net, verify=[x])
    assert {e.pattern for e in report.replaced} == {"GroupNorm", "GroupNorm + SiLU"}
    without_stock_constructs(net, monkeypatch)
    net.to_float(ms.float16)
    y = run(mode, net, (x,))
    assert y.dtype == ms.float16
    np.testing.assert_allclose(numpy(y), expected, atol=8e-3)  # float16 has 11 bits, and is rounded three times


def test_a_convolution_goes_on_in_it(monkeypatch):
    """Its weight is cast where it is used, as MindSpore does for its own layers."""
    net = nn.SequentialCell(nn.Conv2d(4, 6, 3, has_bias=True), nn.ReLU(), nn.Conv2d(6, 6, 3))
    x = tensor(np.random.default_rng(0).standard_normal((2, 4, 9, 8)), "float32")
    expected = numpy(net(x))
    optimize(net, verify=[x], level="O3")
    without_stock_constructs(net, monkeypatch)
    net.to_float(ms.float16)
    y = net(x)
    assert y.dtype == ms.float16
    np.testing.assert_allclose(numpy(y), expected, atol=4e-3)  # float16 has 11 bits


def test_below_o2_half_precision_runs_what_was_there():
    """It rounds where the network rounds."""
    net = nn.SequentialCell(Block())
    x = tensor(np.random.default_rng(0).standard_normal((2, 8, 4, 3)), "float32")
    optimize(net, verify=[x], level="O1")
    half, stock = x.astype(ms.float16), Block()
    for ours, theirs in zip(net.get_parameters(), stock.get_parameters(), strict=True):
        theirs.set_data(ours)
    np.testing.assert_array_equal(numpy(net.to_float(ms.float16)(half)), numpy(stock.to_float(ms.float16)(half)))


def test_a_norm_that_casts_its_parameters():
    """Which rounds them: at O1 it stays."""
    x = tensor(np.random.default_rng(0).standard_normal((2, 8, 4, 3)), "float32")
    texts = {}
    for level in ("O1", "O2"):
        (entry,) = optimize(nn.SequentialCell(nn.GroupNorm(2, 8)), verify=[x], level=level).replaced
        texts[level] = entry.text
    assert "float16 and bfloat16 input keeps the stock construct" in texts["O1"]
    # Where MindSpore has no bfloat16, nobody can compare it.
    kept = "bfloat16 input keeps the stock construct" if has_fault("bfloat16 on a CPU") else ""
    assert ("keeps the stock construct" in texts["O2"]) == bool(kept)
    assert kept in texts["O2"]
