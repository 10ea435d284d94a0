"""Says what sets the architectures apart, beside their sizes: one line each in the place of a class each.

Weights have the names of Llama's classes here. `post_attention_layernorm` is in front of the feed-forward layer,
`post_self_attn_layernorm` and `post_mlp_layernorm` are of what attention and it give, before they are added. Of a
mixture of experts `mlp.gate` is the router, and `mlp.experts.0.gate_proj` a matrix of the first one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FAMILIES", "FUSED", "NORMS", "Family"]

_BEFORE, _BEHIND = ("input_layernorm", "post_attention_layernorm"), ("post_self_attn_layernorm", "post_mlp_layernorm")
# The norms of a layer, by where they are.
NORMS: Mapping[str, tuple[str, ...]] = {"before": _BEFORE, "behind": _BEHIND, "around": _BEFORE + _BEHIND}

# Matrices that some files have as one, and their parts, one below the other.
FUSED: Mapping[str, tuple[str, ...]] = {
    "self_attn.qkv_proj": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "mlp.gate_up_proj": ("mlp.gate_proj", "mlp.up_proj"),
}


@dataclass(frozen=True)
class Family:
    """Describes an architecture.

    Args:
        model: its class in transformers.
        norms: "before" attention and the feed-forward layer, "behind" them, or "around".
        query_key_norm: of queries and keys: "none", "head": of each head, or "all": of all heads together.
        interleaved: whether rotary pairs are neighbours, not half a head apart.
        fused: those of `FUSED` that its files have.
        names: of parts of a weight's name, what its files call them, where that differs.
        keys: of config.json, which no other family has.
        defaults: of keys of config.json that are not there at all; null is something else.
        window: whether `sliding_window` counts: "never", "always" in all layers, "used" with `use_sliding_window` in
            those of `layer_types` or from `max_window_layers` on, "used by all" of them with it, or "alternating", by
            `layer_types`.
        period: of alternating windows: the last of so many layers sees all, unless `layer_types` says otherwise.
        activation: of the feed-forward layer: "silu", or "gelu_tanh", GELU by tanh.
        one_plus_gamma: norms multiply by 1 + their weight, in float32.
        scaled_embedding: rows of the embedding are multiplied by the root of their size.
        local_base: of the rotary angles of layers with a window, where they have one of their own; 0: they have not.
        normalized_experts: whether the weights of a token's experts add up to 1, where no key says it.
    """

    model: str
    norms: str = "before"
    query_key_norm: str = "none"
    interleaved: bool = False
    fused: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, int | float] = field(default_factory=dict)
    window: str = "never"
    period: int = 0
    activation: str = "silu"
    one_plus_gamma: bool = False
    scaled_embedding: bool = False
    local_base: float = 0.0
    normalized_experts: bool = False

    @property
    def experts(self) -> bool:
        """Tell whether feed-forward layers are mixtures of experts."""
        return "num_experts_per_tok" in self.keys

    @property
    def norm_scheme(self) -> str:
        """Return how norms multiply by their weights, as `ops.rms_norm` says it."""
        return "one_plus_gamma" if self.one_plus_gamma else "round_then_scale"


# Gemma's files call the norms around attention and the feed-forward layer so.
_AROUND = {
    "post_self_attn_layernorm": "post_attention_layernorm", "post_attention_layernorm": "pre_feedforward_layernorm",
    "post_mlp_layernorm": "post_feedforward_layernorm",
}  # fmt: skip
_GEMMA = {"num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096, "query_pre_attn_scalar": 256}
_GEMMA_KEYS = ("query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping", "hidden_activation")
_WINDOW = {"num_key_value_heads": 32, "sliding_window": 4096}

FAMILIES: Mapping[str, Family] = {
    "llama": Family("LlamaForCausalLM"),
    "mistral": Family(
        "MistralForCausalLM", defaults={"num_key_value_heads": 8, "sliding_window": 4096}, window="always"
    ),
    "qwen2": Family("Qwen2ForCausalLM", defaults=_WINDOW, window="used"),
    "qwen3": Family("Qwen3ForCausalLM", query_key_norm="head", defaults=_WINDOW | {"head_dim": 128}, window="used"),
    "phi3": Family(
        "Phi3ForCausalLM", fused=tuple(FUSED), defaults={"rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0},
        window="always",
    ),
    "olmo2": Family(
        "Olmo2ForCausalLM", norms="behind", query_key_norm="all", defaults={"rms_norm_eps": 1e-5},
        names={
            "post_self_attn_layernorm": "post_attention_layernorm", "post_mlp_layernorm": "post_feedforward_layernorm",
        },
    ),
    "glm4": Family(
        "Glm4ForCausalLM", norms="around", interleaved=True, fused=("mlp.gate_up_proj",),
        defaults={
            "num_key_value_heads": 2, "head_dim": 128, "rms_norm_eps": 1.5625e-7, "partial_rotary_factor": 0.5,
        },
    ),
    "gemma2": Family(
        "Gemma2ForCausalLM", norms="around", names=_AROUND, keys=_GEMMA_KEYS, window="alternating", period=2,
        activation="gelu_tanh", one_plus_gamma=True, scaled_embedding=True,
        defaults=_GEMMA | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    ),
    "gemma3_text": Family(
        "Gemma3ForCausalLM", norms="around", names=_AROUND,
        keys=(*_GEMMA_KEYS, "rope_local_base_freq", "sliding_window_pattern", "_sliding_window_pattern"),
        window="alternating", period=6, query_key_norm="head", activation="gelu_tanh", one_plus_gamma=True,
        scaled_embedding=True, local_base=10000.0,
        defaults=_GEMMA | {"rope_theta": 1e6},
    ),
    "mixtral": Family(
        "MixtralForCausalLM", names={
            "mlp": "block_sparse_moe", "gate_proj": "w1", "up_proj": "w3", "down_proj": "w2",
        }, keys=("num_local_experts", "num_experts_per_tok"), window="always", normalized_experts=True,
        defaults={
            "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_local_experts": 8,
            "num_experts_per_tok": 2,
        },
    ),
    "qwen3_moe": Family(
        "Qwen3MoeForCausalLM", query_key_norm="head", window="used by all",
        keys=("num_experts", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size", "norm_topk_prob"),
        defaults={
            "num_key_value_heads": 4, "sliding_window": 4096, "num_experts": 128, "num_experts_per_tok": 8,
            "moe_intermediate_size": 768,
        },
    ),
}  # fmt: skip
