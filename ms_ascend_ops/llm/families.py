"""What sets the architectures apart, beside their sizes: one line each in the place of a class each.

Weights have the names of Llama's classes here. `post_attention_layernorm` is in front of the feed-forward layer,
`post_self_attn_layernorm` and `post_mlp_layernorm` are of what attention and it give, before they are added.
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
    """An architecture.

    Args:
        model: its class in transformers.
        norms: "before" attention and the feed-forward layer, "behind" them, or "around".
        query_key_norm: of queries and keys: "none", "head": of each head, or "all": of all heads together.
        interleaved: whether rotary pairs are neighbours, not half a head apart.
        fused: those of `FUSED` that its files have.
        names: of norms, what its files call them, where that differs.
        defaults: of keys of config.json that are not there at all; null is something else.
        window: whether `sliding_window` counts: "never", "always", or "used" with `use_sliding_window`.
    """

    model: str
    norms: str = "before"
    query_key_norm: str = "none"
    interleaved: bool = False
    fused: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, int | float] = field(default_factory=dict)
    window: str = "never"


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
}  # fmt: skip
