import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn, ops

from ms_ascend_ops import SlicedDense, SparseDense
from tests.acceptance import assert_close
from tests.modes import MODES, run
from tests.tensors import numpy

# Sums of 12 products of numbers about 1 at most, in float32 and in another order.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture
def dense():
    rng = np.random.default_rng(0)
    layer = nn.Dense(12, 70)
    layer.weight.set_data(Tensor((rng.normal(size=(70, 12)) * (rng.uniform(size=(70, 12)) < 0.4)).astype(np.float32)))
    layer.bias.set_data(Tensor(rng.normal(size=70).astype(np.float32)))
    return layer


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_as_a_dense_layer(dense, kind, mode):
    layer = SlicedDense.of(dense if kind == "dense" else SparseDense.of(dense))
    assert not layer.trainable_params()
    for shape in ((12,), (2, 3, 12)):
        x = Tensor(np.random.default_rng(1).normal(size=shape).astype(np.float32))
        y = run(mode, layer, (x,))
        assert y.shape == (*shape[:-1], 70)
        expected = numpy(dense(x.reshape(-1, 12))).reshape(*shape[:-1], 70)
        assert_close(numpy(y), expected, **CLOSE)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
def test_sixteen_bits_and_no_bias(dense, dtype):
    weight = dense.weight.astype(dtype)
    layer = SlicedDense(weight)
    x = Tensor(np.random.default_rng(1).normal(size=(2, 12)).astype(np.float32)).astype(dtype)
    expected = numpy(x) @ numpy(weight).T
    assert layer(x).dtype == dtype
    np.testing.assert_allclose(numpy(layer(x)), expected, rtol=1e-2, atol=3e-2)  # bfloat16 has 8 bits


def test_a_share_of_the_weight(dense):
    """The largest magnitudes, as of SparseDense."""
    x = ops.ones((1, 12))
    assert_close(numpy(SlicedDense.of(dense, 0.1)(x)), numpy(SparseDense.of(dense, 0.1)(x)), **CLOSE)


def test_a_checkpoint(dense, tmp_path):
    layer, other = SlicedDense.of(dense), SlicedDense.of(dense)
    other.weight.set_data(other.weight * 0)
    ms.save_checkpoint(layer, str(tmp_path / "layer.ckpt"))
    ms.load_param_into_net(other, ms.load_checkpoint(str(tmp_path / "layer.ckpt")))
    x = ops.ones((1, 12))
    np.testing.assert_array_equal(numpy(other(x)), numpy(layer(x)))


def test_bad_input(dense):
    with pytest.raises(TypeError, match=r"nn\.Dense, mint\.nn\.Linear or SparseDense, got ReLU"):
        SlicedDense.of(nn.ReLU())
    with pytest.raises(ValueError, match=r"SlicedDense: density must be None for a SparseDense, got 0\.5"):
        SlicedDense.of(SparseDense.of(dense), 0.5)
    with pytest.raises(ValueError, match=r"SlicedDense: bias must have shape \(70,\), got \(3,\)"):
        SlicedDense(dense.weight, ops.zeros(3))
    with pytest.raises(ValueError, match="too large for rows in slices"):
        SlicedDense(Tensor(np.eye(1, 30000, dtype=np.float32)))
