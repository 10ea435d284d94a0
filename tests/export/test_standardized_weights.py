"""Weights that are standardized in each call: `layer_norm` over all axes but the first."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from ms_ascend_ops import export_mindir, load, optimize, optimize_mindir
from tests.acceptance import assert_close
from tests.modes import few_modes, run
from tests.tensors import numpy, tensor


def by_method(w):
    """As MindCV's BiT has it."""
    mean, variance = ops.ReduceMean(keep_dims=True)(w, [1, 2, 3]), w.var((1, 2, 3), keepdims=True)
    return (w - mean) / ops.sqrt(variance + 1e-10)


def by_mean(w):
    centred = w - w.mean((-3, -2, -1), keep_dims=True)
    return centred * ops.rsqrt(ops.square(centred).mean((-3, -2, -1), keep_dims=True) + 1e-10)


FORMS = [by_method, by_mean]


def unbiased(w):
    mean, variance = w.mean((1, 2, 3), keep_dims=True), w.var((1, 2, 3), ddof=1, keepdims=True)
    return (w - mean) / ops.sqrt(variance + 1e-10)


def of_other_axes(w):
    mean, variance = w.mean((1, 2, 3), keep_dims=True), w.var((2, 3), keepdims=True)
    return (w - mean) / ops.sqrt(variance + 1e-10)


def leading(w):
    mean, variance = w.mean((0, 1), keep_dims=True), w.var((0, 1), keepdims=True)
    return (w - mean) / ops.sqrt(variance + 1e-10)


def of_everything(w):
    mean, variance = w.mean((0, 1, 2, 3), keep_dims=True), w.var((0, 1, 2, 3), keepdims=True)
    return (w - mean) / ops.sqrt(variance + 1e-10)


class Net(nn.Cell):
    def __init__(self, form):
        super().__init__()
        self.form, self.relu = form, nn.ReLU()
        self.weight = ms.Parameter(tensor(np.random.default_rng(0).normal(2, 3, (6, 4, 3, 3)), "float32"))

    def construct(self, x):
        w = self.form(self.weight)
        return self.relu(ops.conv2d(x, w, pad_mode="pad", padding=1))


@pytest.fixture(scope="module")
def image():
    return tensor(np.random.default_rng(1).normal(size=(2, 4, 7, 5)), "float32")


@pytest.mark.parametrize("form", FORMS)
def test_in_a_network(form, image):
    stock, net = Net(form), Net(form)
    expected, gradient = numpy(stock(image)), numpy(ms.grad(lambda x: stock(x).sum(), None, stock.weight)(image))
    report = optimize(net, verify=[image])
    assert [entry.pattern for entry in report.replaced] == ["LayerNorm"], report
    for mode in few_modes(form, FORMS):
        assert_close(numpy(run(mode, net, (image,))), expected)
    assert_close(numpy(ms.grad(lambda x: net(x).sum(), None, net.weight)(image)), gradient)


@pytest.mark.parametrize("form", FORMS)
def test_in_a_file(form, image, tmp_path):
    stock = Net(form)
    file = export_mindir(stock, image, path=tmp_path / "stock")
    assert [entry.pattern for entry in optimize_mindir(file, tmp_path / "fused.mindir").replaced] == ["LayerNorm"]
    assert_close(numpy(load(tmp_path / "fused.mindir")(image)), numpy(stock(image)))


@pytest.mark.parametrize("form", [unbiased, of_other_axes, leading, of_everything])
def test_others_stay(form, image):
    assert not optimize(Net(form), verify=[image]).replaced
