import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor

from ms_ascend_ops import ops
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import dynamic_quant as reference
from tests.tensors import dtype_name, numpy, tensor


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("smooth", [False, True])
def test_forward(mode, dtype, smooth):
    rng = np.random.default_rng(0)
    inputs = [tensor(draw(rng, (2, 3, 40)), dtype)]
    if smooth:
        inputs.append(tensor(rng.uniform(0.5, 2, 40), dtype))
    y, scale = run(mode, ops.dynamic_quant, inputs)
    assert (dtype_name(y), dtype_name(scale)) == ("int8", "float32")
    exact = [numpy(value) for value in inputs]
    _, golden = reference.forward(*exact)
    np.testing.assert_allclose(numpy(scale), golden, rtol=3e-7)
    # Rounded to nearest, up to a float32 quotient.
    assert (np.abs(numpy(y) - reference.smoothed(*exact) / golden[..., None]) <= 0.5 + 1e-4).all()


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"^dynamic_quant: smooth_scales.shape\[0\] must equal x.shape\[-1\]"):
        ops.dynamic_quant(Tensor(np.zeros((2, 8)), ms.float32), Tensor(np.zeros(7), ms.float32))
    with pytest.raises(ValueError, match=r"^dynamic_quant: x.shape\[-1\] must be "):
        ops.dynamic_quant(Tensor(np.zeros((2, 0)), ms.float32))
    with pytest.raises(TypeError, match=r"^dynamic_quant: x.dtype must be float16, bfloat16 or float32, got int32"):
        ops.dynamic_quant(Tensor(np.zeros((2, 8)), ms.int32))


def test_it_has_no_gradient():
    x = Tensor(np.ones((2, 8)), ms.float32)
    with pytest.raises(RuntimeError, match="dynamic_quant: it has no gradient"):
        ms.grad(lambda x: ops.dynamic_quant(x)[1].sum())(x)
