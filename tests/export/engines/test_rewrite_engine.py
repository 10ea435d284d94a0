import mindspore as ms
import numpy as np
import pytest
from mindspore import Parameter, nn, ops

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.export import equivalent_forms
from tests.export.equivalent_forms import HIDDEN, Attention
from tests.inputs import draw
from tests.modes import MODES, run
from tests.tensors import numpy, tensor


@pytest.fixture
def inputs():
    random = np.random.default_rng(0)
    angles = np.tile(random.uniform(0, 6, (3, HIDDEN // 4)), 2)
    mask = np.where(np.tri(3), 0, -1e9)
    return [tensor(v, "float32") for v in (draw(random, (2, 3, HIDDEN)), np.cos(angles), np.sin(angles), mask)]


def test_statements_of_an_attention(inputs):
    net = Attention()
    without_mask = numpy(net(*inputs[:3]))
    longer = [
        tensor(np.tile(numpy(v), n), "float32")
        for v, n in zip(inputs, ((2, 2, 1), (2, 1), (2, 1), (2, 2)), strict=True)
    ]
    expected = [numpy(net(*inputs)), numpy(net(*longer))]
    parameters = [(p.name, id(p)) for p in net.get_parameters()]
    report = optimize(net, verify=inputs, gradients=True, level="O3", engines=["cell", "rewrite"])
    assert sorted((e.pattern, e.engine) for e in report.replaced) == [
        ("SwiGLU", "rewrite"),
        ("add + RMSNorm", "rewrite"),
        ("attention", "rewrite"),
        ("linear layer", "cell"),
        ("rotary embedding", "rewrite"),
        ("rotary embedding", "rewrite"),
    ]
    assert report.rolled_back == ""
    assert report.gradients.relative < 1e-4
    assert [(p.name, id(p)) for p in net.get_parameters()] == parameters
    for mode in MODES:
        assert_close(numpy(run(mode, net, inputs)), expected[0], atol=1e-5)
        assert_close(numpy(run(mode, net, longer)), expected[1], atol=1e-5)
    # A call without the mask was not observed: it goes to the stock construct.
    np.testing.assert_array_equal(numpy(net(*inputs[:3])), without_mask)
    report.restore()
    assert type(net) is Attention


class Counting(nn.Cell):
    """A statement that writes a parameter, and whose result nobody reads."""

    def __init__(self):
        super().__init__()
        self.count = Parameter(tensor([0.0], "float32"), name="count", requires_grad=False)
        self.weight = Parameter(tensor(np.linspace(0.5, 2, HIDDEN), "float32"), name="weight")

    def construct(self, x):
        done = ops.assign(self.count, self.count + 1)  # noqa: F841
        y = x * ops.rsqrt(ops.pow(x, 2).mean(-1, keep_dims=True) + 1e-6) * self.weight
        return y.reshape(-1) + 1


@pytest.mark.parametrize("mode", MODES)
def test_what_a_construct_writes_is_still_written(mode, inputs):
    net = Counting()
    report = optimize(net, verify=inputs[:1])
    assert [(e.pattern, e.engine) for e in report.replaced] == [("RMSNorm", "rewrite")]
    before = numpy(net.count).item()
    run(mode, net, inputs[:1])
    assert numpy(net.count).item() == before + 1


class Scores(nn.Cell):
    """Sub-cells of a user's own classes, one by one and in a list, around a statement that is a pattern."""

    def __init__(self):
        super().__init__()
        self.first = equivalent_forms.LlamaStyleMLP()
        self.layers = nn.CellList([equivalent_forms.LlamaStyleMLP() for _ in range(2)])

    def construct(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return ops.softmax(x.reshape(x.shape[0], -1), -1).reshape(x.shape)


def test_sub_cells_stay_the_same_objects():
    """What is watched in the place of a sub-cell must not stay in the network."""
    ms.set_seed(0)  # other weights may make one probability 1, which hides what is wrong
    net = Scores()
    x = tensor(0.5 * draw(np.random.default_rng(0), (2, 3, HIDDEN)), "float32")
    expected = numpy(net(x))
    cells = [(name, id(cell)) for name, cell in net.cells_and_names()]
    parameters = [(p.name, id(p)) for p in net.get_parameters()]
    report = optimize(net, verify=[x])
    assert sorted((e.place, e.pattern, e.engine) for e in report.replaced) == [
        ("first", "SwiGLU", "cell"),
        ("layers.0", "SwiGLU", "cell"),
        ("layers.1", "SwiGLU", "cell"),
        ("the network", "softmax", "rewrite"),
    ]
    assert [(name, id(cell)) for name, cell in net.cells_and_names()] == cells
    assert [(p.name, id(p)) for p in net.get_parameters()] == parameters
    # Measured 8e-7, of probabilities up to 0.9: roundings of the scores in another order.
    assert_close(numpy(net(x)), expected, atol=1e-5)
    report.restore()
    assert {type(cell) for cell in net.layers} == {equivalent_forms.LlamaStyleMLP}
    np.testing.assert_array_equal(numpy(net(x)), expected)


class OverwrittenScores(nn.Cell):
    """BERT's way: scaled and masked scores take the name of the scores."""

    def __init__(self):
        super().__init__()
        self.heads = 2

    def construct(self, query, key, mask):
        query = query.reshape(query.shape[0], query.shape[1], self.heads, -1).transpose(0, 2, 1, 3)
        key = key.reshape(key.shape[0], key.shape[1], self.heads, -1).transpose(0, 2, 1, 3)
        scores = ops.matmul(query, key.swapaxes(2, 3))
        scores = scores / 12**0.5
        scores = scores + mask
        scores = ops.softmax(scores, -1)
        return scores.reshape(scores.shape[0], -1)


def test_a_name_that_is_used_again():
    net = OverwrittenScores()
    random = np.random.default_rng(0)
    values = [draw(random, (2, 3, HIDDEN)), draw(random, (2, 3, HIDDEN)), np.where(np.tri(3), 0, -1e9)]
    inputs = [tensor(v, "float32") for v in values]
    expected = numpy(net(*inputs))
    (entry,) = optimize(net, verify=inputs, gradients=False).entries
    assert (entry.pattern, entry.replaced) == ("scale + mask + softmax", True), entry
    for mode in ("pynative", "jit"):
        assert_close(numpy(run(mode, net, inputs)), expected, atol=1e-6)


class Biased(nn.Cell):
    """A learned bias of the scores, as of relative positions, in the place of a mask."""

    def __init__(self, inside):
        super().__init__()
        self.bias = Parameter(tensor(np.linspace(-1, 1, 9).reshape(3, 3), "float32"), name="bias")
        self.scores = BiasInside(self.bias) if inside else OverwrittenScores()
        self.inside = inside

    def construct(self, query, key):
        return self.scores(query, key) if self.inside else self.scores(query, key, self.bias * 2)


class BiasInside(OverwrittenScores):
    def __init__(self, bias):
        super().__init__()
        self.table = bias

    def construct(self, query, key):
        bias = self.table * 2
        scores = ops.matmul(
            query.reshape(2, 3, 2, -1).transpose(0, 2, 1, 3), key.reshape(2, 3, 2, -1).transpose(0, 2, 3, 1)
        )
        scores = scores / 12**0.5
        return ops.softmax(scores + bias, -1)


@pytest.mark.parametrize(("inside", "gradients"), [(False, True), (True, False)])
def test_a_gradient_that_goes_through_the_mask(inside, gradients):
    """A learned bias is learned after the substitution, too."""
    net = Biased(inside)
    random = np.random.default_rng(0)
    inputs = [tensor(draw(random, (2, 3, HIDDEN)), "float32") for _ in range(2)]
    gradient = ops.grad(lambda *x: (net(*x) ** 2).sum(), None, net.trainable_params())
    expected = numpy(gradient(*inputs)[0])
    assert np.abs(expected).max() > 1e-3
    report = optimize(net, verify=inputs, gradients=gradients)
    assert report.rolled_back == ""
    assert [e.pattern for e in report.replaced] == ["scale + mask + softmax"]
    # Sums of other operators, in float32, of terms below 1: some roundings of 6e-8.
    np.testing.assert_allclose(numpy(gradient(*inputs)[0]), expected, rtol=1e-5, atol=1e-7)


class ChannelsFirst(nn.Cell):
    """A layer norm over the channels of an image, as convolutional networks have it; it gives three values."""

    def __init__(self):
        super().__init__()
        self.norm = ops.LayerNorm(-1, -1, 1e-6)
        self.gamma = Parameter(tensor(np.linspace(0.5, 1.5, HIDDEN), "float32"), name="gamma")
        self.beta = Parameter(tensor(np.linspace(-1, 1, HIDDEN), "float32"), name="beta")

    def construct(self, x):
        x = ops.transpose(x, (0, 2, 3, 1))
        x, _, _ = self.norm(x, self.gamma, self.beta)
        return ops.transpose(x, (0, 3, 1, 2))


class ChannelsFirstAndMean(ChannelsFirst):
    def construct(self, x):
        x = ops.transpose(x, (0, 2, 3, 1))
        x, mean, _ = self.norm(x, self.gamma, self.beta)
        return ops.transpose(x + mean, (0, 3, 1, 2))


@pytest.mark.parametrize(("kind", "replaced"), [(ChannelsFirst, True), (ChannelsFirstAndMean, False)])
def test_a_statement_that_assigns_several_values(kind, replaced):
    net = kind()
    image = tensor(draw(np.random.default_rng(0), (2, HIDDEN, 4, 3)), "float32")
    expected = numpy(net(image))
    (entry,) = optimize(net, verify=[image], gradients=True).entries
    assert entry.pattern == "LayerNorm"
    assert entry.replaced == replaced
    for mode in MODES[:2]:
        assert_close(numpy(run(mode, net, [image])), expected, atol=1e-5)


class BranchBefore(nn.Cell):
    """The residual block of a diffusion network: the input of its norm loses its name, and gets it in a branch."""

    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(4, HIDDEN)
        self.activation = nn.SiLU()
        self.shift = True

    def construct(self, x, shift):
        if self.shift:
            x = x * 2
            if shift is not None:
                x = x + shift
        x = self.norm(x)
        x = self.activation(x)
        return x.reshape(x.shape[0], -1)


def test_a_name_that_only_a_branch_gives_is_not_kept():
    """In graph mode it would not be defined behind the branch."""
    net = BranchBefore()
    random = np.random.default_rng(0)
    inputs = [tensor(draw(random, shape), "float32") for shape in ((2, HIDDEN, 4, 3), (2, HIDDEN, 1, 1))]
    expected = numpy(net(*inputs))
    optimize(net, verify=inputs)
    for mode in MODES[:2]:
        assert_close(numpy(run(mode, net, inputs)), expected, atol=1e-5)


class NormAndActivation(BranchBefore):
    def construct(self, x):
        y = self.norm(x)
        y = self.activation(y)
        return y.reshape(y.shape[0], -1)


def test_what_has_been_replaced_is_not_computed_as_well():
    net = NormAndActivation()
    image = tensor(draw(np.random.default_rng(0), (2, HIDDEN, 4, 3)), "float32")
    expected = numpy(net(image))
    (entry,) = optimize(net, verify=[image]).replaced
    assert (entry.pattern, entry.engine) == ("GroupNorm + SiLU", "rewrite")
    assert "self.norm(" not in type(net).fused_source
    for mode in ("pynative", "jit"):
        assert_close(numpy(run(mode, net, [image])), expected, atol=1e-5)


class FlatPreActivation(equivalent_forms.PreActivation):
    def construct(self, x):
        normed = self.norm(x)
        y = self.relu(normed)
        y = y * self.scale + (normed if self.shortcut == "normed" else y)
        return y.reshape(y.shape[0], -1)


class FlatActivation(equivalent_forms.PreActivation):
    def construct(self, x):
        normed = self.norm(x)
        y = self.relu(normed)
        y = y * self.scale + y
        return y.reshape(y.shape[0], -1)


@pytest.mark.parametrize(
    ("kind", "shortcut", "found"),
    [
        (FlatPreActivation, "normed", ("GroupNorm", "cell")),
        (FlatPreActivation, "activated", ("GroupNorm", "cell")),  # its source says that the norm may be read
        (FlatActivation, "activated", ("GroupNorm + ReLU", "rewrite")),
    ],
)
def test_a_norm_with_two_readers(kind, shortcut, found):
    """An activation is part of it where nobody else takes what comes before: the norm would run twice."""
    net = kind(shortcut)
    image = tensor(draw(np.random.default_rng(0), (2, HIDDEN, 4, 3)), "float32")
    expected = numpy(net(image))
    (entry,) = optimize(net, verify=[image]).replaced
    assert (entry.pattern, entry.engine) == found
    assert_close(numpy(net(image)), expected, atol=1e-5)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + ops.cat((-x[..., half:], x[..., :half]), -1) * sin


class CalledTwice(nn.Cell):
    """One function for queries and keys, of which a method takes the heads."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Dense(HIDDEN, HIDDEN), nn.Dense(HIDDEN, HIDDEN)

    def heads(self, x, *, count: int = 2):
        """Their axis comes first."""
        return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)

    def construct(self, x, cos, sin):
        query: ms.Tensor = rotated(self.heads(self.query(x)), cos, sin)
        key = rotated(self.heads(self.key(x)), cos, sin)
        return ops.matmul(query, key.swapaxes(2, 3)).reshape(x.shape[0], -1)


def test_a_function_that_is_called_twice():
    net = CalledTwice()
    random = np.random.default_rng(0)
    angles = np.tile(random.uniform(0, 6, (3, HIDDEN // 4)), 2)
    inputs = [tensor(v, "float32") for v in (draw(random, (2, 3, HIDDEN)), np.cos(angles), np.sin(angles))]
    expected = numpy(net(*inputs))
    report = optimize(net, verify=inputs, gradients=True)
    assert [(e.pattern, e.engine) for e in report.replaced] == [("rotary embedding", "rewrite")] * 2
    assert type(net).fused_source.count("rotary_embedding") == 1
    for mode in MODES[:2]:
        assert_close(numpy(run(mode, net, inputs)), expected, atol=1e-5)


def closure(factor):
    def scores_and_more(x):
        return ops.softmax(x, -1) * factor

    return scores_and_more


scores_and_more = closure(2)  # a function that stays whole, as it needs what is around it


class GoesOn(nn.Cell):
    def construct(self, x):
        y = scores_and_more(x * 3)
        return y.reshape(y.shape[0], -1)


def test_a_statement_that_does_more_than_the_operator():
    net = GoesOn()
    x = tensor(draw(np.random.default_rng(0), (2, 3, HIDDEN)), "float32")
    expected = numpy(net(x))
    (entry,) = optimize(net, verify=[x]).entries
    assert not entry.replaced
    assert "something else" in entry.text
    np.testing.assert_array_equal(numpy(net(x)), expected)
