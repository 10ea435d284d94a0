"""Layers whose weights stay quantized, against the product that `ops.weight_quant_matmul` is defined as."""

import numpy as np

from ms_ascend_ops.llm.checkpoints import open_checkpoint
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.linear import FloatLinear, load_linear
from tests.llm import tiny

PREFIX = "model.layers.0."
QKV = [f"{PREFIX}self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj")]


def test_weights_of_different_kinds_become_floats(tmp_path):
    """As in files that keep some matrices in more bits than others."""
    source = open_checkpoint(tiny.write_gguf(tmp_path / "m.gguf", kind="Q8_0"))
    read = source.read
    source.read = lambda name: source.array(name) if name == f"{QKV[1]}.weight" else read(name)
    source.array = lambda name, dtype=np.float32, *part: _floats(read(name), dtype)
    assert isinstance(load_linear(source, QKV, np.float32, quantized=True), FloatLinear)


def _floats(weight, dtype):
    return weight.dequantized(dtype) if isinstance(weight, QuantizedMatrix) else weight.astype(dtype)
