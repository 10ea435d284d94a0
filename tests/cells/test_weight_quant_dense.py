import math

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import WeightQuantDense
from ms_ascend_ops.quantization import dequantize_weight
from tests.acceptance import assert_close
from tests.modes import MODES, run
from tests.reference.weight_quant_matmul import rounded
from tests.tensors import numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("bits", "group", "symmetric"), [(4, 32, False), (8, 0, True), (4, 64, True), (8, 64, False)])
def test_a_dense_layer_is_rounded(mode, bits, group, symmetric):
    rng = np.random.default_rng(0)
    dense = nn.Dense(128, 24)
    dense.weight.set_data(tensor(rng.normal(size=(24, 128)), "float32"))
    dense.bias.set_data(tensor(rng.normal(size=24), "float32"))
    layer = WeightQuantDense.from_dense(dense, bits, group, symmetric)
    x = tensor(rng.normal(size=(3, 128)), "float32")
    offset = None if symmetric else layer.offset.asnumpy()
    weight = dequantize_weight(layer.weight.asnumpy(), layer.scale.asnumpy(), offset, 128)
    expected = numpy(x) @ weight.T.astype(np.float64) + dense.bias.asnumpy()
    # Sums of 128 products of a few units in float32, whose terms cancel.
    assert_close(numpy(run(mode, layer, (x,))), expected, rtol=1e-5, atol=1e-5)
    step = np.repeat(layer.scale.asnumpy().astype(np.float32), group or 128, axis=1)
    assert (np.abs(weight - dense.weight.asnumpy()) <= 0.51 * step).all()


ACTIVATIONS = {
    "relu": ("relu", lambda y: np.maximum(y, 0)),
    "silu": ("silu", lambda y: y / (1 + np.exp(-y))),
    "gelu": (nn.GELU(approximate=False), lambda y: y * 0.5 * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))),
    "gelu_tanh": ("gelu", lambda y: y * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(mode, activation):
    """That of the dense layer, and the same by name."""
    rng = np.random.default_rng(0)
    theirs, formula = ACTIVATIONS[activation]
    dense = nn.Dense(64, 24, activation=theirs)
    dense.weight.set_data(tensor(rng.normal(size=(24, 64)) / 4, "float32"))
    layer = WeightQuantDense.from_dense(dense)
    assert f"activation='{activation}'" in repr(layer)
    x = tensor(rng.normal(size=(3, 64)), "float32")
    weight = dequantize_weight(layer.weight.asnumpy(), layer.scale.asnumpy(), layer.offset.asnumpy(), 64)
    expected = formula(numpy(x) @ weight.T.astype(np.float64) + dense.bias.asnumpy())
    assert_close(numpy(run(mode, layer, (x,))), expected, rtol=1e-5, atol=1e-5)
    named = WeightQuantDense(64, 24, activation=activation)
    for parameter, value in zip(named.get_parameters(), layer.get_parameters(), strict=True):
        parameter.set_data(value)
    np.testing.assert_array_equal(named(x).asnumpy(), layer(x).asnumpy())


@pytest.mark.parametrize("mode", MODES)
def test_activations_are_rounded(mode):
    rng = np.random.default_rng(0)
    dense = nn.Dense(128, 24, has_bias=False)
    dense.weight.set_data(tensor(rng.normal(size=(24, 128)), "float32"))
    layer = WeightQuantDense.from_dense(dense, symmetric=True, quantize_x="int8")
    x = tensor(rng.normal(size=(3, 128)), "float32")
    weight = dequantize_weight(layer.weight.asnumpy(), layer.scale.asnumpy(), None, 128)
    expected = rounded(numpy(x), 4) @ weight.T.astype(np.float64)
    # Sums over groups are exact; 4 of them are scaled and added in float32, of numbers up to 30.
    assert_close(numpy(run(mode, layer, (x,))), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="WeightQuantDense: quantize_x must be"):
        WeightQuantDense(64, 24, quantize_x="int4")


def test_nothing_is_trained():
    assert not WeightQuantDense(64, 8).trainable_params()
    assert sorted(p.name for p in WeightQuantDense(64, 8).get_parameters()) == ["bias", "offset", "scale", "weight"]


def test_other_dtypes_of_the_dense_layer():
    layer = WeightQuantDense.from_dense(nn.Dense(64, 8, has_bias=False).to_float(ms.float16))
    assert layer.bias is None


def test_bad_arguments():
    with pytest.raises(ValueError, match="WeightQuantDense: in_channels must be an int of at least 1, got 0"):
        WeightQuantDense(0, 3)
    with pytest.raises(ValueError, match="quantize_weight: group_size must be 0, or a multiple of 32"):
        WeightQuantDense(64, 3, group_size=48)
    with pytest.raises(ValueError, match=r"WeightQuantDense: activation must be 'none', .*got 'tanh'"):
        WeightQuantDense(64, 3, activation="tanh")
    with pytest.raises(ValueError, match="the activation of dense must be ReLU, GELU or SiLU, got Tanh"):
        WeightQuantDense.from_dense(nn.Dense(64, 8, activation="tanh"))
    with pytest.raises(TypeError, match=r"dense must be an nn.Dense, got Conv2d"):
        WeightQuantDense.from_dense(nn.Conv2d(1, 1, 1))
