import math
from contextlib import nullcontext
from itertools import product

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import SparseDense
from ms_ascend_ops.sparse import CSR, LAYER_METHODS, THRESHOLDS, Thresholds
from tests.acceptance import assert_close
from tests.modes import graph_mode
from tests.tensors import numpy

# Sums of 12 products of numbers about 1 at most, in float32 and in another order, are 1e-6 apart.
CLOSE = {"rtol": 1e-5, "atol": 2e-6}
GRAPHS = ("direct", "blocks")  # have a kernel of their own


class _Loss(nn.Cell):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def construct(self, x):
        return (self.layer(x) ** 2).sum()


@pytest.fixture
def dense():
    rng = np.random.default_rng(0)
    layer = nn.Dense(12, 7)
    layer.weight.set_data(Tensor((rng.normal(size=(7, 12)) * (rng.uniform(size=(7, 12)) < 0.4)).astype(np.float32)))
    layer.bias.set_data(Tensor(rng.normal(size=7).astype(np.float32)))
    return layer


@pytest.mark.parametrize(("mode", "method"), [*product(["pynative"], LAYER_METHODS), *product(["graph"], GRAPHS)])
def test_as_a_dense_layer(dense, mode, method):
    """Also its gradients, of the values that the weight has."""
    with graph_mode() if mode == "graph" else nullcontext():
        sparse = SparseDense.of(dense, method=method)
        assert sparse.method(6).name == method
        x = Tensor(np.random.default_rng(1).normal(size=(2, 3, 12)).astype(np.float32))
        assert_close(numpy(sparse(x)), numpy(dense(x)), **CLOSE)
        results = []
        for layer in (sparse, dense):
            step = ms.value_and_grad(_Loss(layer), 0, layer.trainable_params())
            results.append(step(x)[1])
        (dx, (dvalues, dbias)), (dx2, (dweight, dbias2)) = results
        rows, columns = np.nonzero(numpy(dense.weight))
        for found, expected in (
            (dx, numpy(dx2)), (dbias, numpy(dbias2)), (dvalues, numpy(dweight)[rows, columns]),
        ):  # fmt: skip
            assert_close(numpy(found), expected, **CLOSE)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
@pytest.mark.parametrize("method", LAYER_METHODS)
def test_16_bits(method, dtype):
    weight = np.arange(-20, 20, dtype=np.float32).reshape(4, 10)  # sums are exact in 8 bits
    layer = SparseDense(Tensor(weight).astype(dtype), method=method)
    x = np.arange(30, dtype=np.float32).reshape(3, 10) % 2
    np.testing.assert_array_equal(numpy(layer(Tensor(x).astype(dtype))), x @ weight.T)


def test_the_table_chooses_by_the_rows_of_x(monkeypatch):
    """The same method, and the same reason, as the matrix itself."""
    limits = (Thresholds(4, 0, 1, 0), Thresholds(math.inf, 0, 0, 1))
    monkeypatch.setitem(THRESHOLDS, "CPU", limits)
    weight = np.eye(32, dtype=np.float32)
    layer = SparseDense(weight)
    direct = []
    monkeypatch.setattr(layer._product, "construct", lambda *tensors: direct.append(tensors[3].shape) or tensors[3])
    for rows in (4, 5):
        np.testing.assert_array_equal(numpy(layer(Tensor(weight[:rows]))), weight[:rows])
        assert layer.method(rows) == CSR.of(weight).method(rows)
    assert direct == [(32, 5)]


@pytest.mark.parametrize(("mode", "method"), [*product(["pynative"], LAYER_METHODS), ("graph", "direct")])
def test_a_checkpoint_of_another_pattern(tmp_path, mode, method):
    """Of as many values, loaded after a first call: its product, also where the layer had placed those of before."""
    rng = np.random.default_rng(0)
    weights = [rng.permutation(np.concatenate((np.arange(1, 41), np.zeros(440)))).reshape(20, 24) for _ in range(2)]
    before, after = (SparseDense(weight.astype(np.float32), method=method) for weight in weights)
    x = np.arange(5 * 24, dtype=np.float32).reshape(5, 24) % 7
    with graph_mode() if mode == "graph" else nullcontext():
        np.testing.assert_array_equal(numpy(before(Tensor(x))), x @ weights[0].T)
        path = str(tmp_path / "after.ckpt")
        ms.save_checkpoint(after, path)
        assert ms.load_param_into_net(before, ms.load_checkpoint(path)) == ([], [])
        np.testing.assert_array_equal(numpy(before(Tensor(x))), x @ weights[1].T)


def test_a_checkpoint_of_other_blocks_is_an_error(tmp_path):
    weights = np.zeros((2, 32, 48), np.float32)
    weights[0, 3, 20], weights[1, 3, 40] = 1, 1
    before, after = (SparseDense(weight, method="blocks") for weight in weights)
    ms.save_checkpoint(after, str(tmp_path / "after.ckpt"))
    ms.load_param_into_net(before, ms.load_checkpoint(str(tmp_path / "after.ckpt")))
    with pytest.raises(RuntimeError, match="block_sparse_matmul"):
        numpy(before(Tensor(np.ones((2, 48), np.float32))))


def test_pruning(dense):
    sparse = SparseDense.of(dense, density=0.25)
    weight = numpy(sparse.to_csr().to_dense())
    kept = np.abs(weight[weight != 0])
    assert len(kept) == 21
    assert kept.min() >= np.abs(numpy(dense.weight)[weight == 0]).max()
    assert [p.name for p in sparse.trainable_params()] == ["weight", "bias"]
    assert CSR.of(sparse.to_csr()).shape == (7, 12)


class _Network(nn.Cell):
    """Linear layers of every kind: in a list, with an activation, with a weight that is an embedding's, too."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.layers = nn.CellList([nn.Dense(8, 12), ms.mint.nn.Linear(12, 8, bias=False)])
        self.gate = nn.Dense(8, 8, activation="relu")
        self.head = nn.Dense(8, 10, has_bias=False)
        self.head.weight = self.embedding.embedding_table

    def construct(self, ids):
        x = self.layers[1](self.layers[0](self.embedding(ids)))
        return self.head(self.gate(x))


def test_replacing_layers_of_a_network(tmp_path):
    """By layers that compute the same with weights that are pruned in the same method, and are trained and saved."""
    network, ids = _Network(), Tensor(np.arange(6, dtype=np.int32).reshape(2, 3))
    weights = [numpy(layer.weight) for layer in network.layers]
    assert SparseDense.replace(network, density=0.25) == ["layers.0", "layers.1"]
    pruned = _Network()
    ms.load_param_into_net(pruned, {p.name: p for p in network.get_parameters() if not p.name.startswith("layers")})
    for layer, other, weight in zip(network.layers, pruned.layers, weights, strict=True):
        kept = numpy(layer.to_csr().to_dense())
        assert (kept != 0).sum() == 24
        np.testing.assert_array_equal(kept[kept != 0], weight[kept != 0])
        other.weight.set_data(Tensor(kept))
    pruned.layers[0].bias.set_data(network.layers[0].bias)
    assert_close(numpy(network(ids)), numpy(pruned(ids)), **CLOSE)
    trained = {p.name for p in network.trainable_params()}
    assert {"layers.0.weight", "layers.0.bias", "layers.1.weight"} <= trained
    ms.save_checkpoint(network, str(tmp_path / "pruned.ckpt"))
    assert ms.load_param_into_net(network, ms.load_checkpoint(str(tmp_path / "pruned.ckpt"))) == ([], [])
    assert SparseDense.replace(network, density=0.25) == []


def test_replacing_layers_that_have_been_pruned():
    """Dense weights stay, and those without a value."""
    network = nn.SequentialCell(nn.Dense(40, 40), nn.Dense(40, 40), nn.Dense(40, 40))
    weight = numpy(network[1].weight) * (np.arange(1600).reshape(40, 40) % 20 == 0)
    network[1].weight.set_data(Tensor(weight.astype(np.float32)))
    network[2].weight.set_data(Tensor(np.zeros((40, 40), np.float32)))
    x = Tensor(np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32))
    expected = numpy(network(x))
    assert SparseDense.replace(network) == ["1"]
    assert_close(numpy(network(x)), expected, **CLOSE)
    with pytest.raises(ValueError, match="SparseDense: density"):
        SparseDense.replace(network, density=2)
    assert isinstance(network[0], nn.Dense)


def test_arguments_that_are_wrong(dense):
    with pytest.raises(ValueError, match="SparseDense: density"):
        SparseDense.of(dense, density=0)
    with pytest.raises(TypeError, match=r"SparseDense: dense must be an nn\.Dense or mint\.nn\.Linear, got ReLU"):
        SparseDense.of(nn.ReLU())
    with pytest.raises(ValueError, match="SparseDense: bias must have shape"):
        SparseDense(dense.weight, Tensor(np.zeros(3, np.float32)))
    with pytest.raises(ValueError, match="SparseDense: method must be one of direct, blocks, dense, got sparse"):
        SparseDense.of(dense, method="sparse")
    with pytest.raises(ValueError, match="SparseDense: weight must have a value"):
        SparseDense(np.zeros((3, 4), np.float32))


def test_old_names_still_work():
    with pytest.warns(DeprecationWarning, match="way is now called method"):
        layer = SparseDense(np.eye(4, dtype=np.float32), way="direct")
    with pytest.warns(DeprecationWarning, match=r"SparseDense\.way is now called SparseDense\.method"):
        assert layer.way(2) == layer.method(2)
