"""Decoders in the style of transformers: the construct takes `**kwargs`, and functions of its module do the work."""

import mindspore as ms
import numpy as np
import pytest
from mindspore import nn, ops

from ms_ascend_ops import optimize
from tests.acceptance import assert_close
from tests.export.engines import other_module
from tests.inputs import draw
from tests.modes import MODES, run
from tests.tensors import numpy, tensor

HEADS, KEY_HEADS, D, HIDDEN, S = 4, 2, 8, 32, 5
SCALE = D**-0.5
OUTPUT = 1e-5  # of values of some units: attention adds up in another order, some ULP of float32


def repeat_kv(x, times):
    batch, heads, length, d = x.shape
    if times == 1:
        return x
    return x[:, :, None, :, :].broadcast_to((batch, heads, times, length, d)).reshape(batch, heads * times, length, d)


def eager(module, query, key, value, mask, scaling, dropout=0.0, **kwargs):
    key, value = repeat_kv(key, module.times), repeat_kv(value, module.times)
    weights = ops.matmul(query, key.swapaxes(2, 3)) * scaling
    if mask is not None:
        mask_of_keys = mask[:, :, :, : key.shape[-2]]
        weights = weights + mask_of_keys
    weights = ops.softmax(weights, -1).to(query.dtype)
    weights = ops.dropout(weights, p=dropout, training=module.training)
    return ops.matmul(weights, value).swapaxes(1, 2), weights


class Attention(nn.Cell):
    def __init__(self, layer, key_heads=KEY_HEADS):
        super().__init__()
        self.layer, self.times = layer, HEADS // key_heads
        self.q_proj = nn.Dense(HIDDEN, HIDDEN)
        self.k_proj, self.v_proj = nn.Dense(HIDDEN, key_heads * D), nn.Dense(HIDDEN, key_heads * D)

    def construct(self, x, position_embeddings: tuple, mask=None, **kwargs):
        shape = (*x.shape[:-1], -1, D)
        query = self.q_proj(x).view(shape).swapaxes(1, 2)
        key = self.k_proj(x).view(shape).swapaxes(1, 2)
        value = self.v_proj(x).view(shape).swapaxes(1, 2)
        query, key = other_module.apply_rotary(query, key, *position_embeddings)
        function = eager
        y, weights = function(self, query, key, value, mask, scaling=SCALE, dropout=0.0, **kwargs)
        return y.reshape(*x.shape[:-1], -1), weights


class ImportedRotary(Attention):
    """The function is a name of the module."""

    def construct(self, x, position_embeddings, mask=None, **kwargs):
        shape = (*x.shape[:-1], -1, D)
        query = self.q_proj(x).view(shape).swapaxes(1, 2)
        key = self.k_proj(x).view(shape).swapaxes(1, 2)
        value = self.v_proj(x).view(shape).swapaxes(1, 2)
        query, key = apply_rotary(query, key, *position_embeddings)
        y, weights = eager(self, query, key, value, mask, SCALE, **kwargs)
        return y.reshape(*x.shape[:-1], -1), weights


apply_rotary = other_module.apply_rotary


class Decoder(nn.Cell):
    """`reads`: the second result is used, which only the whole network shows."""

    def __init__(self, kind=ImportedRotary, reads=False):
        super().__init__()
        self.layers = nn.CellList([kind(0), kind(1, key_heads=HEADS)])
        self.reads = reads

    def construct(self, x, cos, sin, mask=None, output_attentions=False):
        found = ()
        for layer in self.layers:
            y, weights = layer(x, position_embeddings=(cos, sin), mask=mask, output_attentions=output_attentions)
            x = x + y
            if output_attentions or self.reads:
                found = (*found, weights)
        return (x, *found)


@pytest.fixture
def inputs():
    random = np.random.default_rng(0)
    angles = np.tile(random.uniform(0, 6, (1, S, D // 2)), 2)
    mask = np.where(np.tri(S), 0, -1e9)[None, None]
    return [tensor(v, "float32") for v in (draw(random, (2, S, HIDDEN)), np.cos(angles), np.sin(angles), mask)]


def test_attention_and_rotary_embedding(inputs):
    ms.set_seed(0)
    net = Decoder()
    expected = [numpy(net(*inputs)[0]), numpy(net(*inputs[:3])[0])]
    probabilities = [numpy(p) for p in net(*inputs, True)[1:]]
    report = optimize(net, verify=inputs, gradients=True)
    assert report.rolled_back == ""
    assert sorted((e.pattern, e.engine) for e in report.replaced) == [
        *[("attention", "rewrite")] * 2,
        *[("rotary embedding", "rewrite")] * 4,
    ]
    assert report.gradients.relative < 1e-5
    source = type(net.layers[0]).fused_source
    assert "fused.flash_attention" in source
    assert "softmax" not in source
    for mode in MODES[:2]:
        assert_close(numpy(run(mode, net, inputs)[0]), expected[0], atol=OUTPUT)
        # A call without the mask was not shown: it goes to the stock function.
        assert_close(numpy(run(mode, net, inputs[:3])[0]), expected[1], atol=OUTPUT)
    assert net.layers[0](inputs[0], tuple(inputs[1:3]), inputs[3])[1] is None
    for made, p in zip(net(*inputs, True)[1:], probabilities, strict=True):
        assert_close(numpy(made), p, atol=OUTPUT)
    report.restore()
    np.testing.assert_array_equal(numpy(net(*inputs)[0]), expected[0])


def test_probabilities_that_are_read_stay(inputs):
    ms.set_seed(0)
    net = Decoder(reads=True)
    expected = [numpy(v) for v in net(*inputs)]
    report = optimize(net, verify=inputs)
    assert report.rolled_back == ""
    patterns = [e.pattern for e in report.replaced]
    assert "attention" not in patterns
    assert patterns.count("scale + mask + softmax") == 2
    for made, values in zip(net(*inputs), expected, strict=True):
        assert_close(numpy(made), values, atol=OUTPUT)


def test_a_function_of_another_module_stays(inputs):
    """`module.function` is the same for everybody: only names of the construct's own module are replaced."""
    report = optimize(Decoder(Attention), verify=inputs)
    assert [e.pattern for e in report.replaced] == ["attention"] * 2


def test_both_ways_of_calling(inputs):
    ms.set_seed(0)
    net = Decoder()
    expected = [numpy(net(*inputs)[0]), numpy(net(*inputs[:3])[0])]
    optimize(net, verify=[inputs, inputs[:3]])
    assert type(net.layers[0]).fused_source.count("fused.flash_attention") == 1
    assert_close(numpy(net(*inputs)[0]), expected[0], atol=OUTPUT)
    assert_close(numpy(net(*inputs[:3])[0]), expected[1], atol=OUTPUT)


class Training(Decoder):
    """A dropout that there is in training only."""

    def __init__(self):
        super().__init__()
        self.layers = nn.CellList([WithDropout(0)])


class WithDropout(Attention):
    def construct(self, x, position_embeddings, mask=None, **kwargs):
        shape = (*x.shape[:-1], -1, D)
        query, key, value = (f(x).view(shape).swapaxes(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        y, weights = eager(self, query, key, value, mask, SCALE, dropout=0.5 if self.training else 0.0, **kwargs)
        return y.reshape(*x.shape[:-1], -1), weights


def test_dropout_in_training_goes_to_the_stock_function(inputs):
    net = Training()
    optimize(net, verify=inputs)
    assert "fused.flash_attention" in type(net.layers[0]).fused_source
    net.set_train(False)
    np.testing.assert_array_equal(numpy(net(*inputs)[0]), numpy(net(*inputs)[0]))
    net.set_train(True)
    assert np.abs(numpy(net(*inputs)[0]) - numpy(net(*inputs)[0])).max() > 1e-2


class VisionAttention(nn.Cell):
    """Queries of packed images, without a batch."""

    def construct(self, query, key, cos, sin, **kwargs):
        query, key = apply_rotary(query, key, cos, sin)
        return ops.matmul(query.swapaxes(0, 1), key.permute(1, 2, 0))


def test_a_rotary_embedding_without_a_batch(inputs):
    net = VisionAttention()
    random = np.random.default_rng(0)
    query, key = (tensor(draw(random, (S, HEADS, D)), "float32") for _ in range(2))
    calls = [query, key, *(table.reshape(S, D) for table in inputs[1:3])]
    expected = numpy(net(*calls))
    report = optimize(net, verify=calls, gradients=False)
    assert [e.pattern for e in report.replaced] == ["rotary embedding"] * 2
    assert "layout='SND'" in type(net).fused_source
    for mode in ("pynative", "jit"):
        assert_close(numpy(run(mode, net, calls)), expected, atol=OUTPUT)


def test_outputs_that_are_a_dict():
    """As of transformers: they are compared, too."""

    class Named(nn.Cell):
        def __init__(self):
            super().__init__()
            self.gelu = nn.GELU()

        def construct(self, x):
            return {"logits": self.gelu(x)}

    x = tensor(draw(np.random.default_rng(0), (2, 3, 8)), "float32")
    assert 0 < optimize(Named(), verify=[x]).outputs.absolute < 1e-5
    with pytest.raises(TypeError, match="tensors or tuples, got a dict"):
        optimize(Named(), verify=[x], gradients=True)
