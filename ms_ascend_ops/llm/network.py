"""The decoder, written once in terms of this library's operators.

`ops` is `ms_ascend_ops.ops`, for tensors of MindSpore, or a `Recorder` (program.py), for launches on fixed memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, ROPE_FACTORS, Checkpoint, Weight
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.linear import FloatLinear, Linear, SummedLinear, load_linear
from ms_ascend_ops.llm.parallel import Group, Partition

__all__ = ["Network", "StepInputs", "load_network"]

Array = np.ndarray[Any, Any]


@dataclass
class StepInputs:
    """What a step needs of each sequence, in the memory that the kernels read: batch b, new tokens s."""

    x: Any  # embedded tokens, (b, s, hidden)
    cos: Any  # float32, (b, s, head_size / 2)
    sin: Any
    slots: Any  # int32, (b, s): where new keys and values go; negative: nowhere
    tables: Any  # int32, (b, most blocks)
    lengths: Any  # int32, (b,): tokens in the cache, the new ones among them


@dataclass
class Layer:
    """Weights of a decoder layer. Without norms of heads, `qkv` is one product; with them, queries come alone."""

    input_norm: Any
    products: tuple[Linear, ...]  # (qkv,) or (query, key, value)
    head_norms: tuple[Any, Any] | None
    output: Linear
    post_norm: Any
    gate_up: Linear
    down: Linear

    def converted(self, convert: Callable[[Array], Any]) -> Layer:
        """The same layer with its arrays as tensors of another library."""
        linear = {f.name: getattr(self, f.name).converted(convert) for f in fields(self) if f.name in _LINEAR}
        return replace(
            self, **linear, products=tuple(product.converted(convert) for product in self.products),
            input_norm=convert(self.input_norm), post_norm=convert(self.post_norm),
            head_norms=None if self.head_norms is None else tuple(convert(norm) for norm in self.head_norms),
        )  # fmt: skip


_LINEAR = ("output", "gate_up", "down")


class Network:
    """A LLaMA-like decoder with its weights."""

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
        """The same network with its arrays as tensors of another library; the embedding stays where it is."""
        layers = [layer.converted(convert) for layer in self.layers]
        norm, head = convert(self.norm), self.head.converted(convert)
        return Network(self.config, self.dtype, self.embedding, layers, norm, head, self.rope_factors, self.group)

    def embed(self, tokens: Array, out: Array) -> None:
        """Write the rows of some tokens."""
        if isinstance(self.embedding, QuantizedMatrix):
            rows = self.embedding.take(tokens.ravel()).dequantized(self.dtype)
            out[...] = rows.reshape(out.shape)
        else:
            np.take(self.embedding, tokens, axis=0, out=out, mode="clip")  # ids were checked; "raise" would buffer

    def all_logits(self, logits: Array) -> Array:
        """Logits of the whole vocabulary, of those of this process's part."""
        return logits if self.group is None else self.group.joined(logits, self.config.vocabulary)

    def hidden(self, ops: Any, step: StepInputs, caches: list[tuple[Any, Any]]) -> Any:
        """Normalized states behind the last layer, shape (b, s, hidden). Attention is in the type of the caches."""
        config, residual = self.config, step.x
        normalized = ops.rms_norm(residual, self.layers[0].input_norm, epsilon=config.epsilon)[0]
        following = [layer.input_norm for layer in self.layers[1:]] + [self.norm]
        for layer, next_norm, (keys, values) in zip(self.layers, following, caches, strict=True):
            query, key, value = (_cast(heads, keys.dtype) for heads in self.heads(ops, layer, normalized, step))
            keys, values = ops.kv_cache_update(key, value, keys, values, step.slots)  # noqa: PLW2901
            attended = ops.paged_attention(query, keys, values, step.tables, step.lengths)
            attended = _cast(attended, residual.dtype)
            batch, seq = attended.shape[:2]
            product = layer.output(ops, attended.reshape(batch, seq, -1))
            normalized, _, residual = ops.add_rms_norm(residual, product, layer.post_norm, epsilon=config.epsilon)
            product = layer.down(ops, layer.gate_up.gated(ops, normalized))
            normalized, _, residual = ops.add_rms_norm(residual, product, next_norm, epsilon=config.epsilon)
        return normalized

    def heads(self, ops: Any, layer: Layer, x: Any, step: StepInputs) -> tuple[Any, Any, Any]:
        """Queries and keys, turned, and values: (b, s, heads, head_size)."""
        config = self.config
        batch, seq = x.shape[:2]
        products = [product(ops, x).reshape(batch, seq, -1, config.head_size) for product in layer.products]
        if layer.head_norms is None:
            sizes = (config.heads, config.key_heads, config.key_heads)
            query, key, value = ops.qkv_rotary_embedding(products[0], step.cos, step.sin, *sizes, layout="BSND")
            return query, key, value
        query, key, value = products
        query, key = (
            ops.rotary_embedding(ops.rms_norm(heads, gamma, epsilon=config.epsilon)[0], step.cos, step.sin)
            for heads, gamma in zip((query, key), layer.head_norms, strict=True)
        )
        return query, key, value


def _cast(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


def load_network(
    checkpoint: Checkpoint, dtype: Any = np.float32, quantized: bool = False, quantize_x: str = "none",
    partition: Partition | None = None, group: Group | None = None,
) -> Network:  # fmt: skip
    """Read all weights, or those of a partition.

    Args:
        checkpoint: where from.
        dtype: float32, float16 or bfloat16: of what the network calculates with.
        quantized: keep quantized weights as they are.
        quantize_x: "none" or "int8": round activations of few rows to 8 bits where they meet such weights.
        partition: what this process holds of the layers; the embedding is whole everywhere.
        group: with a partition: what adds up the parts.
    """
    config = checkpoint.config
    whole = partition is None

    def norm(name: str) -> Array:
        return np.array(checkpoint.array(f"{name}.weight", np.float32))

    def linear(*names: str) -> Linear:
        if partition is None:
            return load_linear(checkpoint, names, dtype, quantized, quantize_x)
        rows = [partition.rows(name) for name in names]
        columns = partition.columns(names[0])
        # A bias is added once.
        bias = columns == ALL or partition.rank == 0
        layer = load_linear(checkpoint, names, dtype, quantized, quantize_x, rows, columns, bias)
        return layer if columns == ALL else SummedLinear(layer, group)

    layers = []
    for index in range(config.layers):
        prefix = f"model.layers.{index}."
        heads = [f"{prefix}self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj")]
        layers.append(
            Layer(
                input_norm=norm(prefix + "input_layernorm"),
                products=tuple(linear(name) for name in heads) if config.query_key_norm else (linear(*heads),),
                head_norms=(norm(f"{prefix}self_attn.q_norm"), norm(f"{prefix}self_attn.k_norm"))
                if config.query_key_norm
                else None,
                output=linear(prefix + "self_attn.o_proj"),
                post_norm=norm(prefix + "post_attention_layernorm"),
                gate_up=linear(prefix + "mlp.gate_proj", prefix + "mlp.up_proj"),
                down=linear(prefix + "mlp.down_proj"),
            )
        )
    head = linear("model.embed_tokens" if config.tied_embedding else "lm_head")
    embedding: Weight
    if config.tied_embedding and isinstance(head, FloatLinear) and whole:
        embedding = head.weight
    else:
        embedding = checkpoint.weight("model.embed_tokens.weight")
        if not isinstance(embedding, QuantizedMatrix) or not quantized:
            embedding = np.ascontiguousarray(checkpoint.array("model.embed_tokens.weight", dtype))
            if partition is not None and config.tied_embedding and isinstance(head, FloatLinear):
                head = FloatLinear(embedding[partition.rows("model.embed_tokens")])  # not twice
    factors = checkpoint.array(ROPE_FACTORS) if ROPE_FACTORS in checkpoint else None
    own = config if partition is None else partition.own(config)
    return Network(own, dtype, embedding, layers, norm("model.norm"), head, factors, group)
