import mindspore as ms
import numpy as np
import pytest

from ms_ascend_ops import MoEFeedForward, QuantMoEFeedForward
from tests.cells import test_moe_feed_forward as experts
from tests.modes import MODES, run
from tests.reference import moe_gating_top_k as gating
from tests.tensors import numpy, tensor

HIDDEN = experts.SIZES[0]


def rounded(x):
    """To 255 numbers a row, as floats."""
    scale = np.abs(x).max(-1, keepdims=True) / 127
    return np.round(x / scale) * scale


def golden(x, layer, **attributes):
    """Expert by expert in float64, with what the layer has rounded."""
    tokens, router = x.reshape(-1, HIDDEN), numpy(layer.router_weight)
    gate, up, down = (
        numpy(getattr(layer, f"{name}_weight")) * numpy(getattr(layer, f"{name}_scale"))[..., None]
        for name in ("gate", "up", "down")
    )
    weights, chosen = gating.forward(tokens @ router.T, None, **attributes)
    y = np.zeros(tokens.shape)
    for token, row in enumerate(rounded(tokens)):
        for weight, expert in zip(weights[token], chosen[token], strict=True):
            gated = gate[expert] @ row
            inner = gated / (1 + np.exp(-gated)) * (up[expert] @ row)
            y[token] += weight * (down[expert] @ rounded(inner))
    return y.reshape(x.shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("attributes", experts.ATTRIBUTES, ids=str)
def test_forward(mode, attributes):
    exact = experts.layer(**attributes)
    net = QuantMoEFeedForward.from_layer(exact)
    x = tensor(np.random.default_rng(1).normal(size=(3, 7, HIDDEN)), "float32")
    y, logits = run(mode, net, (x,))
    # float32 may round a number in the middle of two to the other one: one of 20 terms by a 127th of the largest.
    np.testing.assert_allclose(numpy(y), golden(numpy(x), net, **attributes), rtol=1e-4, atol=2e-3)
    theirs, their_logits = (numpy(value) for value in exact(x))
    np.testing.assert_array_equal(numpy(logits), their_logits)
    assert 0 < np.abs(numpy(y) - theirs).max() < 0.03 * np.abs(theirs).max()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    exact = experts.layer(dtype, k=2)
    net = QuantMoEFeedForward.from_layer(exact)
    x = tensor(np.random.default_rng(2).normal(size=(30, HIDDEN)), dtype)
    y, theirs = net(x)[0], numpy(exact(x)[0])
    assert y.dtype == x.dtype
    assert np.abs(numpy(y) - theirs).max() < 0.05 * np.abs(theirs).max()


def test_all_tokens_at_one_expert():
    exact = experts.layer(k=1, has_bias=True)
    exact.router_bias.set_data(tensor(np.eye(8)[5] * 100, "float32"))
    net = QuantMoEFeedForward.from_layer(exact)
    x = tensor(np.random.default_rng(4).normal(size=(50, HIDDEN)), "float32")
    y, theirs = numpy(net(x)[0]), numpy(exact(x)[0])
    assert np.abs(y - theirs).max() < 0.03 * np.abs(theirs).max()


def test_all_blocks_of_a_network(tmp_path):
    """Weights of 8 bits have their own names, and come back from a checkpoint."""
    net, other = experts.Network(), experts.Network()
    x = tensor(np.random.default_rng(6).normal(size=(3, 5, HIDDEN)), "float32")
    expected = numpy(net(x))
    assert QuantMoEFeedForward.replace(net) == ["layers.1", "last"]
    y = numpy(net(x))
    assert 0 < np.abs(y - expected).max() < 0.1 * np.abs(expected).max()
    names = [p.name for p in net.get_parameters()]
    assert len(set(names)) == len(names)
    assert {"layers.1.gate_weight", "layers.1.gate_scale", "last.router_weight"} <= set(names)
    ms.save_checkpoint(net, str(tmp_path / "net.ckpt"))
    QuantMoEFeedForward.replace(other)
    assert ms.load_param_into_net(other, ms.load_checkpoint(str(tmp_path / "net.ckpt"))) == ([], [])
    np.testing.assert_array_equal(numpy(other(x)), y)


def test_it_is_for_inference():
    net = QuantMoEFeedForward.from_layer(experts.layer(k=2))
    assert not net.trainable_params()
    x = tensor(np.ones((2, HIDDEN)), "float32")
    with pytest.raises(RuntimeError, match="has no gradient: it is for inference"):
        ms.grad(lambda x: net(x)[0].sum())(x)
    with pytest.raises(TypeError, match=r"layer must be a MoEFeedForward, got QuantMoEFeedForward"):
        QuantMoEFeedForward.from_layer(net)
    assert isinstance(net, MoEFeedForward)
