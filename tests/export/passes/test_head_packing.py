"""Queries, keys and values by one product, in MindIR files (level O3)."""

import numpy as np
import pytest
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.files.model import read_model
from ms_ascend_ops.export.graphs.mindir_graph import graphs_of
from ms_ascend_ops.samples.network import flat

from ms_ascend_ops import export_mindir, load, optimize_mindir
from tests.acceptance import assert_close
from tests.export import equivalent_forms
from tests.modes import Together
from tests.versions import without

HIDDEN, SIZE = 24, 6


def linear(features, bias=False):
    # Scores of a few units: with larger ones a softmax makes much of their last bits.
    weight = (0.2 * np.random.default_rng(features).standard_normal((features, HIDDEN))).astype(np.float32)
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


def joined_names(count, prefix="parts.{}."):
    """Those of the joined weights of queries, keys and values of so many layers."""
    return ["+".join(f"{prefix.format(i)}{part}_proj.weight" for part in ("q", "k", "v")) for i in range(count)]


def draw(*shape):
    return Tensor(np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32))


def joined(net, inputs, folder, dynamic=None, others=()):
    """Names of the joined weights and number of products before and after, when the outputs have been compared."""
    stock = export_mindir(net, *inputs, path=folder / "stock", dynamic=dynamic)
    fused = folder / "fused.mindir"
    report = optimize_mindir(stock, fused, level="O3")
    network = load(fused)
    for values in (inputs, *others):
        for output, value in zip(flat(network(*values)), flat(net(*values)), strict=True):
            # A wider product may be summed in another order; a wrong weight or head is off by whole units.
            assert_close(output.asnumpy(), value.asnumpy(), rtol=1e-5, atol=1e-5)
    models = [read_model(path, "test") for path in (stock, fused)]
    sizes = [sum(len(p.raw_data) for p in model.graph.parameter) for model in models]
    assert sizes[0] == sizes[1]
    products = [sum(n.kind == "MatMul" for g in graphs_of(model) for n in g.graph.nodes) for model in models]
    names = sorted(p.ref_key for p in models[1].graph.parameter if "+" in p.ref_key)
    assert len(names) == sum(e.pattern == "linear layers" for e in report.replaced)
    return names, products


@without("SplitWithSize on a CPU")
@pytest.mark.parametrize("dynamic", [None, {0: (0, 1)}])
def test_three_layers_become_one_product(dynamic, tmp_path):
    others = [(draw(3, 1, HIDDEN),), (draw(1, 7, HIDDEN),)] if dynamic else []
    names, products = joined(Attention(), (draw(2, 5, HIDDEN),), tmp_path, dynamic, others)
    assert names == joined_names(1, "")
    assert products == [3, 1]


class Open(Attention):
    """The shape leaves the number of heads open."""

    def split(self, x, layer, index):
        batch, length, _ = x.shape
        return layer(x).reshape(batch, length, -1, SIZE).swapaxes(1, 2)


@without("SplitWithSize on a CPU")
def test_each_layer_for_itself(tmp_path):
    names, products = joined(Together([Attention(), Open()]), [draw(2, 5, HIDDEN)] * 2, tmp_path)
    assert names == joined_names(2)
    assert products == [6, 2]


@without("SplitWithSize on a CPU")
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


@without("SplitWithSize on a CPU")
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


def test_layers_that_stay(tmp_path):
    net = Together([Tied(), Kept(), Shared(), Attention(bias=True)])
    names, products = joined(net, [draw(2, 5, HIDDEN)] * 4, tmp_path)
    assert names == []
    assert products[0] == products[1]


class Rotary(Attention):
    """Queries and keys are rotated before they meet; the tables are those of all positions."""

    rotated = ("q", "k")

    def __init__(self, heads=(4, 2, 2), own_tables=False, mode="half"):
        super().__init__(heads)
        angles = np.outer(np.arange(16), 10.0 ** -np.linspace(0, 1, SIZE // 2)).astype(np.float32)
        angles = np.concatenate([angles, angles], -1) if mode == "half" else np.repeat(angles, 2, -1)
        self.rotate = equivalent_forms.rotate_half if mode == "half" else equivalent_forms.rotate_pairs
        if own_tables:
            angles = np.stack([angles, angles / 2])
        self.cos, self.sin = Tensor(np.cos(angles)), Tensor(np.sin(angles))
        self.own_tables = own_tables

    def tables(self, x, first=0):
        if self.own_tables:  # those of each sequence, in the shape of the heads
            return tuple(table[:, : x.shape[1]].expand_dims(1) for table in (self.cos, self.sin))
        return tuple(table[first : first + x.shape[1]] for table in (self.cos, self.sin))

    def turn(self, x, tables):
        return x * tables[0] + self.rotate(x) * tables[1]

    def heads_of(self, x):
        return self.split(x, self.q_proj, 0), self.split(x, self.k_proj, 1), self.split(x, self.v_proj, 2)

    def mix(self, q, k, v):
        if self.heads[0] != self.heads[1]:
            k, v = ops.cat((k, k), 1), ops.cat((v, v), 1)
        return ops.matmul(ops.softmax(ops.matmul(q, k.swapaxes(2, 3)), -1), v)

    def construct(self, x):
        q, k, v = self.heads_of(x)
        return self.mix(self.turn(q, self.tables(x)), self.turn(k, self.tables(x)), v)


class Values(Rotary):
    """Values have a second user."""

    def construct(self, x):
        q, k, v = self.heads_of(x)
        tables = self.tables(x)
        return self.mix(self.turn(q, tables), self.turn(k, tables), v), v + 1


def rotary_operators(path):
    """Names of the operators that turn heads, one for each node, and how many nodes arrange them."""
    nodes = [node for graph in graphs_of(read_model(path, "test")) for node in graph.graph.nodes]
    names = [str(node.attributes.get("reg_op_name")) for node in nodes if node.kind == "Custom"]
    return sorted(name for name in names if "Rotary" in name), sum(n.kind == "SplitWithSize" for n in nodes)


@pytest.mark.parametrize(
    ("networks", "open_axes"),
    [
        ((Rotary, lambda: Rotary(mode="interleave")), ()),
        ((Rotary,), (0, 1)),
        ((lambda: Rotary((3, 3, 3)),), (0,)),
        ((lambda: Rotary(own_tables=True), Values), (1,)),
    ],
    ids=["pairs", "unknown batch and length", "alike", "own tables and values used twice"],
)
def test_heads_and_rotary_embedding_by_one_operator(networks, open_axes, tmp_path):
    count = len(networks)
    shapes = [(3 if 0 in open_axes else 2, 1 if 1 in open_axes else 5), (1 if 0 in open_axes else 2, 5)]
    others = [[draw(*shape, HIDDEN)] * count for shape in shapes]
    net = Together([network() for network in networks])
    names, products = joined(
        net, [draw(2, 5, HIDDEN)] * count, tmp_path, dict.fromkeys(range(count), open_axes), others
    )
    assert names == joined_names(count)
    assert products == [3 * count, count]
    assert rotary_operators(tmp_path / "fused.mindir") == (["QkvRotaryEmbedding"] * count, 0)
    report = optimize_mindir(tmp_path / "stock.mindir", tmp_path / "again.mindir", level="O3")
    texts = [entry.text for entry in report.replaced if entry.pattern == "linear layers"]
    assert texts == count * [
        "q_proj, k_proj, v_proj by one product, with one weight in the file; "
        "heads and rotary embedding by qkv_rotary_embedding"
    ]


class KeysFirst(Rotary):
    """The keys are there before the queries, and the values before both."""

    def construct(self, x):
        v, k, q = self.split(x, self.v_proj, 2), self.split(x, self.k_proj, 1), self.split(x, self.q_proj, 0)
        return self.mix(self.turn(q, self.tables(x)), self.turn(k, self.tables(x)), v)


def test_the_order_of_the_layers_does_not_matter(tmp_path):
    names, _ = joined(KeysFirst(), (draw(2, 5, HIDDEN),), tmp_path)
    assert sorted(names[0].split("+")) == ["k_proj.weight", "q_proj.weight", "v_proj.weight"]
    assert names[0].endswith("v_proj.weight")
    assert rotary_operators(tmp_path / "fused.mindir") == (["QkvRotaryEmbedding"], 0)


class TwoTables(Rotary):
    def construct(self, x):
        q, k, v = self.heads_of(x)
        return self.mix(self.turn(q, self.tables(x)), self.turn(k, self.tables(x, 3)), v)


class KeysOnly(Rotary):
    def construct(self, x):
        q, k, v = self.heads_of(x)
        return self.mix(q, self.turn(k, self.tables(x)), v)


class AllThree(Rotary):
    def construct(self, x):
        q, k, v = self.heads_of(x)
        tables = self.tables(x)
        return self.mix(self.turn(q, tables), self.turn(k, tables), self.turn(v, tables))


class NoValues(Rotary):
    def construct(self, x):
        tables = self.tables(x)
        q, k = self.turn(self.split(x, self.q_proj, 0), tables), self.turn(self.split(x, self.k_proj, 1), tables)
        return self.mix(q, k, k)


class Seen(Rotary):
    """The queries are used as they are, too."""

    def construct(self, x):
        q, k, v = self.heads_of(x)
        tables = self.tables(x)
        return self.mix(self.turn(q, tables), self.turn(k, tables), v), q + 1


class OfValues(Rotary):
    """The angles are made of the values: nothing can give both at once."""

    def construct(self, x):
        q, k, v = self.heads_of(x)
        angles = v[:, :1, :, : SIZE // 2].mean((0, 1))
        angles = ops.cat((angles, angles), -1)
        tables = ops.cos(angles), ops.sin(angles)
        return self.mix(self.turn(q, tables), self.turn(k, tables), v)


@without("SplitWithSize on a CPU")
def test_rotary_embeddings_that_stay(tmp_path):
    """The products become one all the same."""
    rotated = {TwoTables: 2, KeysOnly: 1, AllThree: 3, NoValues: 2, Seen: 2, OfValues: 2}
    net = Together([kind() for kind in rotated])
    _, products = joined(net, [draw(2, 5, HIDDEN)] * len(rotated), tmp_path)
    assert products[1] == len(rotated)
    found = rotary_operators(tmp_path / "fused.mindir")
    assert found == (["RotaryEmbedding"] * sum(rotated.values()), len(rotated))
