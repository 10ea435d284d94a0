"""The decoder as a cell that can be exported: tokens in, logits out, weights and cache inside.

One graph takes prompts and single tokens: numbers of sequences and of tokens are left open. The cache is state of the
graph, which `kv_cache_update` writes in place.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn

from ms_ascend_ops import ops
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.executor import BLOCK
from ms_ascend_ops.llm.linear import FloatLinear, Linear, QuantizedLinear
from ms_ascend_ops.llm.mindspore_executor import tensor_of
from ms_ascend_ops.llm.network import Layer, Network
from ms_ascend_ops.llm.rope import rope_tables

__all__ = ["KEY_CACHE", "ROPE", "Decoder"]

Array = np.ndarray[Any, Any]

KEY_CACHE = "key_cache"  # the name of such parameters ends with it
ROPE = "rope.cos"


def _parameter(values: Array, name: str) -> Parameter:
    return Parameter(tensor_of(values), name=name, requires_grad=False)


def _optional(values: Array | None, name: str) -> Parameter | None:
    return None if values is None else _parameter(values, name)


class _Float(nn.Cell):  # type: ignore[misc]
    def __init__(self, linear: FloatLinear, name: str):
        super().__init__()
        self.weight, self.bias = _parameter(linear.weight, f"{name}.weight"), _optional(linear.bias, f"{name}.bias")

    def construct(self, x: Any) -> Any:
        return ops.matmul(x, self.weight, self.bias, transpose_weight=True)


class _GatedFloat(_Float):
    def construct(self, x: Any) -> Any:
        return ops.swiglu(ops.matmul(x, self.weight, self.bias, transpose_weight=True))


class _Quantized(nn.Cell):  # type: ignore[misc]
    def __init__(self, linear: QuantizedLinear, name: str):
        super().__init__()
        weight, scale, offset, bias = linear.arrays
        self.weight, self.scale = _parameter(weight, f"{name}.weight"), _parameter(scale, f"{name}.scale")
        self.offset, self.bias = _optional(offset, f"{name}.offset"), _optional(bias, f"{name}.bias")
        self.quantize_x = linear.quantize_x

    def construct(self, x: Any) -> Any:
        return ops.weight_quant_matmul(x, self.weight, self.scale, self.offset, self.bias, quantize_x=self.quantize_x)


class _GatedQuantized(_Quantized):
    def construct(self, x: Any) -> Any:
        return ops.weight_quant_swiglu(x, self.weight, self.scale, self.offset, self.bias, quantize_x=self.quantize_x)


def _linear(linear: Linear, name: str, gated: bool = False) -> nn.Cell:
    if isinstance(linear, QuantizedLinear):
        return (_GatedQuantized if gated else _Quantized)(linear, name)
    assert isinstance(linear, FloatLinear)
    return (_GatedFloat if gated else _Float)(linear, name)


class _Heads(nn.Cell):  # type: ignore[misc]
    """Queries and keys, turned, and values, of one product."""

    def __init__(self, network: Network, layer: Layer, name: str):
        super().__init__()
        config = network.config
        self.product = _linear(layer.products[0], f"{name}.qkv")
        self.heads, self.key_heads, self.size = config.heads, config.key_heads, config.head_size

    def construct(self, x: Any, cos: Any, sin: Any) -> Any:
        product = self.product(x).reshape(x.shape[0], x.shape[1], -1, self.size)
        sizes = (self.heads, self.key_heads, self.key_heads)
        return ops.qkv_rotary_embedding(product, cos, sin, *sizes, layout="BSND")


class _NormalizedHeads(nn.Cell):  # type: ignore[misc]
    """The same of three products, with a norm of each head of queries and keys."""

    def __init__(self, network: Network, layer: Layer, name: str):
        super().__init__()
        self.query, self.key, self.value = (
            _linear(product, f"{name}.{part}") for product, part in zip(layer.products, "qkv", strict=True)
        )
        assert layer.head_norms is not None
        self.query_norm = _parameter(layer.head_norms[0], f"{name}.query_norm")
        self.key_norm = _parameter(layer.head_norms[1], f"{name}.key_norm")
        self.size, self.epsilon = network.config.head_size, network.config.epsilon

    def construct(self, x: Any, cos: Any, sin: Any) -> Any:
        batch, tokens = x.shape[0], x.shape[1]
        query = self.query(x).reshape(batch, tokens, -1, self.size)
        key = self.key(x).reshape(batch, tokens, -1, self.size)
        value = self.value(x).reshape(batch, tokens, -1, self.size)
        query = ops.rms_norm(query, self.query_norm, epsilon=self.epsilon)[0]
        key = ops.rms_norm(key, self.key_norm, epsilon=self.epsilon)[0]
        return ops.rotary_embedding(query, cos, sin), ops.rotary_embedding(key, cos, sin), value


class _Layer(nn.Cell):  # type: ignore[misc]
    def __init__(self, network: Network, layer: Layer, next_norm: Array, empty: Array, name: str):
        super().__init__()
        config = network.config
        self.heads = (_Heads if layer.head_norms is None else _NormalizedHeads)(network, layer, name)
        self.output, self.down = _linear(layer.output, f"{name}.output"), _linear(layer.down, f"{name}.down")
        self.gate_up = _linear(layer.gate_up, f"{name}.gate_up", gated=True)
        self.post_norm = _parameter(layer.post_norm, f"{name}.post_norm")
        self.next_norm = _parameter(next_norm, f"{name}.next_norm")
        self.key_cache = _parameter(empty, f"{name}.{KEY_CACHE}")
        self.value_cache = _parameter(empty, f"{name}.value_cache")
        self.width, self.epsilon = config.query_size, config.epsilon
        self.cache_dtype, self.casts = self.key_cache.dtype, empty.dtype != network.dtype

    def construct(
        self, x: Any, residual: Any, cos: Any, sin: Any, slots: Any, tables: Any, lengths: Any
    ) -> Any:  # fmt: skip
        query, key, value = self.heads(x, cos, sin)
        if self.casts:
            query, key, value = (
                ms.ops.cast(query, self.cache_dtype), ms.ops.cast(key, self.cache_dtype),
                ms.ops.cast(value, self.cache_dtype),
            )  # fmt: skip
        keys, values = ops.kv_cache_update(key, value, self.key_cache, self.value_cache, slots)
        x = ops.paged_attention(query, keys, values, tables, lengths)
        if self.casts:
            x = ms.ops.cast(x, residual.dtype)
        x = self.output(x.reshape(x.shape[0], x.shape[1], self.width))
        x, _, residual = ops.add_rms_norm(residual, x, self.post_norm, epsilon=self.epsilon)
        x = self.down(self.gate_up(x))
        x, _, residual = ops.add_rms_norm(residual, x, self.next_norm, epsilon=self.epsilon)
        return x, residual


class Decoder(nn.Cell):  # type: ignore[misc]
    """Logits behind the last token of each sequence.

    Args:
        network: weights, as `load_network` reads them.
        blocks: of the cache, of 32 tokens each.
        context: positions of a sequence at most.
        cache_dtype: of keys and values, and so of attention; None: that of the network.

    Inputs, all int32, of b sequences with s new tokens:
        tokens: (b, s). positions: (b, s). slots: (b, s), where keys and values go. tables: (b, context / 32), the
        blocks of each sequence. lengths: (b,), tokens in the cache with the new ones.

    Outputs:
        Tensor[float32], shape (b, vocabulary).
    """

    def __init__(self, network: Network, blocks: int, context: int, cache_dtype: Any = None):
        super().__init__()
        config = network.config
        dtype = network.dtype if cache_dtype is None else cache_dtype
        empty = np.zeros((blocks, BLOCK, config.key_heads, config.head_size), dtype)
        cos, sin = rope_tables(network.config, context, network.rope_factors)
        self.cos, self.sin = _parameter(cos, ROPE), _parameter(sin, "rope.sin")
        embedding = network.embedding
        if isinstance(embedding, QuantizedMatrix):
            embedding = embedding.dequantized(network.dtype)
        self.embedding = _parameter(embedding, "embedding")
        norms = [layer.input_norm for layer in network.layers] + [network.norm]
        self.first_norm = _parameter(norms[0], "first_norm")
        self.layers = nn.CellList(
            [
                _Layer(network, layer, norms[index + 1], empty, f"layers.{index}")
                for index, layer in enumerate(network.layers)
            ]
        )
        self.head = _linear(network.head, "head")
        self.epsilon = network.config.epsilon

    def construct(self, tokens: Any, positions: Any, slots: Any, tables: Any, lengths: Any) -> Any:
        residual = ms.ops.gather(self.embedding, tokens, 0)
        cos, sin = ms.ops.gather(self.cos, positions, 0), ms.ops.gather(self.sin, positions, 0)
        x = ops.rms_norm(residual, self.first_norm, epsilon=self.epsilon)[0]
        for layer in self.layers:
            x, residual = layer(x, residual, cos, sin, slots, tables, lengths)
        return ms.ops.cast(self.head(x[:, -1]), ms.float32)
