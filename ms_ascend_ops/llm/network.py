"""Runs a decoder (layer.py) with its weights on a paged cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, ROPE_FACTORS, Checkpoint, Weight
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.layer import Layer, attend_to_cache, converted, decoder, layers_of
from ms_ascend_ops.llm.linear import Experts, FloatLinear, Linear, SummedLinear, load_experts, load_linear
from ms_ascend_ops.llm.parallel import Group, Partition

__all__ = ["Network", "StepInputs", "attention", "capped", "load_network"]

Array = np.ndarray[Any, Any]


@dataclass
class StepInputs:
    """Holds what a step needs of each sequence, in the memory that the kernels read: batch b, new tokens s."""

    x: Any  # embedded tokens, (b, s, hidden)
    angles: Any  # for each rotary base cosines and sines, float32, (b, s, rotary pairs)
    slots: Any  # int32, (b, s): where new keys and values go; negative: nowhere
    tables: Any  # int32, (b, most blocks)
    lengths: Any  # int32, (b,): tokens in the cache, the new ones among them


class Network:
    """Computes a LLaMA-like decoder with its weights."""

    def __init__(
        self, config: ModelConfig, dtype: Any, embedding: Weight, layers: list[Layer], norm: Any, head: Linear,
        rope_factors: Array | None = None, group: Group | None = None,
    ):  # fmt: skip
        self.config = config
        self.dtype = np.dtype(dtype)
        self.embedding = embedding
        self.layers = layers
        self.norm = norm
        self.head = head
        self.rope_factors = rope_factors
        self.group = group  # the processes that hold the other parts of it

    def converted(self, convert: Callable[[Array], Any]) -> Network:
        """Return the same network with its arrays as tensors of another library; the embedding stays where it is."""
        layers, norm, head = converted((self.layers, self.norm, self.head), convert)
        return Network(self.config, self.dtype, self.embedding, layers, norm, head, self.rope_factors, self.group)

    def embed(self, tokens: Array, out: Array) -> None:
        """Write the rows of some tokens."""
        if isinstance(self.embedding, QuantizedMatrix):
            rows = self.embedding.take(tokens.ravel()).dequantized(self.dtype)
            out[...] = rows.reshape(out.shape)
        else:
            np.take(self.embedding, tokens, axis=0, out=out, mode="clip")  # ids were checked; "raise" would buffer
        if (scale := self.config.embedding_scale) != 1:
            out *= self.dtype.type(scale)

    def all_logits(self, products: Array) -> Array:
        """Return logits of the whole vocabulary, of the last products of this process's part, float32."""
        logits = capped(products, self.config.logit_cap)
        return logits if self.group is None else self.group.joined(logits, self.config.vocabulary)

    def hidden(self, ops: Any, step: StepInputs, caches: list[tuple[Any, Any]]) -> Any:
        """Compute the normalized states behind the last layer, shape (b, s, hidden).

        Attention is in the type of the caches.
        """
        return decoder(ops, self, step.x, step.angles, attention(ops, step, caches))


def attention(ops: Any, step: StepInputs, caches: Sequence[tuple[Any, Any]]) -> Callable[..., Any]:
    """Compute the attention of the layers in a step, over the keys and values of each of them."""

    def attend(layer: Layer, query: Any, key: Any, value: Any) -> Any:
        places = step.slots, step.tables, step.lengths
        return attend_to_cache(ops, layer, query, key, value, *caches[layer.index], *places)

    return attend


def capped(logits: Array, cap: float) -> Array:
    """Cap logits smoothly; 0: there is no cap."""
    return cap * np.tanh(logits / cap) if cap else logits


class _Blocks:
    """Allocates memory for weights, one behind the other.

    NumPy asks for large pages where an array has 4 MiB and more: a CPU then foresees more of what is read next. One
    thread of a Zen 4 read weights of 8 bits at 28 rather than 25 GB/s.
    """

    _SIZE, _ALIGNMENT = 64 << 20, 64

    def __init__(self) -> None:
        self._left = np.empty(0, np.uint8)

    def place(self, array: Array) -> Array:
        """Place the array in a block unless it is large enough alone."""
        size = -(-array.nbytes // self._ALIGNMENT) * self._ALIGNMENT
        if size > self._SIZE // 16:
            return array
        if size > self._left.size:
            self._left = np.empty(self._SIZE + self._ALIGNMENT, np.uint8)
            self._left = self._left[-self._left.ctypes.data % self._ALIGNMENT :]
        placed: Array = self._left[: array.nbytes].view(array.dtype).reshape(array.shape)
        self._left = self._left[size:]
        placed[...] = array
        return placed


def load_network(
    checkpoint: Checkpoint, dtype: Any = np.float32, quantized: bool = False, quantize_x: str = "none",
    partition: Partition | None = None, group: Group | None = None,
) -> Network:  # fmt: skip
    """Read all weights, or those of a partition.

    Args:
        checkpoint: where from.
        dtype: float32, float16 or bfloat16: of what the network calculates with.
        quantized: keep quantized weights as they are.
        quantize_x: "none" or "int8": round activations to 8 bits where they meet such weights.
        partition: what this process holds of the layers; the embedding is whole everywhere.
        group: with a partition: what adds up the parts.
    """
    config = checkpoint.config
    whole = partition is None
    blocks = _Blocks()

    def norm(name: str) -> Array:
        return np.array(checkpoint.array(f"{name}.weight", np.float32))

    def linear(*names: str) -> Linear:
        if partition is None:
            whole_layer: Linear = converted(load_linear(checkpoint, names, dtype, quantized, quantize_x), blocks.place)
            return whole_layer
        rows = [partition.rows(name) for name in names]
        columns = partition.columns(names[0])
        # Add the bias once.
        bias = columns == ALL or partition.rank == 0
        layer = load_linear(checkpoint, names, dtype, quantized, quantize_x, rows, columns, bias)
        return layer if columns == ALL else SummedLinear(layer, group)

    def experts(name: str) -> Experts:
        return load_experts(checkpoint, name, dtype)

    own = config if partition is None else partition.own(config)
    layers = layers_of(own, norm, linear, experts)
    head = linear("model.embed_tokens" if config.tied_embedding else "lm_head")
    embedding: Weight
    if config.tied_embedding and isinstance(head, FloatLinear) and whole:
        embedding = head.weight
    else:
        embedding = checkpoint.weight("model.embed_tokens.weight")
        if not isinstance(embedding, QuantizedMatrix) or not quantized:
            embedding = np.ascontiguousarray(checkpoint.array("model.embed_tokens.weight", dtype))
            if partition is not None and config.tied_embedding and isinstance(head, FloatLinear):
                head = FloatLinear(embedding[partition.rows("model.embed_tokens")], None)  # not twice
    factors = checkpoint.array(ROPE_FACTORS) if ROPE_FACTORS in checkpoint else None
    return Network(own, dtype, embedding, layers, norm("model.norm"), head, factors, group)
