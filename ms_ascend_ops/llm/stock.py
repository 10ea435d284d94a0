"""Runs the decoder in operators of MindSpore alone, for measuring beside it: what one writes without this library.

As fast as these operators let it be: products for queries, keys and values, and for gate and up, are one each; heads
that share keys are rows of one product; sizes of its two graphs are fixed; the cache is changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn

from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.layer import Layer
from ms_ascend_ops.llm.linear import FloatLinear, Linear
from ms_ascend_ops.llm.mindspore_executor import tensor_of
from ms_ascend_ops.llm.network import Network
from ms_ascend_ops.llm.rope import rope_tables

__all__ = ["StockModel"]

Array = np.ndarray[Any, Any]

# Tokens of a prompt that are calculated at once, and in pieces if it is longer: a graph keeps the scores of all layers,
# which of 2048 tokens would be 18 GB.
WHOLE, PIECE = 512, 256


class _Linear(nn.Cell):  # type: ignore[misc]
    def __init__(self, linear: Linear):
        super().__init__()
        assert isinstance(linear, FloatLinear)
        self.product = ms.ops.MatMul(transpose_b=True)
        self.weight = _parameter(linear.weight)
        self.bias = None if linear.bias is None else _parameter(linear.bias)

    def construct(self, x: Any) -> Any:
        y = self.product(x, self.weight)
        return y if self.bias is None else y + self.bias


class _Norm(nn.Cell):  # type: ignore[misc]
    def __init__(self, gamma: Array, epsilon: float):
        super().__init__()
        self.gamma, self.epsilon = _parameter(gamma), epsilon

    def construct(self, x: Any) -> Any:
        wide = x.astype(ms.float32)
        scale = ms.ops.rsqrt(ms.ops.mean(wide * wide, -1, keep_dims=True) + self.epsilon)
        return (wide * scale * self.gamma).astype(x.dtype)


class _Layer(nn.Cell):  # type: ignore[misc]
    def __init__(self, config: ModelConfig, layer: Layer, room: int, dtype: Any):
        super().__init__()
        self.input_norm, self.post_norm = (
            _Norm(gamma, config.epsilon) for gamma in (layer.input_norm, layer.post_norm)
        )
        self.products = nn.CellList([_Linear(product) for product in layer.products])
        self.head_norms = None
        if layer.query_norm is not None:
            self.head_norms = nn.CellList(
                [_Norm(gamma, config.epsilon) for gamma in (layer.query_norm, layer.key_norm)]
            )
        assert layer.gate_up is not None
        assert layer.down is not None  # StockModel refuses experts
        self.output, self.gate_up, self.down = map(_Linear, (layer.output, layer.gate_up, layer.down))
        self.heads, self.key_heads, self.size = config.heads, config.key_heads, config.head_size
        self.shared = config.heads // config.key_heads
        shape = (room, config.key_heads, config.head_size)
        self.keys, self.values = _parameter(np.zeros(shape, dtype)), _parameter(np.zeros(shape, dtype))
        self.scores, self.mix = ms.ops.BatchMatMul(transpose_b=True), ms.ops.BatchMatMul()

    def construct(self, x: Any, cos: Any, sin: Any, places: Any, mask: Any) -> Any:
        tokens = x.shape[0]
        normalized = self.input_norm(x)
        if self.head_norms is None:
            heads = self.products[0](normalized).reshape(tokens, -1, self.size)
            query, key = heads[:, : self.heads], heads[:, self.heads : self.heads + self.key_heads]
            value = heads[:, self.heads + self.key_heads :]
        else:
            query = self.head_norms[0](self.products[0](normalized).reshape(tokens, -1, self.size))
            key = self.head_norms[1](self.products[1](normalized).reshape(tokens, -1, self.size))
            value = self.products[2](normalized).reshape(tokens, -1, self.size)
        query, key = _rotated(query, cos, sin), _rotated(key, cos, sin)
        keys = ms.ops.scatter_update(self.keys, places, key)
        values = ms.ops.scatter_update(self.values, places, value)
        if mask.shape[1] == tokens:  # a whole prompt: all that it sees is new
            keys, values = ms.ops.depend(key, keys), ms.ops.depend(value, values)
        query = query.reshape(tokens, self.key_heads, self.shared, self.size).transpose(1, 2, 0, 3)
        query = query.reshape(self.key_heads, self.shared * tokens, self.size)
        scores = self.scores(query, keys.transpose(1, 0, 2)) * (self.size**-0.5)
        scores = scores.reshape(self.key_heads, self.shared, tokens, -1) + mask
        weights = ms.ops.softmax(scores, -1).reshape(self.key_heads, self.shared * tokens, -1)
        mixed = self.mix(weights, values.transpose(1, 0, 2)).reshape(self.key_heads, self.shared, tokens, self.size)
        x = x + self.output(mixed.transpose(2, 0, 1, 3).reshape(tokens, self.heads * self.size))
        gate, up = ms.ops.chunk(self.gate_up(self.post_norm(x)), 2, -1)
        return x + self.down(ms.ops.silu(gate) * up)


class _Decoder(nn.Cell):  # type: ignore[misc]
    def __init__(self, network: Network, room: int):
        super().__init__()
        config = network.config
        self.cos, self.sin = map(_parameter, rope_tables(config, room, network.rope_factors)[0])
        assert isinstance(network.embedding, np.ndarray)
        self.embedding = _parameter(network.embedding)
        self.layers = nn.CellList([_Layer(config, layer, room, network.dtype) for layer in network.layers])
        self.norm, self.head = _Norm(network.norm, config.epsilon), _Linear(network.head)

    @ms.jit  # type: ignore[untyped-decorator]
    def construct(self, tokens: Any, places: Any, mask: Any) -> Any:
        x = ms.ops.gather(self.embedding, tokens, 0)
        cos = ms.ops.gather(self.cos, places, 0).expand_dims(1)
        sin = ms.ops.gather(self.sin, places, 0).expand_dims(1)
        for layer in self.layers:
            x = layer(x, cos, sin, places, mask)
        return self.head(self.norm(x[-1:]))


class StockModel:
    """Runs one sequence of at most `room` tokens. The weights of the network are floats."""

    def __init__(self, network: Network, room: int):
        config = network.config
        if config.architecture not in ("llama", "mistral", "qwen2", "qwen3") or config.windows:
            raise ValueError(f"{config.architecture}: no network of MindSpore's operators is like this one")
        self._decoder = _Decoder(network, room)
        self._dtype = network.dtype
        self._room = room

    def prompt(self, tokens: Sequence[int]) -> Array:
        """Compute logits behind the last of the tokens, which are the first ones."""
        if len(tokens) <= WHOLE:
            return self._run(tokens, 0, len(tokens))
        pieces = [(tokens[first : first + PIECE], first) for first in range(0, len(tokens), PIECE)]
        return [self._run(piece, first, self._room) for piece, first in pieces][-1]

    def token(self, token: int, place: int) -> Array:
        """Compute logits behind one more."""
        return self._run([token], place, self._room)

    def _run(self, tokens: Sequence[int], start: int, seen: int) -> Array:
        places = np.arange(start, start + len(tokens))
        mask = np.where(np.arange(seen)[None] <= places[:, None], 0, -np.inf).astype(self._dtype)
        ids = np.array(tokens, np.int32)
        logits: Array = self._decoder(Tensor(ids), Tensor(places.astype(np.int32)), tensor_of(mask)).asnumpy()
        return logits.astype(np.float32)


def _parameter(values: Array) -> Parameter:
    return Parameter(tensor_of(values), requires_grad=False)


def _rotated(x: Any, cos: Any, sin: Any) -> Any:
    first, second = ms.ops.chunk(x, 2, -1)
    return ms.ops.concat((first * cos - second * sin, second * cos + first * sin), -1).astype(x.dtype)
