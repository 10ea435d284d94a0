import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops import ops
from tests.acceptance import assert_accurate
from tests.dtypes import FLOATS
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import cross_entropy as reference
from tests.tensors import dtype_name, numpy, tensor


def inputs(dtype, labels_dtype=np.int32, shape=(4, 6, 37)):
    rng = np.random.default_rng(0)
    labels = np.where(rng.random(shape[:-1]) < 0.3, -100, rng.integers(0, shape[-1], shape[:-1]))
    return tensor(draw(rng, shape), dtype), Tensor(labels.astype(labels_dtype))


def golden_of(logits, labels, reduction):
    """Value and gradient."""
    exact = numpy(logits), labels.asnumpy()
    loss, kept = reference.forward(*exact)[0], np.sum(exact[1] != -100)
    value = {"none": loss, "sum": loss.sum(), "mean": loss.sum() / kept}[reduction]
    dloss = np.full(loss.shape, 1.0 / kept if reduction == "mean" else 1.0)
    return value, reference.backward(dloss, *exact), reference.backward_terms(dloss, *exact)


def total(logits, labels, reduction):
    return ops.cross_entropy(logits, labels, -100, reduction).sum()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_values(mode, reduction, dtype):
    logits, labels = inputs(dtype)
    loss = run(mode, ops.cross_entropy, (logits, labels), -100, reduction)
    dlogits = run(mode, ms.grad(total), (logits, labels), reduction)
    assert (dtype_name(loss), dtype_name(dlogits)) == ("float32", dtype)
    value, gradient, terms = golden_of(logits, labels, reduction)
    assert_accurate(numpy(loss), value, "float32")
    assert_accurate(numpy(dlogits), gradient, dtype, terms)


@pytest.mark.parametrize("mode", MODES)
def test_labels_of_64_bits(mode):
    logits, labels = inputs("float32", np.int64)
    loss = run(mode, ops.cross_entropy, (logits, labels))
    assert_accurate(numpy(loss), golden_of(logits, labels, "mean")[0], "float32")


@pytest.mark.parametrize("mode", MODES)
def test_all_rows_ignored(mode):
    """As stock MindSpore has it: the mean over nothing is NaN, the sum 0."""
    logits, labels = inputs("float32", shape=(4, 8))
    labels = stock.full_like(labels, -100)
    assert np.isnan(numpy(stock.cross_entropy(logits, labels)))
    assert np.isnan(numpy(run(mode, ops.cross_entropy, (logits, labels))))
    assert numpy(run(mode, ops.cross_entropy, (logits, labels), -100, "sum")) == 0
