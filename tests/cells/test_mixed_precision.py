"""Automatic mixed precision of MindSpore at every level: around each layer, and around networks after `optimize`."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import amp, nn, ops

from ms_ascend_ops import cells, optimize
from ms_ascend_ops.sparse import LAYER_METHODS
from tests.export import equivalent_forms
from tests.export.equivalent_forms import HIDDEN
from tests.inputs import draw
from tests.modes import run
from tests.tensors import numpy, tensor

LEVELS = ("O1", "O2", "O3", "auto")
SPARSE = np.where(np.random.default_rng(0).random((8, 16)) < 0.3, 1.5, 0.0).astype(np.float32)


def bias():
    return tensor(np.linspace(-1, 1, 8), "float32")


LAYERS = {  # how to make it, the shapes of its inputs, and whether O1 computes it in half precision
    "RMSNorm": (lambda: cells.RMSNorm(16), [(3, 16)], False),
    "AddRMSNorm": (lambda: cells.AddRMSNorm(16), [(3, 16), (3, 16)], False),
    "LayerNorm": (lambda: cells.LayerNorm((16,)), [(3, 16)], False),
    "GroupNorm": (lambda: cells.GroupNorm(4, 16), [(2, 16, 3, 3)], False),
    "SwiGLU": (cells.SwiGLU, [(3, 16)], False),
    "GEGLU": (cells.GEGLU, [(3, 16)], False),
    "GELU": (cells.GELU, [(3, 16)], False),
    "Dense": (lambda: cells.Dense(16, 8, activation="relu"), [(3, 16)], True),
    "Conv2d": (lambda: cells.Conv2d(4, 8, 3), [(2, 4, 6, 6)], True),
    "Conv2dGroupNorm": (
        lambda: cells.Conv2dGroupNorm.of(nn.Conv2d(4, 8, 3, has_bias=True), nn.GroupNorm(2, 8)),
        [(2, 4, 6, 6)],
        False,
    ),
    "RotaryEmbedding": (lambda: cells.RotaryEmbedding(8, 32), [(2, 3, 5, 8), (2, 3, 5, 8)], False),
    "QuantDense": (lambda: cells.QuantDense.from_dense(nn.Dense(16, 8)), [(3, 16)], False),
    "WeightQuantDense": (lambda: cells.WeightQuantDense.from_dense(nn.Dense(64, 8)), [(3, 64)], False),
    "SparseDense": (lambda: cells.SparseDense(SPARSE, bias()), [(3, 16)], True),
    "SlicedDense": (lambda: cells.SlicedDense.of(cells.SparseDense(SPARSE, bias())), [(3, 16)], True),
    "MoEFeedForward": (lambda: cells.MoEFeedForward(16, 32, 4, 4), [(2, 5, 16)], False),
}


class Around(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x, y):
        return self.layer(x) if y is None else self.layer(x, y)


class Alone(Around):
    def construct(self, x):
        return self.layer(x)


def first(value):
    return value[0] if isinstance(value, tuple) else value


def layer_and_inputs(name):
    make, shapes, half = LAYERS[name]
    random = np.random.default_rng(0)
    return make(), [tensor(draw(random, shape), "float32") for shape in shapes], half


def close(values, expected):
    np.testing.assert_allclose(values, expected, atol=5e-3 * np.abs(expected).max())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, level):
    layer, inputs, half = layer_and_inputs(name)
    expected = numpy(first(layer(*inputs)))
    net = layer if len(name) % 2 else (Alone if len(inputs) == 1 else Around)(layer)
    y = first(amp.auto_mixed_precision(net, level, ms.float16)(*inputs))
    assert y.dtype == ms.float32
    close(numpy(y), expected)
    if level == "O1":
        assert np.array_equal(numpy(y), expected) is not half


@pytest.mark.parametrize("name", ["Dense", "Conv2dGroupNorm", "SparseDense", "SlicedDense", "MoEFeedForward"])
def test_graphs(name):
    layer, inputs, _ = layer_and_inputs(name)
    expected = numpy(first(layer(*inputs)))
    close(numpy(first(run("graph", amp.auto_mixed_precision(layer, "O2", ms.float16), inputs))), expected)


@pytest.mark.parametrize("make", [
    *(lambda method=method: cells.SparseDense(SPARSE, bias(), method=method) for method in LAYER_METHODS),
    lambda: cells.MoEFeedForward(16, 32, 4, 4),
], ids=[*LAYER_METHODS, "experts"])  # fmt: skip
def test_bfloat16(make):
    layer, inputs = make(), [tensor(draw(np.random.default_rng(0), (5, 16)), "float32")]
    weights = layer.trainable_params()

    def results(net):
        loss = ms.value_and_grad(lambda x: first(net(x)).square().sum(), None, weights)
        return numpy(first(net(*inputs))), *(numpy(gradient) for gradient in loss(*inputs)[1])

    expected = results(layer)
    net = amp.auto_mixed_precision(nn.SequentialCell(nn.Identity(), layer), "O2", ms.bfloat16)
    assert first(net(*inputs)).dtype == ms.float32
    for new, old in zip(results(net), expected, strict=True):
        # bfloat16 has 8 bits (4e-3), and up to ten values that are rounded to it lie one behind the other here.
        np.testing.assert_allclose(new, old, atol=4e-2 * np.abs(old).max())


def test_rotary_positions_in_bfloat16():
    layer = cells.RotaryEmbedding(8, 4096)
    q = tensor(draw(np.random.default_rng(0), (1, 3, 5, 8)), "float32")
    positions = ms.Tensor(np.array([4000, 17, 4095]), ms.int32)
    expected = numpy(layer(q, None, positions))
    y = layer.to_float(ms.bfloat16)(q, None, positions)
    assert y.dtype == ms.bfloat16
    # x, the tables and the result are rounded to 8 bits, 4e-3 each. An angle near 4000 in bfloat16 would be all wrong.
    np.testing.assert_allclose(numpy(y), expected, atol=2e-2 * np.abs(expected).max())


def test_a_cache_keeps_its_dtype():
    cache = cells.KVCache(2, 4, 2, 8)
    dtype = cache.key_cache.dtype
    random = np.random.default_rng(0)
    keys, values = (tensor(draw(random, (3, 2, 8)), "float32") for _ in range(2))
    cache.to_float(ms.float16)
    cache(keys, values, ms.Tensor(np.arange(3), ms.int32))
    assert cache.key_cache.dtype == dtype
    np.testing.assert_allclose(numpy(cache.key_cache).reshape(8, 2, 8)[:3], numpy(keys), rtol=1e-3)


class Block(nn.Cell):
    """A decoder's block: norms, attention in plain products, a gated feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.first, self.second = equivalent_forms.PowMeanNorm(), equivalent_forms.PowMeanNorm()
        self.q, self.k, self.v, self.o = (nn.Dense(HIDDEN, HIDDEN) for _ in range(4))
        self.mlp = equivalent_forms.LlamaStyleMLP()
        self.act, self.wide, self.last = nn.ReLU(), nn.Dense(HIDDEN, HIDDEN), nn.LayerNorm((HIDDEN,))

    def construct(self, x):
        h = self.first(x)
        q, k, v = (self.heads(self.q(h)), self.heads(self.k(h)), self.heads(self.v(h)))
        scores = ops.matmul(q, k.swapaxes(2, 3)) * 0.3
        a = ops.matmul(ops.softmax(scores, -1), v).swapaxes(1, 2).reshape(x.shape)
        h = x + self.o(a)
        h = h + self.mlp(self.second(h))
        return self.last(self.act(self.wide(h)) + h)

    def heads(self, x):
        return x.reshape(x.shape[0], x.shape[1], 2, -1).swapaxes(1, 2)


@pytest.mark.parametrize(("mode", "level"), [("pynative", "O1"), ("pynative", "auto"), ("graph", "O2")])
def test_after_optimize(level, mode):
    inputs = [tensor(draw(np.random.default_rng(0), (2, 5, HIDDEN)), "float32")]
    net = nn.SequentialCell(Block(), Block())
    expected = numpy(net(*inputs))
    assert len(optimize(net, verify=inputs, level="O3").replaced) > 8
    names = [parameter.name for parameter in net.get_parameters()]
    net = amp.auto_mixed_precision(net, level, ms.float16)
    assert [parameter.name for parameter in net.get_parameters()] == names
    y = run(mode, net, inputs)
    assert y.dtype == ms.float32
    close(numpy(y), expected)


def test_gradients():
    inputs = [tensor(draw(np.random.default_rng(0), (2, 5, HIDDEN)), "float32")]
    net = Block()
    weights = net.trainable_params()
    gradients = {}
    for level in ("", "O1"):
        if level:
            optimize(net, verify=inputs)
            net = amp.auto_mixed_precision(net, level, ms.float16)
        loss = ms.value_and_grad(lambda x, net=net: net(x).square().sum(), None, weights)
        gradients[level] = [numpy(g) for g in loss(*inputs)[1]]
    for new, old in zip(gradients["O1"], gradients[""], strict=True):
        assert np.abs(new - old).max() <= 2e-2 * max(np.abs(old).max(), 1.0)
