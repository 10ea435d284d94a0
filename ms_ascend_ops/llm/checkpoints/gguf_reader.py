"""Reads a GGUF file as a checkpoint: its keys as a configuration, its tensors under the names of Hugging Face."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, ROPE_FACTORS, Checkpoint, Weight, checked, places_of
from ms_ascend_ops.llm.checkpoints.gguf_file import GGUFFile
from ms_ascend_ops.llm.checkpoints.gguf_special import read_special_tokens
from ms_ascend_ops.llm.checkpoints.gguf_types import FLOATS, stays_quantized
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.config import MOST_LAYERS, ModelConfig, RopeScaling
from ms_ascend_ops.llm.families import FAMILIES, FUSED, Family

__all__ = ["read_gguf"]

# Files call the architectures so; they are these of FAMILIES.
_ARCHITECTURES = {name: name for name in ("llama", "qwen2", "qwen3", "phi3", "olmo2", "glm4", "gemma2")}
_ARCHITECTURES |= {"gemma3": "gemma3_text", "qwen3moe": "qwen3_moe"}
_MIXTURE = {"llama": "mixtral"}  # with experts
# Gemma's networks with so many layers scale queries by the size of a head if the width were divided evenly.
_EVEN_SCALE = {"gemma2": 46, "gemma3": 62}
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"

# Keys of an architecture that are read below, and those that change nothing without others that are refused.
_READ = (
    "block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size", "attention.head_count",
    "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
    "attention.sliding_window", "rope.dimension_count", "rope.freq_base", "rope.scaling.type", "rope.scaling.factor",
    "rope.scale_linear", "expert_count", "expert_used_count", "expert_feed_forward_length",
)  # fmt: skip
# Two types of scaling have these keys.
_YARN_AND_LONGROPE = ("rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow")
# Some architectures have these keys.
_OWN = {
    "gemma2": ("attn_logit_softcapping", "final_logit_softcapping"),
    "gemma3": ("final_logit_softcapping", "rope.freq_base_swa", "attention.sliding_window_pattern"),
    "qwen3moe": ("expert_weights_norm",),
}  # fmt: skip
_IDLE = (
    "attention.causal", "rope.scaling.original_context_length", "rope.scaling.finetuned",
    "tensor_data_layout",
)  # fmt: skip

_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "rope_freqs.weight": ROPE_FACTORS,
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "attn_qkv": "self_attn.qkv_proj",
    "post_attention_norm": "post_self_attn_layernorm",
    "post_ffw_norm": "post_mlp_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "mlp.gate",
    "ffn_gate_exps": "mlp.experts.gate_proj",
    "ffn_up_exps": "mlp.experts.up_proj",
    "ffn_down_exps": "mlp.experts.down_proj",
}


def read_gguf(path: Path) -> Checkpoint:
    """Open a GGUF file.

    Raises:
        ValueError: the file is foreign, truncated, or of an architecture or quantization that is not supported, or a
            tensor is missing; the message names the file and the tensor.
    """
    file = GGUFFile(path)
    config = _config(file)
    config.check(str(path))
    names = {_name(tensor, config): tensor for tensor in file.tensors if tensor not in (_LONG, _SHORT)}
    places = places_of(config, path, {name: file.tensors[tensor].shape for name, tensor in names.items()}, {})
    # llama.cpp's converter puts the pairs that are rotated together next to each other, in files of this architecture.
    permuted = {
        f"model.layers.{layer}.self_attn.{part}"
        for layer in range(config.layers if file.fields["general.architecture"] == "llama" else 0)
        for part in ("q_proj", "k_proj")
    }

    def read(name: str, rows: slice = ALL, columns: slice = ALL) -> Weight:
        place = places[name]
        tensor = file.tensors[names[place.stored]]
        held = range(*place.rows.indices(tensor.rows))[rows]
        weight = tensor.read(slice(held.start, held.stop), columns)
        if config.family.one_plus_gamma and name.endswith("norm.weight"):
            return np.asarray(weight, np.float32) - np.float32(1)  # llama.cpp's converter adds it
        if name.rpartition(".")[0] not in permuted:
            return weight
        return _halves_apart(weight, weight.shape[0] // config.head_size)  # parts have whole heads

    def make_tokenizer() -> Any:
        from ms_ascend_ops.llm.checkpoints.gguf_tokenizer import read_tokenizer  # noqa: PLC0415 - an extra

        return read_tokenizer(path, file.fields)

    shapes = {name: place.shape for name, place in places.items()}
    template = file.fields.get("tokenizer.chat_template")
    return checked(
        Checkpoint(
            path, config, shapes, read, make_tokenizer, template if isinstance(template, str) else None,
            {name: _tensor_name(name) for name in [*shapes, "lm_head.weight"]} | _all_names(config),
            read, _note(file),
        )
    )  # fmt: skip


def _config(file: GGUFFile) -> ModelConfig:
    fields, path = file.fields, file.path
    if (number := fields.get("split.no", 0)) != 0:
        count = fields.get("split.count", 0)
        first = re.sub(r"-\d{5}-of-", "-00001-of-", path.name)
        raise ValueError(f"{path}: split.no is {number}: this is part {number + 1} of {count}; open {first}")
    architecture = fields.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in _ARCHITECTURES:
        raise ValueError(
            f"{path}: general.architecture, the architecture, is {architecture!r}; those that can be read are "
            f"{', '.join(_ARCHITECTURES)}"
        )

    def get(key: str, kind: type, default: Any = None) -> Any:
        value = fields.get(f"{architecture}.{key}", default)
        if value is None:
            raise ValueError(f"{path}: the key {architecture}.{key} is missing")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{path}: the key {architecture}.{key} must be one {kind.__name__}, got {value!r:.60}")
        return value

    _check_keys(file, architecture)
    kind, experts = _ARCHITECTURES[architecture], get("expert_count", int, 0)
    kind = _MIXTURE.get(architecture, kind) if experts else kind
    family = FAMILIES[kind]
    if bool(experts) != family.experts:
        rule = "at least 1" if family.experts else "0: a mixture of experts of this architecture is not supported"
        raise ValueError(f"{path}: {architecture}.expert_count must be {rule}, got {experts}")
    heads, hidden = get("attention.head_count", int), get("embedding_length", int)
    head_size = get("attention.key_length", int, hidden // max(heads, 1))
    if (value_size := get("attention.value_length", int, head_size)) != head_size:
        raise ValueError(f"{path}: heads of keys and values must have one size, got {head_size} and {value_size}")
    rotated = get("rope.dimension_count", int, head_size)
    if rotated != head_size and "partial_rotary_factor" not in family.defaults:
        raise ValueError(f"{path}: rope.dimension_count must be the size of a head ({head_size}), got {rotated}")
    if rotated < 2:
        raise ValueError(f"{path}: rope.dimension_count must be at least 2, got {rotated}")
    if (embedding := file.tensors.get("token_embd.weight")) is None:
        raise ValueError(f"{path}: the tensor token_embd.weight is missing")
    tokens = fields.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list) and len(tokens) != embedding.shape[0]:
        raise ValueError(
            f"{path}: the vocabulary has {len(tokens)} tokens, but token_embd.weight {embedding.shape[0]} rows"
        )
    special = read_special_tokens(path, fields)
    window = get("attention.sliding_window", int, 4096 if family.period else 0)
    if fields.get(f"{architecture}.attention.sliding_window_pattern", family.period) != family.period:
        raise ValueError(
            f"{path}: {architecture}.attention.sliding_window_pattern must be {family.period}, got "
            f"{fields[f'{architecture}.attention.sliding_window_pattern']!r:.60}"
        )
    layers, context, scaling = get("block_count", int), get("context_length", int), _scaling(file, architecture, get)
    if scaling is not None:
        context = scaling.context(context)
    if (family.window == "never" or architecture == "llama") and 0 < window < context:
        raise ValueError(f"{path}: {architecture}.attention.sliding_window is not supported, got {window}")
    return ModelConfig(
        architecture=kind,
        layers=layers,
        hidden=hidden,
        feed_forward=get("expert_feed_forward_length" if kind == "qwen3_moe" else "feed_forward_length", int),
        heads=heads,
        key_heads=get("attention.head_count_kv", int, heads),
        head_size=head_size,
        vocabulary=embedding.shape[0],
        context=context,
        epsilon=get("attention.layer_norm_rms_epsilon", float),
        rope_base=get("rope.freq_base", float, 10000.0),
        rope_scaling=scaling,
        qkv_bias=bool({"blk.0.attn_q.bias", "blk.0.attn_qkv.bias"} & file.tensors.keys()),
        output_bias="blk.0.attn_output.bias" in file.tensors,
        tied_embedding="output.weight" not in file.tensors,
        end_tokens=special.ends,
        begin_token=special.begin if special.add_begin or "tokenizer.ggml.bos_token_id" in fields else None,
        rotary=0 if rotated == head_size else rotated,
        windows=_windows(family, layers, window) if window < context or family.local_base else (),
        query_scale=(heads / hidden) ** 0.5 if layers == _EVEN_SCALE.get(architecture) and hidden > 0 else 0.0,
        score_cap=get("attn_logit_softcapping", float, 50.0) if architecture == "gemma2" else 0.0,
        logit_cap=get("final_logit_softcapping", float, 30.0 if architecture == "gemma2" else 0.0),
        local_base=get("rope.freq_base_swa", float, family.local_base),
        experts=experts,
        experts_used=get("expert_used_count", int) if experts else 0,
        normalized_experts=experts > 0 and fields.get(f"{architecture}.expert_weights_norm", True) is True,
    )


def _windows(family: Family, layers: int, size: int) -> tuple[int, ...]:
    """Return how many keys a query sees, layer by layer; 0: all."""
    if size <= 0 or layers > MOST_LAYERS:
        return ()
    return tuple(size if not family.period or (layer + 1) % family.period else 0 for layer in range(layers))


def _scaling(file: GGUFFile, architecture: str, get: Callable[..., Any]) -> RopeScaling | None:
    """Return the scaling as llama.cpp has it.

    A factor without a type is linear, and 0 is none; factors of frequencies are LongRoPE.
    """
    longrope = _LONG in file.tensors or _SHORT in file.tensors
    kind = get("rope.scaling.type", str, "longrope" if longrope else "linear")
    if kind not in ("none", "linear", "yarn", "longrope") or (kind == "longrope") != longrope:
        raise ValueError(
            f"{file.path}: {architecture}.rope.scaling.type must be none, linear, yarn, or, with factors, longrope, "
            f"got {kind!r:.60}"
        )
    factor = get("rope.scaling.factor", float, get("rope.scale_linear", float, 0.0))
    attention, original = get("rope.scaling.attn_factor", float, 1.0), "rope.scaling.original_context_length"
    if longrope:
        short, long = (tuple(map(float, _factors(file, name))) for name in (_SHORT, _LONG))
        return RopeScaling(
            "longrope", factor or 1.0, original_context=get(original, int), short_factors=short, long_factors=long,
            attention_factor=attention,
        )  # fmt: skip
    if kind == "none" or factor in (0.0, 1.0):
        if attention != 1:
            raise ValueError(
                f"{file.path}: {architecture}.rope.scaling.attn_factor must be 1 without rope.scaling.factor, got "
                f"{attention}"
            )
        return None
    if kind == "linear":
        return RopeScaling("linear", factor)
    return RopeScaling(
        "yarn", factor, original_context=get(original, int), beta_fast=get("rope.scaling.yarn_beta_fast", float, 32.0),
        beta_slow=get("rope.scaling.yarn_beta_slow", float, 1.0),
        attention_factor=attention * (1 + 0.1 * math.log(factor) if factor > 1 else 1.0),
    )  # fmt: skip


def _factors(file: GGUFFile, name: str) -> Any:
    if name not in file.tensors:
        raise ValueError(f"{file.path}: the tensor {name} is missing")
    return np.asarray(file.tensors[name].read(), np.float64)


def _check_keys(file: GGUFFile, architecture: str) -> None:
    """Refuse keys that change the network in a manner that is not known here, unless their value changes nothing."""
    if file.fields.get(f"{architecture}.attention.causal", True) is not True:
        raise ValueError(f"{file.path}: {architecture}.attention.causal must be true")
    stretched = file.fields.get(f"{architecture}.rope.scaling.type") in ("yarn", "longrope") or _LONG in file.tensors
    for key, value in file.fields.items():
        name = key.removeprefix(f"{architecture}.")
        read = name in _READ or name in _IDLE or name in _OWN.get(architecture, ())
        if name == key or read or (name in _YARN_AND_LONGROPE and stretched):
            continue
        # A scale of 1, or one group, changes nothing; of anything else that is counted one is something.
        nothing = value in (0, "", "none", []) or (value == 1 and (isinstance(value, float) or "group" in name))
        if not nothing or value is True:
            raise ValueError(f"{file.path}: the key {key} is not supported, got {value!r:.60}")


def _note(file: GGUFFile) -> str:
    """Return which types become floats, and what that takes."""
    held = [
        one
        for one in file.tensors.values()
        if one.kind not in FLOATS and (len(one.shape) > 2 or not stays_quantized(one.kind))
    ]
    if not held:
        return ""
    kinds = {f"{one.kind}{' of experts' if len(one.shape) > 2 else ''}" for one in held}
    stored = sum(one.data.nbytes for one in held) / 2**20
    floats = sum(4 * math.prod(one.shape) for one in held) / 2**20
    return (
        f"{file.path}: {', '.join(sorted(kinds))} ({stored:.1f} MiB) become floats, which take {floats:.1f} MiB as "
        "float32"
    )


def _name(tensor: str, config: ModelConfig) -> str:
    """Return the name that Hugging Face gives a tensor; of others, their own."""
    if tensor in _TOP:
        return _TOP[tensor]
    parts = tensor.split(".")
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _IN_LAYER:
        name = _IN_LAYER[parts[2]]
        if name == "mlp.up_proj" and "mlp.gate_up_proj" in config.family.fused:
            name = "mlp.gate_up_proj"
        return f"model.layers.{parts[1]}.{name}.{parts[3]}"
    return tensor


def _tensor_name(name: str) -> str:
    return next((tensor for tensor, ours in _TOP.items() if ours == name), name)


def _all_names(config: ModelConfig) -> dict[str, str]:
    """Return what the file calls the weights of the layers."""
    theirs = {ours: name for name, ours in _IN_LAYER.items()}
    for fused in config.family.fused:
        theirs |= dict.fromkeys(FUSED[fused], theirs.get(fused, theirs["mlp.up_proj"]))
    for kind in ("gate", "up", "down"):
        name = theirs.pop(f"mlp.experts.{kind}_proj")
        theirs |= {f"mlp.experts.{expert}.{kind}_proj": name for expert in range(config.experts)}
    return {
        f"model.layers.{layer}.{ours}.{kind}": f"blk.{layer}.{name}.{kind}"
        for layer in range(config.layers)
        for ours, name in theirs.items()
        for kind in ("weight", "bias")
    }


def _halves_apart(weight: Weight, heads: int) -> Weight:
    """Move rows 2 i and 2 i + 1 of a head to i and i + half, where `rotary_embedding` expects a pair."""
    rows = weight.shape[0]
    order = np.arange(rows).reshape(heads, -1, 2).swapaxes(1, 2).ravel()
    return weight.take(order) if isinstance(weight, QuantizedMatrix) else weight[order]
