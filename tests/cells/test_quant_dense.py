import mindspore as ms
import numpy as np
import pytest
from mindspore import nn

from ms_ascend_ops import QuantDense, ops
from tests.acceptance import assert_close
from tests.modes import MODES, run
from tests.reference import quant_matmul
from tests.tensors import dtype_name, numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_dense_layer_is_rounded(mode, dtype):
    rng = np.random.default_rng(0)
    dense = nn.Dense(128, 24)
    dense.weight.set_data(tensor(rng.normal(size=(24, 128)), "float32"))
    dense.bias.set_data(tensor(rng.normal(size=24), "float32"))
    layer = QuantDense.from_dense(dense, getattr(ms, dtype))
    x = tensor(rng.normal(size=(3, 5, 128)), dtype)
    y = run(mode, layer, (x,))
    assert dtype_name(y) == dtype
    numbers, scale = (numpy(value) for value in ops.dynamic_quant(x))  # has its own tests
    weight, weight_scale = numpy(layer.weight), numpy(layer.scale)
    expected = quant_matmul.forward(numbers, weight, weight_scale, scale, numpy(layer.bias))
    tolerance = {"float32": 1e-5, "float16": 2**-10, "bfloat16": 2**-7}[dtype]
    assert_close(numpy(y), expected, rtol=tolerance, atol=1e-5)
    step = weight_scale[:, None]
    assert (np.abs(weight * step - numpy(dense.weight)) <= 0.51 * step).all()


def test_nothing_is_trained():
    assert not QuantDense(64, 8).trainable_params()
    assert sorted(p.name for p in QuantDense(64, 8).get_parameters()) == ["bias", "scale", "weight"]


def test_bad_arguments():
    with pytest.raises(ValueError, match="QuantDense: in_channels must be an int of at least 1, got 0"):
        QuantDense(0, 3)
    with pytest.raises(TypeError, match="QuantDense: dtype must be float16, bfloat16 or float32, got Int32"):
        QuantDense(4, 3, dtype=ms.int32)
    with pytest.raises(TypeError, match=r"dense must be an nn.Dense, got Conv2d"):
        QuantDense.from_dense(nn.Conv2d(1, 1, 1))
