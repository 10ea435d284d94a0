import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import WeightQuantDense
from ms_ascend_ops.quantization import dequantize_weight
from tests.modes import MODES, run
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
    np.testing.assert_allclose(numpy(run(mode, layer, (x,))), expected, rtol=1e-5, atol=1e-4)
    step = np.repeat(layer.scale.asnumpy().astype(np.float32), group or 128, axis=1)
    assert (np.abs(weight - dense.weight.asnumpy()) <= 0.51 * step).all()


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
    with pytest.raises(TypeError, match=r"dense must be an nn.Dense, got Conv2d"):
        WeightQuantDense.from_dense(nn.Conv2d(1, 1, 1))
