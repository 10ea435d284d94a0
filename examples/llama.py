"""Defines a small decoder of the LLaMA architecture, as a user of MindSpore would write it: stock operators only.

The classes and parameters carry the names that Hugging Face's LLaMA has. Nothing here knows about ms_ascend_ops:
`examples/demo.py` and `examples/train.py` take this network as it is and substitute the fused operators.

One `construct` serves four uses:
- training and scoring: `logits, _ = net(input_ids)`;
- prefill: the same call; its second result is the key/value cache of the tokens seen;
- decoding: `logits, cache = net(new_ids, cache)`; the cache grows;
- decoding with fixed sizes: `logits, new = net(new_id, cache, position)`; the cache has room for tokens to come, and
  its owner writes the new keys and values at the position. One graph without dynamic shapes computes all tokens.

The cache is one tensor of shape (layers, 2, batch, kv heads, length, head_dim). It may have length 0, so that a graph
with dynamic shapes does the prefill and the decoding with a growing cache.
"""

from dataclasses import dataclass

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Normal, initializer


@dataclass(frozen=True)
class LlamaConfig:
    """Holds the sizes of the network. The defaults train to readable text within a minute on two cores."""

    vocab_size: int = 256
    hidden_size: int = 128
    intermediate_size: int = 352
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    max_position_embeddings: int = 1024
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = False

    @property
    def head_dim(self) -> int:
        return self.hidden_size // self.num_attention_heads


class LlamaRMSNorm(nn.Cell):
    """Normalizes by the root mean square, computed in float32 whatever the dtype of its input."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = Parameter(initializer("ones", (hidden_size,), ms.float32), name="weight")
        self.variance_epsilon = eps

    def construct(self, hidden_states: Tensor) -> Tensor:
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.astype(ms.float32)
        variance = hidden_states.pow(2).mean(-1, keep_dims=True)
        hidden_states = hidden_states * ops.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.astype(input_dtype)


class LlamaMLP(nn.Cell):
    """Computes the feed-forward layer: down_proj(silu(gate_proj(x)) * up_proj(x))."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = linear(config.hidden_size, config.intermediate_size)
        self.up_proj = linear(config.hidden_size, config.intermediate_size)
        self.down_proj = linear(config.intermediate_size, config.hidden_size)
        self.act_fn = nn.SiLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class LlamaAttention(nn.Cell):
    """Computes causal self-attention with rotary embedding; several query heads share one key/value head."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.num_heads = config.num_attention_heads
        self.num_key_value_heads = config.num_key_value_heads
        self.num_key_value_groups = config.num_attention_heads // config.num_key_value_heads
        self.head_dim = config.head_dim
        self.q_proj = linear(config.hidden_size, self.num_heads * self.head_dim)
        self.k_proj = linear(config.hidden_size, self.num_key_value_heads * self.head_dim)
        self.v_proj = linear(config.hidden_size, self.num_key_value_heads * self.head_dim)
        self.o_proj = linear(self.num_heads * self.head_dim, config.hidden_size)

    def construct(self, hidden_states, cos, sin, attention_mask, past=None):
        batch, length, _ = hidden_states.shape
        query = self.q_proj(hidden_states).reshape(batch, length, self.num_heads, self.head_dim).swapaxes(1, 2)
        key = self.k_proj(hidden_states).reshape(batch, length, self.num_key_value_heads, self.head_dim).swapaxes(1, 2)
        value = self.v_proj(hidden_states).reshape(batch, length, self.num_key_value_heads, self.head_dim)
        value = value.swapaxes(1, 2)
        query = apply_rotary(query, cos, sin)
        key = apply_rotary(key, cos, sin)
        new = ops.stack((key, value))
        if past is not None:
            present = ops.cat((past, new), axis=3)
            key, value = item(present, 0), item(present, 1)

        # (batch, kv heads, groups * length, head_dim): a key/value head meets all its query heads in one product.
        query = query.reshape(batch, self.num_key_value_heads, self.num_key_value_groups * length, self.head_dim)
        scores = ops.matmul(query, key.swapaxes(2, 3)) * self.head_dim**-0.5
        scores = scores.reshape(batch, self.num_heads, length, -1) + attention_mask
        weights = ops.softmax(scores, axis=-1)
        weights = weights.reshape(batch, self.num_key_value_heads, self.num_key_value_groups * length, -1)
        output = ops.matmul(weights, value).reshape(batch, self.num_heads, length, self.head_dim)
        output = output.swapaxes(1, 2).reshape(batch, length, self.num_heads * self.head_dim)
        return self.o_proj(output), new


class LlamaDecoderLayer(nn.Cell):
    """Computes attention and feed-forward layer, each behind a norm and around a residual."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.self_attn = LlamaAttention(config)
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)

    def construct(self, hidden_states, cos, sin, attention_mask, past=None):
        attention, new = self.self_attn(self.input_layernorm(hidden_states), cos, sin, attention_mask, past)
        hidden_states = hidden_states + attention
        hidden_states = hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))
        return hidden_states, new


class LlamaModel(nn.Cell):
    """Computes embedding, decoder layers and the last norm."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size, embedding_table=Normal(1.0))
        self.layers = nn.CellList([LlamaDecoderLayer(config) for _ in range(config.num_hidden_layers)])
        self.norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        cos, sin = rotary_tables(config)
        self.cos = Tensor(cos)
        self.sin = Tensor(sin)
        length = config.max_position_embeddings
        self.causal_mask = Tensor(np.triu(np.full((length, length), -1e4, np.float32), k=1))
        self.places = Tensor(np.arange(length + 1, dtype=np.int32))

    def construct(self, input_ids, cache=None, position=None):
        if position is None:
            start = 0
            if cache is not None:
                start = cache.shape[4]
            stop = start + input_ids.shape[1]
            cos = self.cos[start:stop]
            sin = self.sin[start:stop]
            attention_mask = self.causal_mask[start:stop, :stop]
        else:
            cos = ops.gather(self.cos, position, 0)
            sin = ops.gather(self.sin, position, 0)
            # The new token stands behind the cache, and the cache is filled up to the position.
            room = cache.shape[4]
            places = self.places[: room + 1]
            unused = ops.logical_and(places >= position, places < room)
            attention_mask = unused.astype(self.causal_mask.dtype).reshape(1, room + 1) * -1e4
        hidden_states = self.embed_tokens(input_ids)
        news = ()
        for index, layer in enumerate(self.layers):
            past = None
            if cache is not None:
                past = item(cache, index)
            hidden_states, new = layer(hidden_states, cos, sin, attention_mask, past)
            news += (new,)
        new = ops.stack(news)
        if cache is not None and position is None:
            new = ops.cat((cache, new), axis=4)
        return self.norm(hidden_states), new


class LlamaForCausalLM(nn.Cell):
    """Computes next-token scores: `logits, cache = net(input_ids, cache=None, position=None)`.

    Args of `construct`:
        input_ids: Tensor[int32], shape (batch, length).
        cache: keys and values of the tokens before, of shape (layers, 2, batch, kv heads, past length, head_dim).
        position: Tensor[int32] of shape (1,), with a cache and one new token: how many tokens of the cache there are.
            What is behind them is not looked at, except that it has to be finite.

    Returns:
        logits of shape (batch, length, vocab_size), and the cache with the new tokens appended. With a position: the
        keys and values of the new token alone.
    """

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = LlamaModel(config)
        self.lm_head = linear(config.hidden_size, config.vocab_size)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.embedding_table

    def construct(self, input_ids, cache=None, position=None):
        hidden_states, cache = self.model(input_ids, cache, position)
        return self.lm_head(hidden_states), cache


def item(x: Tensor, index: int) -> Tensor:
    """Return `x[index]`.

    MindSpore's CPU kernel for slices copies every element by itself: here, whole rows are copied.
    """
    return ops.gather(x, Tensor(index, ms.int32), 0)


def linear(in_features: int, out_features: int) -> nn.Dense:
    """Make a linear layer without bias, whose outputs start with the variance of its inputs: it learns within
    minutes.
    """
    return nn.Dense(in_features, out_features, has_bias=False, weight_init=Normal(in_features**-0.5))


def rotary_tables(config: LlamaConfig) -> tuple[np.ndarray, np.ndarray]:
    """Return cos and sin of position * theta^(-2i/d), each of shape (max_position_embeddings, head_dim)."""
    frequencies = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    angles = np.outer(np.arange(config.max_position_embeddings), frequencies)
    angles = np.concatenate([angles, angles], axis=-1)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotate_half(x: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return ops.cat((-x[..., half:], x[..., :half]), axis=-1)


def apply_rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + rotate_half(x) * sin
