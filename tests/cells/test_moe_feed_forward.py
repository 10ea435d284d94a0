import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, nn
from mindspore import ops as stock

from ms_ascend_ops import MoEFeedForward
from tests.acceptance import assert_close
from tests.modes import MODES, graph_mode, run
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
    assert_close(numpy(y), golden(numpy(x), *weights_of(net), **attributes), rtol=1e-4, atol=1e-5)
    assert_close(numpy(logits), numpy(x).reshape(21, -1) @ weights_of(net)[0].T, rtol=1e-4, atol=1e-5)


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
        assert_close(numpy(ours), numpy(theirs), rtol=1e-4, atol=1e-5)
    assert [p.name for p in net.trainable_params()] == ["router_weight", "gate_weight", "up_weight", "down_weight"]


class Router(nn.Cell):
    """DeepSeek-V3's: sigmoid and a bias, experts of the best groups, by the sum of their best two."""

    def __init__(self, n_group=4, topk_group=2, top_k=3, scale=2.5):
        super().__init__()
        rng = np.random.default_rng(7)
        hidden, _, experts = SIZES
        self.n_group, self.topk_group, self.top_k = n_group, topk_group, top_k
        self.norm_topk_prob, self.routed_scaling_factor = True, scale
        self.weight = Parameter(tensor(rng.normal(size=(experts, hidden)), "float32"))
        self.e_score_correction_bias = Parameter(tensor(rng.uniform(0, 0.5, experts), "float32"))

    def construct(self, x):
        scores = stock.sigmoid(stock.matmul(x.reshape(-1, x.shape[-1]), self.weight.swapaxes(0, 1)))
        values = scores + self.e_score_correction_bias
        groups = values.reshape(values.shape[0], self.n_group, -1)
        best = stock.topk(groups, 2)[0].sum(-1)
        worst = stock.topk(best, self.topk_group)[0][:, -1:]
        values = (groups * (best >= worst).astype(groups.dtype).expand_dims(-1)).reshape(values.shape)
        chosen = stock.topk(values, self.top_k)[1]
        weights = stock.gather_elements(scores, 1, chosen)
        return chosen, weights / (weights.sum(-1, keepdims=True) + 1e-20) * self.routed_scaling_factor


class BlockOfGroups(nn.Cell):
    """As DeepSeek-V3 has it: one output, and an expert that all tokens pass."""

    def __init__(self, names=("gate_proj", "up_proj", "down_proj")):
        super().__init__()
        self.gate = Router()
        self.experts = nn.CellList([Expert(names) for _ in range(SIZES[2])])
        self.shared_experts = Expert(names)

    def construct(self, x):
        chosen, weights = self.gate(x)
        tokens = x.reshape(-1, x.shape[-1])
        y = stock.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            share = (weights * (chosen == number).astype(weights.dtype)).sum(-1, keepdims=True)
            y = y + expert(tokens) * share
        return y.reshape(x.shape) + self.shared_experts(x)


class StackedExperts(nn.Cell):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(8)
        hidden, inner, experts = SIZES
        self.gate_up_proj = Parameter(tensor(rng.normal(size=(experts, 2 * inner, hidden)) / 5, "float32"))
        self.down_proj = Parameter(tensor(rng.normal(size=(experts, hidden, inner)) / 5, "float32"))

    def construct(self, x, number):
        gate, up = stock.matmul(x, self.gate_up_proj[number].swapaxes(0, 1)).chunk(2, -1)
        return stock.matmul(stock.silu(gate) * up, self.down_proj[number].swapaxes(0, 1))


class StackedBlock(nn.Cell):
    """With all experts in two parameters, as newer transformers have them."""

    def __init__(self):
        super().__init__()
        self.num_experts_per_tok, self.norm_topk_prob = 2, True
        self.router = nn.Dense(SIZES[0], SIZES[2], has_bias=False)
        self.experts = StackedExperts()

    def construct(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        weights, chosen = stock.topk(stock.softmax(self.router(tokens), -1), 2)
        weights, y = weights / weights.sum(-1, keepdims=True), stock.zeros_like(tokens)
        for number in range(SIZES[2]):
            share = (weights * (chosen == number).astype(weights.dtype)).sum(-1, keepdims=True)
            y = y + self.experts(tokens, number) * share
        return y.reshape(x.shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [BlockOfGroups, StackedBlock])
def test_of_a_block_with_one_output(kind, mode):
    block = kind()
    net = MoEFeedForward.of(block)
    x = tensor(np.random.default_rng(5).normal(size=(2, 11, SIZES[0])), "float32")
    assert_close(numpy(run(mode, net, (x,))), numpy(block(x)), rtol=1e-4, atol=1e-5)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        names = ("gate_proj", "up_proj", "down_proj")
        self.layers = nn.CellList([nn.Dense(SIZES[0], SIZES[0]), BlockOfGroups()])
        self.last = Block(names, 2, True)

    def construct(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return self.last(x)[0]


def test_all_blocks_of_a_network():
    net = Network()
    x = tensor(np.random.default_rng(6).normal(size=(3, 5, SIZES[0])), "float32")
    expected = numpy(net(x))
    assert MoEFeedForward.replace(net) == ["layers.1", "last"]
    assert_close(numpy(net(x)), expected, rtol=1e-4, atol=1e-5)
    names = [p.name for p in net.trainable_params()]
    assert len(set(names)) == len(names)
    assert {"layers.1.gate_weight", "last.router_weight"} <= set(names)
    assert "layers.1.shared_experts.up_proj.weight" in names
    assert MoEFeedForward.replace(net) == []


def test_a_compiled_network_gets_the_layers():
    """MindSpore keeps the graph of a network that was called."""
    net, x = nn.SequentialCell(StackedBlock()), tensor(np.ones((1, 2, SIZES[0])), "float32")
    with graph_mode():
        net(x)
        assert MoEFeedForward.replace(net) == ["0"]
        net[0].down_weight.set_data(net[0].down_weight * 0)
        assert not numpy(net(x)).any()


def test_blocks_of_another_form():
    with pytest.raises(ValueError, match=r"^MoEFeedForward.of: the block must have `gate` and `experts`"):
        MoEFeedForward.of(nn.Dense(3, 4))
    block = Block(("w1", "w3", "w2"))
    block.gate = nn.Dense(SIZES[0], SIZES[2])
    with pytest.raises(ValueError, match="products must have no bias"):
        MoEFeedForward.of(block)
    block = Block(("w1", "w3", "w2"))
    block.shared_expert_gate = nn.Dense(SIZES[0], 1)
    with pytest.raises(ValueError, match="no shared_expert behind a gate"):
        MoEFeedForward.of(block)
    block = StackedBlock()
    block.experts.gate_up_proj = Parameter(tensor(np.zeros((8, 24, 40)), "float32"))
    with pytest.raises(ValueError, match="weights must be of shape"):
        MoEFeedForward.of(block)


def test_a_block_that_computes_something_else():
    """Here weights that are not divided by their sum, under the names of one that does."""
    block = Block(("w1", "w3", "w2"), 2, True)
    block.norm_topk_prob = False
    wrong = MoEFeedForward.of(block, check=False, renormalize=True)
    assert wrong.return_logits
    with pytest.raises(ValueError, match=r"Block must compute what this layer does, got a relative difference"):
        MoEFeedForward.of(block, renormalize=True)


def test_repr_and_bad_arguments():
    assert repr(layer(k=2)) == "MoEFeedForward(hidden_size=24, intermediate_size=20, num_experts=8, k=2)"
    with pytest.raises(TypeError, match="MoEFeedForward: k must be an int"):
        MoEFeedForward(*SIZES, k="two")
    with pytest.raises(ValueError, match=r"^MoEFeedForward: .*k must be at most .*\(4\), got 5"):
        MoEFeedForward(8, 16, 4, k=5)
    with pytest.raises(ValueError, match="MoEFeedForward: num_experts must be >= 1"):
        MoEFeedForward(4, 4, 0)
    with pytest.raises(ValueError, match=r"gate_weight_init.shape must be \(8, 20, 24\)"):
        MoEFeedForward(*SIZES, gate_weight_init=Parameter(tensor(np.zeros((2, 2)), "float32")))
