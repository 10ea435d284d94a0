import mindspore as ms
import numpy as np
import pytest
from mindspore import mint, nn

from ms_ascend_ops import Dense
from tests.acceptance import assert_close
from tests.inputs import draw
from tests.modes import MODES, run
from tests.reference import matmul as reference
from tests.tensors import numpy, tensor

# Sums of 12 products of numbers about 1 at most, in float32 and in another order: they are 1e-6 apart.
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.mark.parametrize("has_bias", [True, False])
def test_of_a_layer_of_mindspore(has_bias):
    """Also its gradients."""
    stock = nn.Dense(12, 6, has_bias=has_bias)
    stock.weight.name = "block.dense.weight"
    layer = Dense.of(stock)
    assert layer.weight is stock.weight
    assert layer.weight.name == "block.dense.weight"
    assert layer.bias is stock.bias
    x = tensor(draw(np.random.default_rng(0), (2, 5, 12)), "float32")
    assert_close(numpy(layer(x)), numpy(stock(x)), **CLOSE)
    (dx, parameters), (dx2, parameters2) = (
        ms.grad(lambda x, net=net: (net(x) ** 2).sum(), 0, stock.trainable_params())(x) for net in (layer, stock)
    )
    for ours, theirs in zip([dx, *parameters], [dx2, *parameters2], strict=True):
        # Sums over ten rows, of products with y, in another order: some ULP of float32 of what is added up.
        assert_close(numpy(ours), numpy(theirs), rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("activation", [None, "silu"])
def test_of_a_layer_of_mint(mode, activation):
    stock = mint.nn.Linear(12, 6)
    layer = Dense.of(stock, activation)
    x = tensor(draw(np.random.default_rng(0), (3, 12)), "float32")
    golden = reference.forward(
        numpy(x), numpy(stock.weight), numpy(stock.bias), transpose_weight=True, activation=activation or "none"
    )
    assert_close(numpy(run(mode, layer, (x,))), golden, **CLOSE)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(8, 8, activation="relu")  # stays what it is
        self.layers = nn.CellList([nn.SequentialCell(mint.nn.Linear(8, 6), nn.ReLU()), nn.Dense(6, 3)])

    def construct(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x


def test_replace(tmp_path):
    net = Network()
    names = {p.name for p in net.get_parameters()}
    x = tensor(draw(np.random.default_rng(0), (4, 8)), "float32")
    expected = numpy(net(x))
    ms.save_checkpoint(net, str(tmp_path / "stock.ckpt"))
    assert Dense.replace(net) == ["layers.0.0", "layers.1"]
    assert isinstance(net.layers[0][0], Dense)
    assert_close(numpy(net(x)), expected, **CLOSE)
    assert {p.name for p in net.get_parameters()} == names
    assert ms.load_param_into_net(net, ms.load_checkpoint(str(tmp_path / "stock.ckpt"))) == ([], [])
    assert Dense.replace(net) == []


def test_mixed_precision():
    """The weight stays float32 and is multiplied in the dtype of x."""
    layer = Dense(12, 6, activation="gelu")
    x = tensor(draw(np.random.default_rng(0), (3, 12)), "float16")
    y = layer(x)
    assert y.dtype == ms.float16
    # Weights below 0.3 are rounded to float16, by 2^-12 of them, and twelve products added up; then the output.
    np.testing.assert_allclose(numpy(y), numpy(layer(x.astype(ms.float32))), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Dense(0, 3), ValueError, "Dense: in_channels must be >= 1"),
        (lambda: Dense(3, 3, has_bias=1), TypeError, "Dense: has_bias must be a bool, got int"),
        (lambda: Dense(3, 3, activation="tanh"), ValueError, "Dense: activation must be"),
        (lambda: Dense.of(nn.ReLU()), TypeError, "without activation or mint.nn.Linear, got ReLU"),
        (lambda: Dense.of(nn.Dense(2, 2, activation="relu")), TypeError, "without activation or mint.nn.Linear"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()
