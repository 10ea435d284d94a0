import mindspore as ms
import numpy as np
import pytest
from mindspore import Tensor, mint, nn

from ms_ascend_ops import Conv2d
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.reference import conv2d as reference
from tests.tensors import numpy, tensor

# Sums of 36 products of numbers about 1 at most, in float32 and in another order: they are 1e-6 apart.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def pads_of(size, kernel, stride, dilation):
    places = -(-size // stride)
    total = max(0, (places - 1) * stride + dilation * (kernel - 1) + 1 - size)
    return total // 2, total - total // 2


LAYERS = [
    {"kernel_size": 3},
    {"kernel_size": (3, 2), "stride": 2},
    {"kernel_size": 3, "pad_mode": "valid", "dilation": 2},
    {"kernel_size": 3, "pad_mode": "pad", "padding": (1, 2, 0, 1), "stride": (2, 1), "has_bias": True},
    {"kernel_size": 1, "group": 2, "has_bias": True},
]


@pytest.mark.parametrize("arguments", LAYERS)
def test_of_a_layer_of_mindspore(arguments):
    stock = nn.Conv2d(4, 6, **arguments)
    stock.weight.name = "block.conv.weight"
    layer = Conv2d.of(stock)
    assert layer.weight is stock.weight
    assert layer.weight.name == "block.conv.weight"
    assert layer.bias is stock.bias
    x = tensor(draw(np.random.default_rng(0), (2, 4, 9, 8)), "float32")
    ours, theirs = numpy(layer(x)), numpy(stock(x))
    assert ours.shape == theirs.shape
    assert_close(ours, theirs, **CLOSE)


@pytest.mark.parametrize("data_format", ["NCHW", "NHWC"])
def test_same_padding_and_activation(data_format):
    layer = Conv2d(3, 5, (4, 3), (3, 2), dilation=(1, 2), has_bias=True, data_format=data_format, activation="silu")
    x = draw(np.random.default_rng(0), (2, 3, 10, 7))
    x = x if data_format == "NCHW" else np.moveaxis(x, 1, -1)
    pad = pads_of(10, 4, 3, 1) + pads_of(7, 3, 2, 2)
    a = reference.attributes((3, 2), pad, (1, 2), data_format=data_format, activation="silu")
    golden = reference.forward(x, numpy(layer.weight), numpy(layer.bias), **a)
    assert_close(numpy(layer(tensor(x, "float32"))), golden, **CLOSE)
    jitted = ms.jit(layer.construct)(tensor(x, "float32"))
    assert_close(numpy(jitted), golden, **CLOSE)


def test_of_a_layer_of_mint():
    """Which has no kernel on a CPU."""
    for padding, pad in (((2, 1), (2, 2, 1, 1)), ("same", (1, 1, 1, 1)), ("valid", (0, 0, 0, 0))):
        stock = mint.nn.Conv2d(4, 6, 3, padding=padding, groups=2)
        x = draw(np.random.default_rng(0), (1, 4, 6, 5))
        golden = reference.forward(x, numpy(stock.weight), numpy(stock.bias), **reference.attributes(pad=pad, groups=2))
        assert_close(numpy(Conv2d.of(stock)(tensor(x, "float32"))), golden, **CLOSE)
    with pytest.raises(ValueError, match="padding_mode must be 'zeros'"):
        Conv2d.of(mint.nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"))
    with pytest.raises(TypeError, match=r"must be nn\.Conv2d or mint\.nn\.Conv2d, got Dense"):
        Conv2d.of(nn.Dense(3, 4))


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.body = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3, 2, has_bias=True))
        self.head = nn.Conv2d(2, 2, 1)

    def construct(self, x):
        return self.head(self.body(x))


def test_replace():
    network = Network()
    x = Tensor(draw(np.random.default_rng(0), (1, 3, 8, 8)).astype(np.float32))
    before, names = network(x).asnumpy(), [p.name for p in network.get_parameters()]
    assert Conv2d.replace(network) == ["body.0", "body.2", "head"]
    assert [p.name for p in network.get_parameters()] == names
    assert_close(network(x).asnumpy(), before, **CLOSE)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 4, 3, 0), "stride must be at least 1"),
        ((3, 4, 3, 1, "full"), "pad_mode must be 'same', 'valid' or 'pad'"),
        ((3, 4, 3, 1, "same", 1), "padding must be 0 with pad_mode 'same', got 1"),
        ((3, 4, 3, 1, "pad", (1, 2)), "padding must be an int or 4 of them"),
        ((3, 4, 3, 1, "same", 0, 1, 2), "in_channels must be a multiple of group"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=f"^Conv2d: {message}"):
        Conv2d(*arguments)


def test_mixed_precision():
    """The weight stays float32, and follows x."""
    layer = Conv2d(3, 4, 3, has_bias=True)
    x = tensor(draw(np.random.default_rng(0), (1, 3, 6, 5)), "float16")
    whole = layer(x.astype(ms.float32))
    layer.to_float(ms.float16)
    y = layer(x)
    assert y.dtype == ms.float16
    # 27 products of float16, whose factors are each wrong by 2^-12 at most: sums of up to 4 by 2e-3.
    np.testing.assert_allclose(numpy(y), numpy(whole), rtol=2e-3, atol=2e-3)
