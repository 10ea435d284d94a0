import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn, ops

from ms_ascend_ops import Conv2d, Conv2dGroupNorm, GroupNorm
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.reference import conv2d
from tests.reference import conv2d_group_norm as reference
from tests.tensors import numpy, tensor

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("norms", [nn, mint.nn])
def test_of_two_layers_of_mindspore(norms):
    convolution, norm = nn.Conv2d(4, 6, 3, has_bias=True), norms.GroupNorm(3, 6, 1e-3)
    convolution.weight.name = "block.conv.weight"
    names = [parameter.name for parameter in norm.get_parameters()]
    rng = np.random.default_rng(0)
    for parameter in norm.get_parameters():
        parameter.set_data(tensor(draw(rng, 6), "float32"))
    layer = Conv2dGroupNorm.of(convolution, norm, activation="silu")
    stock = [*convolution.get_parameters(), *norm.get_parameters()]
    assert all(mine is theirs for mine, theirs in zip(layer.get_parameters(), stock, strict=True))
    assert [parameter.name for parameter in stock] == ["block.conv.weight", "bias", *names]
    x, shift = (tensor(draw(rng, shape), "float32") for shape in ((2, 4, 9, 8), (2, 6)))
    theirs = ops.silu(norm(convolution(x) + shift[:, :, None, None]))
    assert_close(numpy(layer(x, shift)), numpy(theirs), **CLOSE)
    assert_close(numpy(ms.jit(layer.construct)(x, shift)), numpy(theirs), **CLOSE)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_all_that_is_added(data_format):
    last, rng = data_format == "NHWC", np.random.default_rng(0)
    layer = Conv2dGroupNorm(
        4, 6, (3, 2), 2, (2, 1), has_bias=True, epsilon=1e-3, data_format=data_format, activation="relu", with_z=True
    )
    x, residual = (
        np.moveaxis(values, 1, -1) if last else values for values in (draw(rng, (2, 4, 9, 8)), draw(rng, (2, 6, 5, 8)))
    )
    shift = draw(rng, (2, 6))
    a = conv2d.attributes((2, 1), (1, 1, 0, 1), data_format=data_format)
    c, n = layer.convolution, layer.norm
    parameters = [numpy(parameter) for parameter in (c.weight, n.gamma, n.beta, c.bias)]
    golden = reference.forward(x, *parameters, shift, residual, **a, num_groups=2, epsilon=1e-3, activation="relu")
    for mine, exact in zip(layer(*(tensor(v, "float32") for v in (x, shift, residual))), golden[:2], strict=True):
        assert_close(numpy(mine), exact, **CLOSE)


def test_mixed_precision():
    """A norm keeps its float32 where the convolution becomes float16."""
    layer = Conv2dGroupNorm.of(nn.Conv2d(4, 6, 3, has_bias=True).to_float(ms.float16), nn.GroupNorm(3, 6))
    rng = np.random.default_rng(0)
    x = draw(rng, (2, 4, 9, 8))
    half = layer(tensor(x, "float16"))
    assert half.dtype == ms.float16
    np.testing.assert_allclose(numpy(half), numpy(layer(tensor(x, "float32"))), rtol=0.02, atol=0.02)
    layer.convolution.weight.set_dtype(ms.float16)
    layer.convolution.bias.set_dtype(ms.float16)
    np.testing.assert_allclose(numpy(layer(tensor(x, "float16"))), numpy(half), rtol=0.02, atol=0.02)


def test_training():
    layer = Conv2dGroupNorm(4, 6, 3, 2, has_bias=True, activation="silu")
    x = tensor(draw(np.random.default_rng(0), (2, 4, 9, 8)), "float32")

    def loss():
        return (layer(x) - 1).square().mean()

    step = ms.value_and_grad(loss, None, layer.trainable_params())
    optimizer = nn.Adam(layer.trainable_params(), 0.05)
    losses = []
    for _ in range(20):
        value, gradients = step()
        optimizer(gradients)
        losses.append(float(value))
    assert losses[-1] < losses[0] / 2


def test_bad_arguments():
    norm = GroupNorm(3, 6)
    cases = [
        (lambda: Conv2dGroupNorm.of(nn.Dense(3, 3), norm), TypeError, "the layer must be nn.Conv2d"),
        (lambda: Conv2dGroupNorm.of(Conv2d(4, 6, 3), nn.LayerNorm((6,))), TypeError, "the norm must be nn.GroupNorm"),
        (lambda: Conv2dGroupNorm.of(Conv2d(4, 6, 3, activation="silu"), norm), ValueError, "convolution must have no"),
        (lambda: Conv2dGroupNorm.of(Conv2d(4, 6, 3), GroupNorm(3, 6, activation="silu")), ValueError, "norm must have"),
        (lambda: Conv2dGroupNorm.of(Conv2d(4, 8, 3), norm), ValueError, "of 8 channels, got 6"),
        (lambda: Conv2dGroupNorm.of(Conv2d(4, 6, 3, data_format="NHWC"), norm), ValueError, "must be of NHWC"),
        (lambda: Conv2dGroupNorm(4, 6, 3, 4), ValueError, "multiple of num_groups"),
        (lambda: Conv2dGroupNorm(4, 6, 3, 3, with_z=1), TypeError, "with_z must be a bool"),
        (lambda: Conv2dGroupNorm(4, 6, 3, 3, activation="gelu"), ValueError, "activation must be"),
    ]
    for call, error, message in cases:
        with pytest.raises(error, match=message):
            call()
