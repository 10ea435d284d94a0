"""config.json of a directory of Hugging Face's as a configuration, with the defaults of transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ms_ascend_ops.llm.checkpoints.json_file import read_json
from ms_ascend_ops.llm.config import ModelConfig, RopeScaling

__all__ = ["read_config"]

# What model types are here.
_ARCHITECTURES = {"llama": "llama", "mistral": "mistral", "qwen2": "qwen2", "qwen3": "qwen3", "smollm": "llama"}
# What a class of transformers takes for keys that are not there at all; null is something else.
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen2": {"num_key_value_heads": 32, "sliding_window": 4096},
    "qwen3": {"num_key_value_heads": 32, "sliding_window": 4096, "head_dim": 128},
}

_READ = (
    "model_type", "hidden_act", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta",
    "rope_scaling", "rope_parameters", "partial_rotary_factor", "tie_word_embeddings", "sliding_window",
    "use_sliding_window", "max_window_layers", "layer_types", "eos_token_id", "bos_token_id",
    "attention_bias", "mlp_bias", "attention_dropout", "compression_config",  # the biases are those of the file
)  # fmt: skip
# Other keys with these words in them may change a network; without them they say something of training or of tools.
_CHANGES = re.compile(
    "scal|multiplier|softcap|logit_cap|alibi|qk_|_norm|norm_|clip|clamp|residual|rope|rotary|window|sliding|expert|moe|"
    "bias|sink|interleave|gate|position_embedding|activation|mup_|depth_|tuning|chunk_size"
)
_NEUTRAL: tuple[Any, ...] = (None, 0, 1.0, "", "none", "default", "rope", "silu", [], {})
_ROPE_KEYS = (
    "rope_type", "type", "rope_theta", "factor", "low_freq_factor", "high_freq_factor",
    "original_max_position_embeddings", "partial_rotary_factor",
)  # fmt: skip


def read_config(
    path: Path, data: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], same_head: bool
) -> ModelConfig:
    """The configuration of a network.

    Args:
        path: of config.json.
        data: what it holds.
        shapes: of all weights.
        same_head: whether the last product has the weight of the embedding, as far as the weights say.

    Raises:
        ValueError: a key is missing, does not fit, or changes the network in a manner that is not supported.
    """
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in _ARCHITECTURES:
        raise ValueError(f"{path}: model_type is {kind!r:.60}; those that can be read are {', '.join(_ARCHITECTURES)}")
    for key, value in data.items():
        if key not in _READ and _CHANGES.search(key) and (value not in _NEUTRAL or value is True):
            raise ValueError(f"{path}: the key {key:.60} is not supported, got {value!r:.60}")
    if (activation := data.get("hidden_act", "silu")) not in ("silu", "swish"):
        raise ValueError(f"{path}: hidden_act must be silu, got {activation!r:.60}")

    def get(key: str, kind_of: type, default: Any = None) -> Any:
        value = data.get(key, _DEFAULTS.get(kind, {}).get(key))
        value = default if value is None else value
        if value is None:
            raise ValueError(f"{path}: the key {key} is missing")
        if kind_of is float and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53:
            value = float(value)
        if not isinstance(value, kind_of) or (isinstance(value, bool) and kind_of is not bool):
            raise ValueError(f"{path}: the key {key} must be one {kind_of.__name__}, got {value!r:.60}")
        return value

    heads, hidden, layers = get("num_attention_heads", int), get("hidden_size", int), get("num_hidden_layers", int)
    context = get("max_position_embeddings", int)
    base, scaling = _rope(path, data, context)
    window = get("sliding_window", int, 0) if kind != "llama" else 0
    if window > 0 and _has_window(path, data, kind, layers):
        context = min(context, window)
    prefix = "model.layers.0."
    if any(f"{prefix}mlp.{name}.bias" in shapes for name in ("gate_proj", "up_proj", "down_proj")):
        raise ValueError(f"{path}: biases in the feed-forward layer are not supported")
    return ModelConfig(
        architecture=_ARCHITECTURES[kind],
        layers=layers,
        hidden=hidden,
        feed_forward=get("intermediate_size", int),
        heads=heads,
        key_heads=get("num_key_value_heads", int, heads),
        head_size=get("head_dim", int, hidden // max(heads, 1)),
        vocabulary=get("vocab_size", int),
        context=context,
        epsilon=get("rms_norm_eps", float, 1e-6),
        rope_base=base,
        rope_scaling=scaling,
        qkv_bias=any(f"{prefix}self_attn.{name}_proj.bias" in shapes for name in "qkv"),
        output_bias=f"{prefix}self_attn.o_proj.bias" in shapes,
        query_key_norm=kind == "qwen3",
        tied_embedding=same_head,
        end_tokens=_ends(path, data),
        begin_token=data["bos_token_id"] if type(data.get("bos_token_id")) is int else None,
    )


def _has_window(path: Path, data: Mapping[str, Any], kind: str, layers: int) -> bool:
    """Whether a layer's attention sees a window only."""
    if kind == "mistral":
        return True
    if data.get("use_sliding_window") is not True:
        return False
    types = data.get("layer_types")
    if types is None:
        first = data.get("max_window_layers", 28)
        return not isinstance(first, int) or first < layers
    if not isinstance(types, list) or any(one not in ("full_attention", "sliding_attention") for one in types):
        raise ValueError(f"{path}: layer_types must be full_attention or sliding_attention, got {types!r:.60}")
    return "sliding_attention" in types


def _ends(path: Path, data: Mapping[str, Any]) -> tuple[int, ...]:
    end = data.get("eos_token_id")
    generation = path.parent / "generation_config.json"
    if generation.is_file():
        found = read_json(generation)
        end = found["eos_token_id"] if found.get("eos_token_id") is not None else end
    ends = end if isinstance(end, list) else [] if end is None else [end]
    if any(type(token) is not int for token in ends):
        raise ValueError(f"{path}: eos_token_id must be a number or a list of numbers, got {end!r:.60}")
    return tuple(dict.fromkeys(ends))


def _rope(path: Path, data: Mapping[str, Any], context: int) -> tuple[float, RopeScaling | None]:
    """Newer files have all of it in rope_parameters, older ones a base, and a scaling if there is one."""
    parameters = data.get("rope_scaling") or data.get("rope_parameters") or {}
    if not isinstance(parameters, dict):
        raise ValueError(f"{path}: the rotary embedding must be an object, got {parameters!r:.60}")
    if unknown := [key for key in parameters if key not in _ROPE_KEYS]:
        kind = parameters.get("rope_type", parameters.get("type", "default"))
        if kind in ("default", "linear", "llama3"):
            raise ValueError(f"{path}: the rotary embedding's key {unknown[0]:.60} is not supported")
    for share in (data.get("partial_rotary_factor"), parameters.get("partial_rotary_factor")):
        if share not in (None, 1.0):
            raise ValueError(f"{path}: partial_rotary_factor must be 1, got {share!r:.60}")
    base = parameters.get("rope_theta", data.get("rope_theta"))
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    try:
        base = 10000.0 if base is None else float(base)
        if kind == "default":
            return base, None
        if kind == "linear":
            return base, RopeScaling("linear", float(parameters["factor"]))
        if kind == "llama3":
            return base, RopeScaling(
                "llama3", float(parameters["factor"]), float(parameters["low_freq_factor"]),
                float(parameters["high_freq_factor"]),
                int(parameters.get("original_max_position_embeddings", context)),
            )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path}: the rotary embedding {dict(parameters)!r:.200} cannot be read: {error}") from error
    raise ValueError(f"{path}: the rotary embedding must be of type default, linear or llama3, got {kind!r:.60}")
