"""Operators by their names of the graph engine: how their calls are read, and what their own code computes."""

import numpy as np
import pytest

from ms_ascend_ops.device.aclnn_table import rows
from ms_ascend_ops.device.operators import run
from tests.acceptance import assert_close
from tests.device.calls import Memory, call, execute_by_name
from tests.device.operator_cases import by_name, gradients, in_place_by_name


@pytest.fixture
def draw():
    random = np.random.default_rng(0)
    return lambda *shape: random.normal(size=shape).astype(np.float32)


def _run(operator, inputs, *shapes, dtype=np.float32, **attributes):
    outputs = [np.full(shape, 77, dtype) for shape in shapes]
    execute_by_name(operator, inputs, outputs, **attributes)
    return outputs if len(outputs) > 1 else outputs[0]


def _close(found, golden):
    assert_close(found, golden, rtol=2e-5, atol=2e-5)


CASES = by_name.CASES | in_place_by_name.CASES
# Those with a test of their own, in this file, or of a network that calls them (package_cases.py).
OWN_TESTS = {
    *("AddN", "AllFinite", "ApplyMomentum", "AsinhGrad", "AvgPool", "BNTrainingReduce"),
    *("BNTrainingReduceGrad", "BNTrainingUpdate", "BNTrainingUpdateGrad", "BiasAdd", "BiasAddGrad"),
    *("ConcatD", "Conv2D", "Conv2DBackpropFilter", "Conv2DBackpropInput", "DropOutGenMask", "LayerNorm"),
    *("LayerNormGrad", "MaxPool", "MaxPoolGrad", "ReciprocalGrad", "ReduceSum", "RsqrtGrad", "SigmoidGrad"),
    *("SparseSoftmaxCrossEntropyWithLogits", "SqrtGrad", "StridedSlice", "StridedSliceGrad", "TanhGrad"),
    *("Slice", "TopKV2"),
}


def test_every_row_is_tested():
    assert sorted({*CASES, *OWN_TESTS}) == sorted(name for name in rows() if not name.startswith("aclnn"))


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_row(name, draw):
    inputs, attributes, goldens, *changed = CASES[name](draw)
    outputs = [np.zeros(np.shape(golden), _stored(golden)) for golden in goldens]
    execute_by_name(name, inputs, outputs, **attributes)
    pairs = [*zip(outputs, goldens, strict=True)]
    pairs += [(inputs[place], golden) for place, golden in changed[0].items()] if changed else []
    for found, golden in pairs:
        _close(found, golden)


def _stored(golden):
    return np.float32 if np.asarray(golden).dtype == np.float64 else golden.dtype


def test_dropout_keeps_the_share_that_is_asked_for():
    (mask,) = outputs = [np.zeros(1 << 13, np.uint8)]
    execute_by_name("DropOutGenMask", [np.array([1 << 16]), np.array(0.75, np.float32)], outputs, seed=1, seed2=2)
    assert abs(np.unpackbits(mask).mean() - 0.75) < 0.02


def test_attributes_go_by_their_names(draw):
    x = draw(2, 3, 4)
    bias, by_channel = np.arange(4, dtype=np.float32), np.arange(3, dtype=np.float32)
    _close(_run("BiasAdd", [x, bias], x.shape, data_format="NHWC"), x + bias)
    _close(_run("BiasAdd", [x, by_channel], x.shape, data_format="NCHW"), x + by_channel[:, None])
    _close(_run("BiasAddGrad", [x], (3,), data_format="NCHW", unknown=1), x.sum((0, 2)))


def test_an_input_may_be_on_the_host(draw):
    x, axes = draw(2, 3, 4), np.array([1], np.int64)
    on_host = (Memory(np.zeros(1, np.int64)), axes.tobytes())
    _close(_run("ReduceSum", [x, on_host], (2, 1, 4), keep_dims=1), x.sum(1, keepdims=True))


def test_absent_inputs_are_none(draw):
    x, weight = draw(1, 2, 4, 4), draw(3, 2, 3, 3)
    y = _run("Conv2D", [x, weight, None], (1, 3, 2, 2), strides=[1, 1, 1, 1], pads=[0] * 4, dilations=[1] * 4, groups=1)
    windows = [x[0, :, i : i + 3, j : j + 3] for i in range(2) for j in range(2)]
    _close(y.reshape(3, 4), [[(window * one).sum() for window in windows] for one in weight])


def test_what_is_changed_in_place_may_be_an_output_too(draw):
    var, accum, grad = draw(5), draw(5), draw(5)
    lr, momentum, out = np.array(0.1, np.float32), np.array(0.9, np.float32), np.empty(5, np.float32)
    new = accum * 0.9 + grad
    golden = var - 0.1 * new
    execute_by_name("ApplyMomentum", [var, accum, lr, grad, momentum], [out], use_nesterov=0)
    _close(accum, new)
    _close(var, golden)
    _close(out, golden)


def test_lists_of_tensors(draw):
    parts = [draw(2, 3) for _ in range(3)]
    _close(_run("AddN", parts, (2, 3), N=3), parts[0] + parts[1] + parts[2])
    _close(_run("ConcatD", parts, (6, 3), concat_dim=0, N=3), np.concatenate(parts))


def test_parts_of_different_sizes(draw):
    x, first, second = draw(2, 6), np.empty((2, 1), np.float32), np.empty((2, 5), np.float32)
    execute_by_name("SplitV", [x, np.array([1, 5]), np.array(1)], [first, second], num_split=2)
    _close(np.concatenate((first, second), 1), x)
    parts = [np.empty(6, np.float32) for _ in range(2)]
    execute_by_name("Unpack", [x], parts, axis=0, num=2)
    _close(np.stack(parts), x)


def test_layer_norm(draw):
    x, gamma, beta, dy = draw(3, 5), draw(5), draw(5), draw(3, 5)

    def forward(x, gamma, beta):
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True)) * gamma + beta

    shapes = (3, 5), (3, 1), (3, 1)
    y, mean, variance = _run("LayerNorm", [x, gamma, beta], *shapes, begin_norm_axis=1, epsilon=0.0)
    _close(y, forward(x, gamma, beta))
    found = _run("LayerNormGrad", [dy, x, variance, mean, gamma], (3, 5), (5,), (5,))
    exact = [one.astype(np.float64) for one in (x, gamma, beta)]
    for value, golden in zip(found, gradients(forward, exact, dy), strict=True):
        _close(value, golden)


def test_batch_norm(draw):
    x, scale, offset, dy = draw(2, 3, 4), draw(3), draw(3), draw(2, 3, 4)
    total, squares = _run("BNTrainingReduce", [x], (1, 3, 1), (1, 3, 1))
    running = np.zeros(3, np.float32), np.ones(3, np.float32)
    inputs = [x, total, squares, scale, offset, *running]
    outputs = _run("BNTrainingUpdate", inputs, x.shape, *[(3,)] * 4, factor=0.25, epsilon=1e-3)

    def forward(x, scale, offset):
        mean, variance = x.mean((0, 2)), x.var((0, 2))
        return (x - mean[:, None]) / np.sqrt(variance + 1e-3)[:, None] * scale[:, None] + offset[:, None]

    exact = [one.astype(np.float64) for one in (x, scale, offset)]
    _close(outputs[0], forward(*exact))
    _close(running[0], 0.25 * x.mean((0, 2)))
    _close(outputs[1], running[0])
    _close(outputs[3], x.mean((0, 2)))
    mean, variance = outputs[3:]
    dscale, doffset = _run("BNTrainingUpdateGrad", [dy, x, mean, variance], (3,), (3,), epsilon=1e-3)
    dx = _run("BNTrainingReduceGrad", [dy, x, dscale, doffset, scale, mean, variance], x.shape, epsilon=1e-3)
    for found, golden in zip((dx, dscale, doffset), gradients(forward, exact, dy), strict=True):
        _close(found, golden)


def test_convolution_gradients(draw):
    x, weight, dy = draw(1, 2, 5, 5), draw(3, 2, 3, 3), draw(1, 3, 3, 3)
    moves = {"strides": [1, 1, 2, 2], "pads": [1, 1, 1, 1], "dilations": [1] * 4, "groups": 1}
    size = np.zeros(4, np.int32)

    def forward(x, weight):
        wide = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = [[wide[0, :, i : i + 3, j : j + 3] for j in (0, 2, 4)] for i in (0, 2, 4)]
        return np.array([[[[(w * one).sum() for w in row] for row in windows] for one in weight]])

    dx, dweight = gradients(forward, [x.astype(np.float64), weight.astype(np.float64)], dy)
    _close(_run("Conv2DBackpropInput", [size, weight, dy], x.shape, **moves), dx)
    _close(_run("Conv2DBackpropFilter", [x, size, dy], weight.shape, **moves), dweight)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_pooling(draw, padding):
    x = draw(1, 1, 5, 5)
    area = 2 if padding == "VALID" else 3
    moves = {"ksize": [1, 1, 2, 2], "strides": [1, 1, 2, 2], "padding": padding}
    windows = [[x[0, 0, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] for j in range(area)] for i in range(area)]
    y = _run("MaxPool", [x], (1, 1, area, area), **moves)
    _close(y[0, 0], [[w.max() for w in row] for row in windows])
    _close(_run("AvgPool", [x], y.shape, **moves)[0, 0], [[w.mean() for w in row] for row in windows])
    dx = _run("MaxPoolGrad", [x, y, np.ones_like(y)], x.shape, **moves)
    _close(dx, np.isin(x, y))


def test_slices(draw):
    x = draw(4, 5)
    ends = [np.array(one, np.int64) for one in ([1, 0], [4, 4], [2, 1])]
    masks = {"begin_mask": 2, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 0}
    _close(_run("StridedSlice", [x, *ends], (2, 4), **masks), x[1:4:2, :4])
    offsets, size = (np.array(one, np.int64) for one in ([1, 2], [2, -1]))
    _close(_run("Slice", [x, offsets, size], (2, 3)), x[1:3, 2:])
    dy = draw(2, 4)
    golden = np.zeros((4, 5))
    golden[1:4:2, :4] = dy
    _close(_run("StridedSliceGrad", [np.array([4, 5]), *ends, dy], (4, 5), **masks), golden)


def test_losses_and_orders(draw):
    x, labels = draw(3, 4), np.array([1, 0, 3], np.int32)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    loss, dx = _run("SparseSoftmaxCrossEntropyWithLogits", [x, labels], (3,), (3, 4))
    _close(loss, -logs[range(3), labels])
    _close(dx, np.exp(logs) - np.eye(4)[labels])
    values, places = np.zeros((3, 2), np.float32), np.zeros((3, 2), np.int32)
    execute_by_name("TopKV2", [x, np.array(2, np.int32)], [values, places], sorted=1, dim=-1, largest=1)
    _close(values, -np.sort(-x, 1)[:, :2])
    _close(np.take_along_axis(x, places, 1), values)


@pytest.mark.parametrize(
    ("operator", "function"),
    [
        ("SqrtGrad", lambda y: 0.5 / y),
        ("RsqrtGrad", lambda y: -0.5 * y**3),
        ("ReciprocalGrad", lambda y: -(y**2)),
        ("TanhGrad", lambda y: 1 - y**2),
        ("SigmoidGrad", lambda y: y * (1 - y)),
        ("AsinhGrad", lambda y: 1 / np.cosh(y)),
    ],
)
def test_gradients_by_the_result(draw, operator, function):
    y, dy = abs(draw(5)) + 0.1, draw(5)
    _close(_run(operator, [y, dy], (5,)), dy * function(y.astype(np.float64)))


def test_what_is_missing_says_its_name():
    assert "GridGenerator" not in rows()
    assert "aclop:GridGenerator is not emulated" in run(call("aclop:GridGenerator", 0, 0))
    assert "aclnnGelu: " in run(call("aclnnGelu", np.zeros(3, np.float32), np.zeros(4, np.float32)))
