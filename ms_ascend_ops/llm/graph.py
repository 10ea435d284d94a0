"""Makes the decoder a cell that can be exported: tokens in, logits out, weights and cache inside.

One graph takes prompts and single tokens: numbers of sequences and of tokens are left open. The cache is state of the
graph, which `kv_cache_update` writes in place.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, nn

from ms_ascend_ops import ops
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.executor import BLOCK
from ms_ascend_ops.llm.layer import Layer, attend_to_cache, decoder
from ms_ascend_ops.llm.linear import Experts, FloatLinear, QuantizedLinear
from ms_ascend_ops.llm.mindspore_executor import tensor_of
from ms_ascend_ops.llm.network import Network
from ms_ascend_ops.llm.rope import rope_tables

__all__ = ["COSINES", "KEY_CACHE", "Decoder"]

Array = np.ndarray[Any, Any]

KEY_CACHE = "key_cache"  # the names of such parameters end with it
COSINES = ".cos"


def _parameter(values: Array, name: str) -> Parameter:
    return Parameter(tensor_of(values), name=name, requires_grad=False)


class _Part(nn.Cell):  # type: ignore[misc]
    """Wraps a part of a network whose arrays are parameters, and whose own parts are cells: what a graph can hold."""

    def __init__(self, part: Any, name: str):
        super().__init__()
        for field in fields(part):
            setattr(self, field.name, _held(getattr(part, field.name), f"{name}.{field.name}"))


class _Float(_Part, FloatLinear):
    def construct(self, ops: Any, x: Any) -> Any:
        return self.product(ops, x)


class _Quantized(_Part, QuantizedLinear):
    def construct(self, ops: Any, x: Any) -> Any:
        return self.product(ops, x)


class _Experts(_Part, Experts):
    def construct(self, ops: Any, x: Any) -> Any:
        return self.product(ops, x)


class _Layer(_Part):
    """Computes a layer with its cache."""

    def __init__(self, layer: Layer, empty: Array):
        name = f"layers.{layer.index}"
        super().__init__(layer, name)
        self.key_cache = _parameter(empty, f"{name}.{KEY_CACHE}")
        self.value_cache = _parameter(empty, f"{name}.value_cache")


class _Angles(nn.Cell):  # type: ignore[misc]
    """Computes cosines and sines of positions, of one rotary base."""

    def __init__(self, tables: tuple[Array, Array], name: str):
        super().__init__()
        self.cos, self.sin = _parameter(tables[0], f"{name}.cos"), _parameter(tables[1], f"{name}.sin")

    def construct(self, positions: Any) -> tuple[Any, Any]:
        return ms.ops.gather(self.cos, positions, 0), ms.ops.gather(self.sin, positions, 0)


def _held(part: Any, name: str) -> Any:
    if isinstance(part, np.ndarray):
        return _parameter(part, name)
    if isinstance(part, tuple):
        return nn.CellList([_held(one, f"{name}.{index}") for index, one in enumerate(part)])
    if isinstance(part, FloatLinear):
        return _Float(part, name)
    if isinstance(part, Experts):
        return _Experts(part, name)
    return _Quantized(part, name) if isinstance(part, QuantizedLinear) else part


class Decoder(nn.Cell):  # type: ignore[misc]
    """Computes logits behind the last token of each sequence.

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
        self.bases = nn.CellList([
            _Angles(tables, "rope" if base == 0 else "local_rope")
            for base, tables in enumerate(rope_tables(network.config, context, network.rope_factors))
        ])  # fmt: skip
        embedding, self.scale = network.embedding, config.embedding_scale
        if isinstance(embedding, QuantizedMatrix):
            embedding = embedding.dequantized(network.dtype)
        self.embedding = _parameter(embedding, "embedding")
        self.layers = nn.CellList([_Layer(layer, empty) for layer in network.layers])
        self.norm = _parameter(network.norm, "norm")
        self.head = _held(network.head, "head")
        self.config = config

    def construct(self, tokens: Any, positions: Any, slots: Any, tables: Any, lengths: Any) -> Any:
        def attend(layer: Any, query: Any, key: Any, value: Any) -> Any:
            cache = layer.key_cache, layer.value_cache
            return attend_to_cache(ops, layer, query, key, value, *cache, slots, tables, lengths)

        x = ms.ops.gather(self.embedding, tokens, 0)
        if self.scale != 1:
            x = x * ms.ops.cast(self.scale, x.dtype)
        angles = [base(positions) for base in self.bases]
        x = decoder(ops, self, x, angles, attend)
        logits = ms.ops.cast(self.head(ops, x[:, -1]), ms.float32)
        cap = self.config.logit_cap
        return logits if cap == 0 else cap * ms.ops.tanh(logits / cap)
