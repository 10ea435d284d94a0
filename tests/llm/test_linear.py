"""Layers whose weights stay quantized, against the product that `ops.weight_quant_matmul` is defined as."""

import numpy as np
import pytest

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.linear import FloatLinear, QuantizedLinear, load_linear
from ms_ascend_ops.llm.network import load_network
from tests.llm import tiny

PREFIX = "model.layers.0."
QKV = [f"{PREFIX}self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj")]


class Definition:
    """y = x ((q + offset) * scale)^T + bias in float64; of 4 bits a byte holds two, the first in its low half."""

    @staticmethod
    def weight_quant_matmul(x, weight, scale, offset=None, bias=None, quantize_x="none"):
        assert quantize_x == "none"
        assert weight.dtype == np.int8
        if weight.shape[1] < x.shape[1]:
            low, high = weight << 4 >> 4, weight >> 4  # arithmetic shifts: with the sign
            weight = np.stack((low, high), -1).reshape(len(weight), -1)
        values = weight.astype(np.float64).reshape(len(weight), -1, 32)
        if offset is not None:
            assert offset.dtype == scale.dtype
            assert offset.shape == scale.shape
            values = values + offset.astype(np.float64)[..., None]
        matrix = (values * scale.astype(np.float64)[..., None]).reshape(len(weight), -1)
        return x @ matrix.T + (0 if bias is None else bias)


@pytest.fixture(params=["Q8_0", "Q4_0", "Q4_1"])
def checkpoint(request, tmp_path):
    return open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind=request.param))


@pytest.mark.parametrize("names", [QKV, [f"{PREFIX}mlp.gate_proj", f"{PREFIX}mlp.up_proj"], [f"{PREFIX}mlp.down_proj"]])
def test_quantized(checkpoint, names):
    layer = load_linear(checkpoint, names, np.float32, quantized=True)
    assert isinstance(layer, QuantizedLinear)
    matrix = np.concatenate([checkpoint.array(f"{name}.weight") for name in names]).astype(np.float64)
    x = np.random.default_rng(0).standard_normal((3, matrix.shape[1]))
    # The offset is rounded to float16: 2^-11 of some 8 codes.
    np.testing.assert_allclose(layer(Definition, x), x @ matrix.T, atol=2e-2)


def test_biases(tmp_path):
    config = tiny.VARIANTS["qwen2"]
    weights = tiny.random_weights(config)
    checkpoint = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", config, weights, kind="Q8_0"))
    layer = load_linear(checkpoint, QKV, np.float32, quantized=True)
    bias = np.concatenate([weights[f"{name}.bias"] for name in QKV])
    np.testing.assert_array_equal(layer(Definition, np.zeros((1, 64))), bias[None].astype(np.float64))


def test_weights_of_different_kinds_become_floats(tmp_path):
    """As in files that keep some matrices in more bits than others."""
    source = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind="Q8_0"))
    read = source.read
    source.read = lambda name: source.array(name) if name == f"{QKV[1]}.weight" else read(name)
    source.array = lambda name, dtype=np.float32, *part: _floats(read(name), dtype)
    assert isinstance(load_linear(source, QKV, np.float32, quantized=True), FloatLinear)


def _floats(weight, dtype):
    return weight.dequantized(dtype) if isinstance(weight, QuantizedMatrix) else weight.astype(dtype)


def test_quantized_embedding(checkpoint):
    network = load_network(checkpoint, quantized=True)
    assert isinstance(network.embedding, QuantizedMatrix)
    assert isinstance(network.head, QuantizedLinear)
    out = np.empty((2, 3, 64), np.float32)
    ids = np.array([[5, 0, 263], [5, 7, 7]])
    network.embed(ids, out)
    np.testing.assert_array_equal(out, checkpoint.array("model.embed_tokens.weight")[ids])
