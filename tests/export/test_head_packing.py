"""Queries, keys and values by one product, in MindIR files (level O3)."""

import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.mindir_graph import graphs_of
from ms_ascend_ops.export.model import read_model

from ms_ascend_ops import export_mindir, load, optimize_mindir

HIDDEN, SIZE = 24, 6


def linear(features, bias=False):
    weight = np.random.default_rng(features).standard_normal((features, HIDDEN)).astype(np.float32)
    return nn.Dense(HIDDEN, features, weight_init=Tensor(weight), has_bias=bias)


class Attention(nn.Cell):
    """Four heads of queries, two of keys and values."""

    def __init__(self, heads=(4, 2, 2), sizes=(SIZE, SIZE, SIZE), bias=False):
        super().__init__()
        self.heads, self.sizes = heads, sizes
        self.q_proj, self.k_proj, self.v_proj = (
            linear(count * size, bias) for count, size in zip(heads, sizes, strict=True)
        )

    def split(self, x, layer, index):
        batch, length, _ = x.shape
        return layer(x).reshape(batch, length, self.heads[index], self.sizes[index]).swapaxes(1, 2)

    def construct(self, x):
        q, k, v = self.split(x, self.q_proj, 0), self.split(x, self.k_proj, 1), self.split(x, self.v_proj, 2)
        k, v = ops.cat((k, k), 1), ops.cat((v, v), 1)
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)), -1), v)


class Layers(nn.Cell):
    """Two attentions: names and weights of one layer do not mix with those of another."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Attention(), Attention()

    def construct(self, x):
        return self.first(x), self.second(x * 2)


def draw(*shape):
    return Tensor(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def joined(net, inputs, folder, dynamic=None, others=()):
    """Names of the joined weights and number of products before and after, when the outputs have been compared."""
    stock = export_mindir(net, *inputs, path=folder / "stock", dynamic=dynamic)
    fused = folder / "fused.mindir"
    report = optimize_mindir(stock, fused, level="O3")
    network = load(fused)
    for values in (inputs, *others):
        outputs, expected = network(*values), net(*values)
        pairs = zip(outputs, expected, strict=True) if isinstance(expected, tuple) else [(outputs, expected)]
        for output, value in pairs:
            # A wider product may be summed in another order; a wrong weight or head is off by whole units.
            np.testing.assert_allclose(output.asnumpy(), value.asnumpy(), rtol=1e-5, atol=1e-5)
    models = [read_model(path, "test") for path in (stock, fused)]
    sizes = [sum(len(p.raw_data) for p in model.graph.parameter) for model in models]
    assert sizes[0] == sizes[1]
    products = [sum(n.kind == "MatMul" for g in graphs_of(model) for n in g.graph.nodes) for model in models]
    names = sorted(p.ref_key for p in models[1].graph.parameter if "+" in p.ref_key)
    assert len(names) == sum(e.pattern == "linear layers" for e in report.replaced)
    return names, products


@pytest.mark.parametrize("dynamic", [None, {0: (0, 1)}])
def test_three_layers_become_one_product(dynamic, tmp_path):
    others = [(draw(3, 1, HIDDEN),), (draw(1, 7, HIDDEN),)] if dynamic else []
    names, products = joined(Attention(), (draw(2, 5, HIDDEN),), tmp_path, dynamic, others)
    assert names == ["q_proj.weight+k_proj.weight+v_proj.weight"]
    assert products == [3, 1]


def test_each_layer_for_itself(tmp_path):
    names, products = joined(Layers(), (draw(2, 5, HIDDEN),), tmp_path)
    assert names == [
        "+".join(f"{layer}.{part}_proj.weight" for part in ("q", "k", "v")) for layer in ("first", "second")
    ]
    assert products == [6, 2]


def test_a_number_of_heads_that_the_shape_leaves_open(tmp_path):
    class Open(Attention):
        def split(self, x, layer, index):
            batch, length, _ = x.shape
            return layer(x).reshape(batch, length, -1, SIZE).swapaxes(1, 2)

    assert joined(Open(), (draw(2, 5, HIDDEN),), tmp_path)[1] == [3, 1]


def test_queries_of_another_input_stay(tmp_path):
    class Cross(Attention):
        def construct(self, x, other):
            q = self.split(x, self.q_proj, 0)
            k, v = self.split(other, self.k_proj, 1), self.split(other, self.v_proj, 2)
            k, v = ops.cat((k, k), 1), ops.cat((v, v), 1)
            return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)), -1), v)

    names, products = joined(Cross(), (draw(2, 5, HIDDEN), draw(2, 5, HIDDEN) + 1), tmp_path)
    assert names == ["k_proj.weight+v_proj.weight"]
    assert products == [3, 2]


def test_heads_of_another_size_stay(tmp_path):
    class Sizes(Attention):
        def construct(self, x):
            return tuple(self.split(x, layer, i) for i, layer in enumerate((self.q_proj, self.k_proj, self.v_proj)))

    names, _ = joined(Sizes(heads=(4, 2, 2), sizes=(6, 12, 6)), (draw(2, 5, HIDDEN),), tmp_path)
    assert names == ["q_proj.weight+v_proj.weight"]


class Tied(Attention):
    def construct(self, x):
        return super().construct(x) + self.q_proj.weight.sum() + self.k_proj.weight.sum() + self.v_proj.weight.sum()


class Kept(Attention):
    """The results of the layers are used as they are, too."""

    def construct(self, x):
        return super().construct(x), self.q_proj(x) + 1, self.k_proj(x) + 1, self.v_proj(x) + 1


class Shared(Attention):
    """One layer for keys and values, and none for queries."""

    def construct(self, x):
        k = self.split(x, self.k_proj, 1)
        return ops.matmul(ops.softmax(ops.matmul(k, k.swapaxes(2, 3)), -1), self.split(x, self.k_proj, 1))


@pytest.mark.parametrize(
    "net", [Tied, Kept, Shared, lambda: Attention(bias=True)], ids=["tied", "kept", "shared", "bias"]
)
def test_layers_that_stay(net, tmp_path):
    names, products = joined(net(), (draw(2, 5, HIDDEN),), tmp_path)
    assert names == []
    assert products[0] == products[1]
