"""Defines a layer of a decoder, and the decoder of such layers. The only place that says what they compute.

The functions are written over an interface of operators, `ops`, which decides what becomes of them:

- `ms_ascend_ops.ops`: calls on tensors of MindSpore; in a construct that is compiled, nodes of a graph to export
  (graph.py); with parameters as weights, gradients (finetune/network.py);
- a `Recorder` (program.py): a list of launches on fixed memory;
- `Eager` (program.py): calls on arrays, between which weights may be exchanged and activations looked at (quantize/).

A layer's weights are arrays, tensors or parameters alike. Graphs are compiled from the source of these functions, so
they keep to what MindSpore's compiler understands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.families import NORMS
from ms_ascend_ops.llm.linear import Experts, FloatLinear, Linear, QuantizedLinear, SummedLinear

__all__ = ["PARTS", "Layer", "attend_to_cache", "converted", "decoder", "layer_product", "layers_of", "normalized"]


@dataclass(eq=False)
class Layer:
    """Holds the weights of a decoder layer. A norm that the network has not is None."""

    config: ModelConfig
    index: int
    products: tuple[Linear, ...]  # (qkv,) or (query, key, value)
    output: Linear
    gate_up: Linear | None
    down: Linear | None
    experts: Experts | None = None  # in the place of the two
    input_norm: Any = None  # of what attention gets
    post_norm: Any = None  # of what the feed-forward layer gets
    attended_norm: Any = None  # of what attention gives
    down_norm: Any = None  # of what the feed-forward layer gives
    query_norm: Any = None
    key_norm: Any = None
    window: int = 0  # keys that a query sees at most; 0: all
    base: int = 0  # which of the network's rotary bases it has


PARTS = (Layer, Experts, FloatLinear, QuantizedLinear, SummedLinear)


def decoder(ops: Any, network: Any, x: Any, angles: Any, attend: Callable[..., Any]) -> Any:
    """Compute the normalized states behind the last layer, shape (b, s, hidden).

    Args:
        ops: the operators.
        network: has `layers`, `norm` behind the last one, and `config`.
        x: embedded tokens, shape (b, s, hidden).
        angles: for each rotary base cosines and sines, float32, shape (b, s, rotary pairs) or (s, rotary pairs).
        attend: attention of a layer, `attend(layer, query, key, value)`.
    """
    layers, config = network.layers, network.config
    residual = x
    x = normalized(ops, residual, layers[0].input_norm, config)
    for index in range(len(layers)):
        product, residual = layer_product(ops, layers[index], x, residual, angles, attend)
        following = layers[index + 1].input_norm if index + 1 < len(layers) else network.norm
        x, residual = _added(ops, residual, product, following, config)
    return x


def normalized(ops: Any, x: Any, norm: Any, config: ModelConfig) -> Any:
    """Return x behind a norm, if there is one."""
    return x if norm is None else ops.rms_norm(x, norm, epsilon=config.epsilon, scheme=config.family.norm_scheme)[0]


def _added(ops: Any, residual: Any, product: Any, norm: Any, config: ModelConfig) -> tuple[Any, Any]:
    """Return the normalized sum, and the sum."""
    if norm is None:
        total = ops.add(residual, product)
        return total, total
    scheme = config.family.norm_scheme
    x, _, total = ops.add_rms_norm(residual, product, norm, epsilon=config.epsilon, scheme=scheme)
    return x, total


def layer_product(
    ops: Any, layer: Any, x: Any, residual: Any, angles: Any, attend: Callable[..., Any]
) -> tuple[Any, Any]:  # fmt: skip
    """Return what a layer adds to the residual last, and that residual; see `decoder`. x is the normalized residual."""
    config = layer.config
    cos, sin = angles[layer.base]
    query, key, value = _heads(ops, layer, x, cos, sin)
    attended = attend(layer, query, key, value)
    product = layer.output(ops, attended.reshape(x.shape[0], x.shape[1], -1))
    product = normalized(ops, product, layer.attended_norm, config)
    x, residual = _added(ops, residual, product, layer.post_norm, config)
    if layer.experts is None:
        product = layer.down(ops, layer.gate_up.gated(ops, x, config.family.activation))
    else:
        product = layer.experts(ops, x)
    return normalized(ops, product, layer.down_norm, config), residual


def _heads(ops: Any, layer: Any, x: Any, cos: Any, sin: Any) -> tuple[Any, Any, Any]:
    """Return queries and keys, rotated, and values: (b, s, heads, head_size)."""
    config = layer.config
    batch, seq, size = x.shape[0], x.shape[1], config.head_size
    mode, rotary = config.rotary_mode, config.rotary
    product = layer.products[0](ops, x)
    if len(layer.products) == 1:
        sizes = (config.heads, config.key_heads, config.key_heads)
        product = product.reshape(batch, seq, -1, size)
        query, key, value = ops.qkv_rotary_embedding(
            product, cos, sin, *sizes, mode=mode, layout="BSND", rotary_dim=rotary
        )
        return query, key, value
    key, value = layer.products[1](ops, x), layer.products[2](ops, x).reshape(batch, seq, -1, size)
    if config.norm_of_all_heads:
        product = normalized(ops, product, layer.query_norm, config)
        key = normalized(ops, key, layer.key_norm, config)
    product, key = product.reshape(batch, seq, -1, size), key.reshape(batch, seq, -1, size)
    if not config.norm_of_all_heads:
        product = normalized(ops, product, layer.query_norm, config)
        key = normalized(ops, key, layer.key_norm, config)
    query = ops.rotary_embedding(product, cos, sin, mode=mode, rotary_dim=rotary)
    return query, ops.rotary_embedding(key, cos, sin, mode=mode, rotary_dim=rotary), value


def attend_to_cache(
    ops: Any, layer: Any, query: Any, key: Any, value: Any, keys: Any, values: Any, slots: Any, tables: Any,
    lengths: Any,
) -> Any:  # fmt: skip
    """Write new keys and values into a paged cache, and attend to all of it in the cache's type."""
    dtype, config = query.dtype, layer.config
    query, key, value = _cast(query, keys.dtype), _cast(key, keys.dtype), _cast(value, keys.dtype)
    keys, values = ops.kv_cache_update(key, value, keys, values, slots)
    scale, cap = config.scale_of_scores, config.score_cap
    attended = ops.paged_attention(query, keys, values, tables, lengths, scale, layer.window, cap)
    return _cast(attended, dtype)


def _cast(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


def layers_of(
    config: ModelConfig, norm: Callable[[str], Any], linear: Callable[..., Linear], experts: Callable[[str], Experts],
    separate: bool = False,
) -> list[Layer]:  # fmt: skip
    """Return the layers of a network, by the names of its weights.

    Args:
        config: of the network.
        norm: gives the weight of a norm.
        linear: gives a linear layer of the weights of some names, one below the other.
        experts: gives a mixture of experts.
        separate: whether queries, keys and values have a product each in any case; with norms of heads they have.
    """
    layers = []
    norms = NORMS[config.family.norms]
    for index in range(config.layers):

        def norm_of(name: str, index: int = index) -> Any:
            return norm(f"model.layers.{index}.{name}") if name in norms else None

        attention, mlp = f"model.layers.{index}.self_attn.", f"model.layers.{index}.mlp"
        window = config.windows[index] if config.windows else 0
        heads = [f"{attention}{name}_proj" for name in "qkv"]
        layers.append(
            Layer(
                config, index,
                products=tuple(map(linear, heads)) if separate or config.query_key_norm else (linear(*heads),),
                output=linear(f"{attention}o_proj"),
                gate_up=None if config.experts else linear(f"{mlp}.gate_proj", f"{mlp}.up_proj"),
                down=None if config.experts else linear(f"{mlp}.down_proj"),
                experts=experts(mlp) if config.experts else None,
                input_norm=norm_of("input_layernorm"),
                post_norm=norm_of("post_attention_layernorm"),
                attended_norm=norm_of("post_self_attn_layernorm"),
                down_norm=norm_of("post_mlp_layernorm"),
                query_norm=norm(f"{attention}q_norm") if config.query_key_norm else None,
                key_norm=norm(f"{attention}k_norm") if config.query_key_norm else None,
                window=window,
                base=1 if config.local_base and window else 0,
            )
        )  # fmt: skip
    return layers


def converted(part: Any, convert: Callable[[Any], Any]) -> Any:
    """Return a part of a network with its arrays as tensors of another library."""
    if isinstance(part, np.ndarray):
        return convert(part)
    if isinstance(part, (tuple, list)):
        return type(part)(converted(one, convert) for one in part)
    if isinstance(part, PARTS):
        return replace(part, **{f.name: converted(getattr(part, f.name), convert) for f in fields(part)})
    return part
