import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, nn
from mindspore import ops as stock

from ms_ascend_ops import MoEFeedForward
from tests.modes import MODES, run
from tests.reference import moe_gating_top_k as gating
from tests.tensors import numpy, tensor

SIZES = (24, 20, 8)  # of a token, between an expert's products, experts
ATTRIBUTES = [
    {"k": 2},  # Mixtral's
    {"k": 3, "renormalize": False},
    {
        "k": 3,
        "scoring": "sigmoid",
        "group_count": 4,
        "k_group": 2,
        "group_score": "top2",
        "scale": 2.5,
    },  # DeepSeek-V3's
]


def golden(x, router, gate, up, down, **attributes):
    """Expert by expert in float64."""
    tokens = x.reshape(-1, x.shape[-1])
    weights, experts = gating.forward(tokens @ router.T, None, **attributes)
    y = np.zeros(tokens.shape)
    for token, row in enumerate(tokens):
        for weight, expert in zip(weights[token], experts[token], strict=True):
            gated = gate[expert] @ row
            y[token] += weight * (down[expert] @ (gated / (1 + np.exp(-gated)) * (up[expert] @ row)))
    return y.reshape(x.shape)


def layer(dtype="float32", **attributes):
    rng = np.random.default_rng(0)
    hidden, inner, experts = SIZES
    shapes = {
        "router_weight_init": (experts, hidden),
        "gate_weight_init": (experts, inner, hidden),
        "up_weight_init": (experts, inner, hidden),
        "down_weight_init": (experts, hidden, inner),
    }
    initial = {
        name: Parameter(tensor(rng.normal(size=shape) / shape[-1] ** 0.5, dtype), name=name.removesuffix("_init"))
        for name, shape in shapes.items()
    }
    return MoEFeedForward(*SIZES, **attributes, **initial)


def weights_of(net):
    return [numpy(p) for p in (net.router_weight, net.gate_weight, net.up_weight, net.down_weight)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attributes", ATTRIBUTES, ids=str)
def test_forward(mode, attributes):
    net = layer(**attributes)
    x = tensor(np.random.default_rng(1).normal(size=(3, 7, SIZES[0])), "float32")
    y, logits = run(mode, net, (x,))
    np.testing.assert_allclose(numpy(y), golden(numpy(x), *weights_of(net), **attributes), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(numpy(logits), numpy(x).reshape(21, -1) @ weights_of(net)[0].T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    net = layer(dtype, k=2)
    x = tensor(np.random.default_rng(2).normal(size=(30, SIZES[0])), dtype)
    logits = numpy(net(x)[1])
    # Logits are rounded, so the experts are those of the rounded ones.
    expected = golden(numpy(x), *weights_of(net), k=2)
    best = np.sort(numpy(x) @ weights_of(net)[0].T, -1)
    clear = best[:, -2] - best[:, -3] > 0.05
    assert clear.sum() > 10
    assert logits.shape == (30, 8)
    tolerance = {"float16": 5e-3, "bfloat16": 5e-2}[dtype]
    np.testing.assert_allclose(numpy(net(x)[0])[clear], expected[clear], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["pynative", "graph"])
def test_gradient(mode):
    """Against central differences of the reference, in the inputs and in some weights of each parameter."""
    net = layer(k=2)
    rng = np.random.default_rng(3)
    x, dy = rng.normal(size=(6, SIZES[0])), rng.normal(size=(6, SIZES[0]))
    weights, seen = weights_of(net), tensor(dy, "float32")

    def total(x):
        return (net(x)[0] * seen).sum()

    gradient = ms.grad(total, 0, net.trainable_params())
    dx, dparameters = run(mode, gradient, (tensor(x, "float32"),))
    values = [x, *weights]
    for place, found in enumerate(map(numpy, [dx, *dparameters])):
        for flat in rng.permutation(found.size)[:40]:
            at, sums = np.unravel_index(flat, found.shape), []
            for step in (1e-5, -1e-5):
                moved = [value.copy() for value in values]
                moved[place][at] += step
                sums.append((golden(*moved, k=2) * dy).sum())
            assert np.isclose(found[at], (sums[0] - sums[1]) / 2e-5, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("expert", [0, 5])
def test_all_tokens_at_one_expert(expert):
    """The others have no rows, and no gradient."""
    net = layer(k=1)
    bias = np.zeros(SIZES[2])
    bias[expert] = 100
    net.router_bias = Parameter(tensor(bias, "float32"), name="router_bias", requires_grad=False)
    x = tensor(np.random.default_rng(4).normal(size=(50, SIZES[0])), "float32")
    _, (_, dgate, _, _) = ms.grad(lambda x: net(x)[0].sum(), 0, net.trainable_params())(x)
    rows = np.abs(numpy(dgate)).max((1, 2))
    assert rows[expert] > 0
    assert (np.delete(rows, expert) == 0).all()


class Expert(nn.Cell):
    def __init__(self, names):
        super().__init__()
        hidden, inner, _ = SIZES
        gate, up, down = names
        setattr(self, gate, nn.Dense(hidden, inner, has_bias=False))
        setattr(self, up, nn.Dense(hidden, inner, has_bias=False))
        setattr(self, down, nn.Dense(inner, hidden, has_bias=False))
        self.names = names

    def construct(self, x):
        gate, up, down = (getattr(self, name) for name in self.names)
        return down(stock.silu(gate(x)) * up(x))


class Block(nn.Cell):
    """A loop over experts, as Mixtral and Qwen3-MoE have it."""

    def __init__(self, names, top_k=2, norm_topk_prob=None):
        super().__init__()
        self.top_k = top_k
        if norm_topk_prob is not None:
            self.norm_topk_prob = norm_topk_prob
        self.gate = nn.Dense(SIZES[0], SIZES[2], has_bias=False)
        self.experts = nn.CellList([Expert(names) for _ in range(SIZES[2])])

    def construct(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        logits = self.gate(tokens)
        weights, chosen = stock.topk(stock.softmax(logits, -1), self.top_k)
        if getattr(self, "norm_topk_prob", True):
            weights = weights / weights.sum(-1, keepdims=True)
        y = stock.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number).astype(weights.dtype)).sum(-1, keepdims=True)
            y = y + expert(tokens) * share
        return y.reshape(x.shape), logits


@pytest.mark.parametrize(
    ("names", "normalized"), [(("w1", "w3", "w2"), None), (("gate_proj", "up_proj", "down_proj"), False)]
)
def test_of_a_block(names, normalized):
    block = Block(names, 3, normalized)
    net = MoEFeedForward.of(block)
    x = tensor(np.random.default_rng(5).normal(size=(2, 11, SIZES[0])), "float32")
    for ours, theirs in zip(net(x), block(x), strict=True):
        np.testing.assert_allclose(numpy(ours), numpy(theirs), rtol=1e-4, atol=1e-5)
    assert [p.name for p in net.trainable_params()] == ["router_weight", "gate_weight", "up_weight", "down_weight"]


def test_blocks_of_another_form():
    with pytest.raises(ValueError, match=r"^MoEFeedForward.of: the block must have `gate` and `experts`"):
        MoEFeedForward.of(nn.Dense(3, 4))
    block = Block(("w1", "w3", "w2"))
    block.gate = nn.Dense(SIZES[0], SIZES[2])
    with pytest.raises(ValueError, match=r"^MoEFeedForward.of: products must have no bias"):
        MoEFeedForward.of(block)


def test_repr_and_bad_arguments():
    assert repr(layer(k=2)) == "MoEFeedForward(hidden_size=24, intermediate_size=20, num_experts=8, k=2)"
    with pytest.raises(TypeError, match="MoEFeedForward: k must be an int"):
        MoEFeedForward(*SIZES, k="two")
    with pytest.raises(ValueError, match="MoEFeedForward: num_experts must be >= 1"):
        MoEFeedForward(4, 4, 0)
    with pytest.raises(ValueError, match=r"gate_weight_init.shape must be \(8, 20, 24\)"):
        MoEFeedForward(*SIZES, gate_weight_init=Parameter(tensor(np.zeros((2, 2)), "float32")))
