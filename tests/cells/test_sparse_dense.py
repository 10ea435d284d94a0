import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import SparseDense
from ms_ascend_ops.sparse import CSR
from tests.tensors import numpy

# Sums of 12 products of numbers about 1 at most, in float32 and in another order, and gradients that are some 10 times
# as large: they are 1e-6 and 1e-5 apart.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


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


@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_as_a_dense_layer(dense, mode):
    """Also its gradients, of the values that the weight has."""
    ms.set_context(mode=mode)
    try:
        sparse = SparseDense.of(dense)
        x = Tensor(np.random.default_rng(1).normal(size=(2, 3, 12)).astype(np.float32))
        np.testing.assert_allclose(numpy(sparse(x)), numpy(dense(x)), **CLOSE)
        results = []
        for layer in (sparse, dense):
            step = ms.value_and_grad(_Loss(layer), 0, layer.trainable_params())
            results.append(step(x)[1])
        (dx, (dvalues, dbias)), (dx2, (dweight, dbias2)) = results
        rows, columns = np.nonzero(numpy(dense.weight))
        for found, expected in (
            (dx, numpy(dx2)), (dbias, numpy(dbias2)), (dvalues, numpy(dweight)[rows, columns]),
        ):  # fmt: skip
            np.testing.assert_allclose(numpy(found), expected, **CLOSE)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


def test_pruning(dense):
    sparse = SparseDense.of(dense, density=0.25)
    weight = numpy(sparse.to_csr().to_dense())
    kept = np.abs(weight[weight != 0])
    assert len(kept) == 21
    assert kept.min() >= np.abs(numpy(dense.weight)[weight == 0]).max()
    assert [p.name for p in sparse.trainable_params()] == ["weight", "bias"]
    assert CSR.of(sparse.to_csr()).shape == (7, 12)


def test_arguments_that_are_wrong(dense):
    with pytest.raises(ValueError, match="SparseDense: density"):
        SparseDense.of(dense, density=0)
    with pytest.raises(TypeError, match="SparseDense: dense must be an"):
        SparseDense.of(nn.ReLU())
    with pytest.raises(ValueError, match="SparseDense: bias must have shape"):
        SparseDense(dense.weight, Tensor(np.zeros(3, np.float32)))
    with pytest.raises(ValueError, match="SparseDense: weight must have a value"):
        SparseDense(np.zeros((3, 4), np.float32))
