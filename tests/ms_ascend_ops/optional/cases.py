"""What test_optional.py runs in a process of its own, whose kernel library has the operator `affine` and no other."""

from pathlib import Path

import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, nn

from ms_ascend_ops import export_mindir, load, registry
from ms_ascend_ops.definitions.inference import complete_shapes, infer_shapes, infer_types
from ms_ascend_ops.library import native
from tests.ms_ascend_ops.optional.affine import affine

registry._DEFINITIONS = Path(__file__).parent
for cached in (registry.names, registry.op_spec, registry.signature):
    cached.cache_clear()
GIVEN = [(False, False), (True, False), (False, True), (True, True)]
SHAPE = (3, 5, 70)


@pytest.fixture(autouse=True)
def _pynative():
    yield
    ms.set_context(mode=ms.PYNATIVE_MODE)


def arrays(given, shape=SHAPE, dtype=np.float32):
    rng = np.random.default_rng(7)
    x, scale, shift = (rng.normal(size=shape).astype(t) for t in (dtype, np.float32, dtype))
    return x, scale if given[0] else None, shift if given[1] else None


def tensors(arrays):
    return [None if array is None else Tensor(array) for array in arrays]


def expected(x, scale, shift, factor=1.0):
    y = factor * x.astype(np.float64)
    y = y if scale is None else y * scale
    return y if shift is None else y + shift


def close(actual, wanted, dtype=np.float32):
    actual = actual if isinstance(actual, np.ndarray) else actual.asnumpy()
    assert actual.dtype == dtype
    # Up to three roundings, of values up to about 4, of which half an ULP each.
    tolerance = 2 * np.finfo(dtype).eps
    np.testing.assert_allclose(actual, wanted, rtol=tolerance, atol=tolerance)


class Network(nn.Cell):
    """Some of the inputs, which are no arguments where they are absent."""

    def __init__(self, given):
        super().__init__()
        self.given = given

    def construct(self, x, *others):
        scale = others[0] if self.given[0] else None
        shift = others[-1] if self.given[1] else None
        return affine(x, scale, shift, 2.0)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_without_mindspore(given, dtype):
    inputs = arrays(given, dtype=dtype)
    y = np.full(SHAPE, np.nan, dtype)
    native().launch("affine", inputs, [y], {"factor": 2.0})
    close(y, expected(*inputs, 2.0), dtype)
    shapes = [None if array is None else array.shape for array in inputs]
    dtypes = [None if array is None else array.dtype.name for array in inputs]
    tiling = native().tiling("affine", shapes, dtypes)
    assert (tiling["hasScale"], tiling["hasShift"]) == given
    signature = registry.signature("affine")
    assert infer_shapes(signature, shapes, {}) == [SHAPE]
    assert infer_types(signature, dtypes) == [np.dtype(dtype).name]
    assert complete_shapes(signature, [SHAPE], {}) == [SHAPE, None, None]


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_modes(given, mode):
    ms.set_context(mode=mode)
    inputs = arrays(given)
    present = [tensor for tensor in tensors(inputs) if tensor is not None]
    close(Network(given)(*present), expected(*inputs, 2.0))
    if mode == ms.PYNATIVE_MODE:
        close(affine(*tensors(inputs), 2.0), expected(*inputs, 2.0))


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("mode", [ms.PYNATIVE_MODE, ms.GRAPH_MODE])
def test_gradients(given, mode):
    ms.set_context(mode=mode)
    x, scale, shift = inputs = arrays(given)
    present = [tensor for tensor in tensors(inputs) if tensor is not None]
    gradients = ms.grad(Network(given), tuple(range(len(present))))(*present)
    gradients = list(gradients if isinstance(gradients, tuple) else (gradients,))
    close(gradients.pop(0), np.broadcast_to(2.0 if scale is None else 2.0 * scale.astype(np.float64), SHAPE))
    if scale is not None:
        close(gradients.pop(0), 2.0 * x.astype(np.float64))
    if shift is not None:
        close(gradients.pop(0), np.ones(SHAPE))


@pytest.mark.parametrize("given", GIVEN)
def test_dynamic_shapes(given):
    ms.set_context(mode=ms.GRAPH_MODE)
    network = Network(given)
    network.set_inputs(*[Tensor(shape=(None, None, 70), dtype=ms.float32)] * (1 + sum(given)))
    for shape in ((3, 5, 70), (1, 2, 70), (3, 5, 70)):
        inputs = arrays(given, shape)
        close(network(*[t for t in tensors(inputs) if t is not None]), expected(*inputs, 2.0))


@pytest.mark.parametrize("given", GIVEN)
def test_mindir(given, tmp_path):
    inputs = arrays(given)
    present = [tensor for tensor in tensors(inputs) if tensor is not None]
    path = export_mindir(Network(given), *present, path=str(tmp_path / "affine"))
    close(load(path)(*[array for array in inputs if array is not None]), expected(*inputs, 2.0))


def test_messages():
    x, scale, shift = tensors(arrays((True, True)))
    with pytest.raises(TypeError, match=r"^affine: x must be a Tensor, got NoneType$"):
        affine(None, scale)
    with pytest.raises(TypeError, match=r"^affine: shift must be a Tensor, got int$"):
        affine(x, scale, 3)
    with pytest.raises(TypeError, match=r"^affine: scale.dtype must be float32, got float16$"):
        affine(x, scale.astype(ms.float16))
    with pytest.raises(ValueError, match=r"^affine: shift.shape must equal x.shape \(3, 5, 70\), got \(5, 70\)$"):
        affine(x, None, shift[0])
    with pytest.raises(TypeError, match=r"^affine: x must be a tensor, and is absent$"):
        native().launch("affine", [None, None, None], [np.zeros(2, np.float32)])
