"""Reads config.json of a directory of Hugging Face's as a configuration, with the defaults of transformers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ms_ascend_ops.llm.checkpoints.json_file import read_json
from ms_ascend_ops.llm.config import MOST_LAYERS, ModelConfig, RopeScaling
from ms_ascend_ops.llm.families import FAMILIES, Family

__all__ = ["architecture", "read_config"]

# These model types are taken, beside those of FAMILIES.
_ALIASES = {"smollm": "llama"}

_READ = (
    "model_type", "hidden_act", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "vocab_size", "max_position_embeddings", "rms_norm_eps", "rope_theta",
    "rope_scaling", "rope_parameters", "original_max_position_embeddings", "partial_rotary_factor",
    "tie_word_embeddings", "sliding_window",
    "use_sliding_window", "max_window_layers", "layer_types", "eos_token_id", "bos_token_id",
    "attention_bias", "mlp_bias", "attention_dropout", "compression_config",  # the biases are those of the file
)  # fmt: skip
# Other keys with these words in them may change a network; without them they say something of training or of tools.
_CHANGES = re.compile(
    "scal|multiplier|softcap|logit_cap|alibi|qk_|_norm|norm_|clip|clamp|residual|rope|rotary|window|sliding|expert|moe|"
    "bias|sink|interleave|gate|position_embedding|activation|mup_|depth_|tuning|chunk_size"
)
_NEUTRAL: tuple[Any, ...] = (None, 0, 1.0, "", "none", "default", "rope", "silu", [], {})
# Keys of the rotary embedding, by its type.
_ORIGINAL = "original_max_position_embeddings"
_ROPE_KEYS: Mapping[str, tuple[str, ...]] = {
    "default": ("rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", _ORIGINAL),
    "linear": (),
    "llama3": ("low_freq_factor", "high_freq_factor"),
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "longrope": ("attention_factor", "short_factor", "long_factor"),
}


def read_config(
    path: Path, data: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], same_head: bool
) -> ModelConfig:
    """Read the configuration of a network.

    Args:
        path: of config.json.
        data: what it holds.
        shapes: of all weights.
        same_head: whether the last product has the weight of the embedding, as far as the weights say.

    Raises:
        ValueError: a key is missing, does not fit, or changes the network in a manner that is not supported.
    """
    kind = architecture(path, data)
    family = FAMILIES[kind]
    for key, value in data.items():
        if key in _READ or key in family.keys or not _CHANGES.search(key):
            continue
        if value not in _NEUTRAL or value is True:
            raise ValueError(f"{path}: the key {key:.60} is not supported, got {value!r:.60}")
    _check_activation(path, data, family)

    def get(key: str, kind_of: type, default: Any = None) -> Any:
        value = data.get(key, family.defaults.get(key))
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
    base, scaling, share, local = _rope(path, data, family, context)
    if scaling is not None:
        context = scaling.context(context)
    head_size = get("head_dim", int, hidden // max(heads, 1))
    rotary = 0 if share == 1 else int(head_size * share)
    if share != 1 and rotary < 2:
        raise ValueError(f"{path}: partial_rotary_factor must leave a pair of a head of {head_size}, got {share!r:.60}")
    window = get("sliding_window", int, 0)
    windows: tuple[int, ...] = ()
    # Where angles depend on them, windows count beyond the context, too.
    if window > 0 and (window < context or family.local_base) and layers <= MOST_LAYERS:
        windows = _windows(path, data, family, layers, window)
    if kind == "gemma3_text" and data.get("attn_logit_softcapping") is not None:
        raise ValueError(f"{path}: the key attn_logit_softcapping is not supported in {kind}")
    caps = [
        get(key, float) if key in family.keys and data.get(key, family.defaults.get(key)) is not None else 0.0
        for key in ("attn_logit_softcapping", "final_logit_softcapping")
    ]
    scalar = get("query_pre_attn_scalar", float) if "query_pre_attn_scalar" in family.keys else float(head_size)
    if scalar <= 0:
        raise ValueError(f"{path}: query_pre_attn_scalar must be > 0, got {scalar}")
    inner = "moe_intermediate_size"
    counts = [key for key in ("num_experts", "num_local_experts") if key in family.keys]  # transformers renamed it
    counts = [key for key in counts if data.get(key) is not None] or counts
    prefix = "model.layers.0."
    if any(f"{prefix}mlp.{name}.bias" in shapes for name in ("gate_proj", "up_proj", "down_proj")):
        raise ValueError(f"{path}: biases in the feed-forward layer are not supported")
    return ModelConfig(
        architecture=kind,
        layers=layers,
        hidden=hidden,
        feed_forward=get(inner if inner in family.keys else "intermediate_size", int),
        heads=heads,
        key_heads=get("num_key_value_heads", int, heads),
        head_size=head_size,
        vocabulary=get("vocab_size", int),
        context=context,
        epsilon=get("rms_norm_eps", float, 1e-6),
        rope_base=base,
        rope_scaling=scaling,
        qkv_bias=any(f"{prefix}self_attn.{name}_proj.bias" in shapes for name in "qkv"),
        output_bias=f"{prefix}self_attn.o_proj.bias" in shapes,
        tied_embedding=same_head,
        end_tokens=_ends(path, data),
        begin_token=data["bos_token_id"] if type(data.get("bos_token_id")) is int else None,
        rotary=rotary,
        windows=windows,
        query_scale=0.0 if scalar == head_size else scalar**-0.5,
        score_cap=caps[0],
        logit_cap=caps[1],
        local_base=local,
        experts=get(counts[0], int) if counts else 0,
        experts_used=get("num_experts_per_tok", int) if counts else 0,
        normalized_experts=family.normalized_experts or data.get("norm_topk_prob") is True,
    )


def architecture(path: Path, data: Mapping[str, Any]) -> str:
    """Return which of FAMILIES it is.

    Raises:
        ValueError: it is none of them.
    """
    kind = data.get("model_type")
    if isinstance(kind, str) and (kind := _ALIASES.get(kind, kind)) in FAMILIES:
        return kind
    raise ValueError(f"{path}: model_type is {kind!r:.60}; those that can be read are {', '.join(FAMILIES)}")


def _check_activation(path: Path, data: Mapping[str, Any], family: Family) -> None:
    """Refuse other activations, and what makes a network of these families another one."""
    gelu = family.activation == "gelu_tanh"
    key, names = ("hidden_activation", ["gelu_pytorch_tanh", None]) if gelu else ("hidden_act", ["silu", "swish"])
    activation = data.get(key, names[0])
    if activation not in names:
        raise ValueError(f"{path}: {key} must be {names[0]}, got {activation!r:.60}")
    if data.get("use_bidirectional_attention"):
        raise ValueError(f"{path}: use_bidirectional_attention is not supported, got true")
    if family.experts and data.get("decoder_sparse_step", 1) != 1:
        raise ValueError(f"{path}: decoder_sparse_step must be 1, got {data['decoder_sparse_step']!r:.60}")
    if family.experts and data.get("mlp_only_layers"):
        raise ValueError(f"{path}: mlp_only_layers must be empty, got {data['mlp_only_layers']!r:.60}")


def _windows(path: Path, data: Mapping[str, Any], family: Family, layers: int, size: int) -> tuple[int, ...]:
    """Return how many keys a query sees, layer by layer; 0: all."""
    if family.window == "never" or ("used" in family.window and data.get("use_sliding_window") is not True):
        return ()
    types = data.get("layer_types")
    alike = family.window in ("always", "used by all")
    if alike and isinstance(types, list) and any(one != "sliding_attention" for one in types):
        raise ValueError(f"{path}: layer_types must be sliding_attention in all layers, got {types!r:.60}")
    if family.period and types is None:
        period = data.get("sliding_window_pattern", data.get("_sliding_window_pattern", family.period))
        if not isinstance(period, int) or isinstance(period, bool) or period < 1:
            raise ValueError(f"{path}: sliding_window_pattern must be at least 1, got {period!r:.60}")
        windows = tuple(size if (layer + 1) % period else 0 for layer in range(layers))
    elif alike:
        windows = (size,) * layers
    elif types is None:
        first = data.get("max_window_layers", 28)
        if not isinstance(first, int):
            raise ValueError(f"{path}: max_window_layers must be a number, got {first!r:.60}")
        windows = tuple(0 if layer < first else size for layer in range(layers))
    else:
        sizes = {"full_attention": 0, "sliding_attention": size}
        if not isinstance(types, list) or len(types) != layers or any(one not in sizes for one in types):
            raise ValueError(
                f"{path}: layer_types must be full_attention or sliding_attention for each layer, got {types!r:.60}"
            )
        windows = tuple(sizes[one] for one in types)
    return windows if any(windows) else ()


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


def _rope(
    path: Path, data: Mapping[str, Any], family: Family, context: int
) -> tuple[float, RopeScaling | None, float, float]:  # fmt: skip
    """Return base, scaling, the share of a head that is rotated, and the base of layers with a window.

    Newer files have all of it in rope_parameters, older ones a base, and a scaling if there is one.
    """
    parameters = data.get("rope_scaling") or data.get("rope_parameters") or {}
    if not isinstance(parameters, dict):
        raise ValueError(f"{path}: the rotary embedding must be an object, got {parameters!r:.60}")
    local = data.get("rope_local_base_freq", family.local_base) if family.local_base else 0.0
    if family.local_base and {"full_attention", "sliding_attention"} & parameters.keys():
        parameters, sliding = (parameters.get(f"{kind}_attention") or {} for kind in ("full", "sliding"))
        if not isinstance(parameters, dict) or not isinstance(sliding, dict):
            raise ValueError(f"{path}: the rotary embedding must have objects, got {parameters!r:.60}")
        if sliding.get("rope_type", "default") != "default":
            raise ValueError(
                f"{path}: rope_type of sliding_attention must be default, got {sliding['rope_type']!r:.60}"
            )
        local = sliding.get("rope_theta", local)
    kind: Any = parameters.get("rope_type", parameters.get("type", "default"))
    if kind in ("su", "yarn") and "short_factor" in parameters:  # what Phi-3's files said before
        kind = "longrope"
    if not isinstance(kind, str) or kind not in _ROPE_KEYS:
        kinds = ", ".join(_ROPE_KEYS)
        raise ValueError(f"{path}: rope_type of the rotary embedding must be one of {kinds}, got {kind!r:.60}")
    known = (*_ROPE_KEYS["default"], *_ROPE_KEYS["llama3"], *_ROPE_KEYS[kind])
    if unknown := [key for key in parameters if key not in known]:
        raise ValueError(f"{path}: the rotary embedding's key {unknown[0]:.60} is not supported")
    default = family.defaults.get("partial_rotary_factor")
    share = parameters.get("partial_rotary_factor", data.get("partial_rotary_factor", default))
    share = 1.0 if share is None else share
    if not isinstance(share, (int, float)) or not 0 < share <= 1 or (share != 1 and default is None):
        rule = "1" if default is None else "above 0 and at most 1"
        raise ValueError(f"{path}: partial_rotary_factor must be {rule}, got {share!r:.60}")
    base = parameters.get("rope_theta", data.get("rope_theta"))
    base = family.defaults.get("rope_theta", 10000.0) if base is None else base
    try:
        return float(base), _scaling(kind, parameters, data, context), float(share), float(local)
    except (KeyError, TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise ValueError(f"{path}: the rotary embedding {dict(parameters)!r:.200} cannot be read: {error}") from error


def _scaling(
    kind: str, parameters: Mapping[str, Any], data: Mapping[str, Any], context: int
) -> RopeScaling | None:  # fmt: skip
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", float(parameters["factor"]))
    given = data.get("original_max_position_embeddings")
    original = int(parameters.get("original_max_position_embeddings", context) if given is None else given)
    if kind == "llama3":
        low, high = float(parameters["low_freq_factor"]), float(parameters["high_freq_factor"])
        return RopeScaling("llama3", float(parameters["factor"]), low, high, original)
    factor = parameters.get("factor")
    factor = context / original if factor is None else float(factor)
    attention = parameters.get("attention_factor")
    if kind == "longrope":
        short, long = (tuple(map(float, parameters[f"{name}_factor"])) for name in ("short", "long"))
        if attention is None:
            attention = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
        return RopeScaling(
            "longrope", factor, original_context=original, short_factors=short, long_factors=long,
            attention_factor=float(attention),
        )  # fmt: skip
    if attention is None:
        one, all_of_them = parameters.get("mscale"), parameters.get("mscale_all_dim")
        both = bool(one and all_of_them)
        attention = _yarn_scale(factor, one if both else 1) / (_yarn_scale(factor, all_of_them) if both else 1)
    return RopeScaling(
        "yarn", factor, original_context=original, beta_fast=float(parameters.get("beta_fast") or 32),
        beta_slow=float(parameters.get("beta_slow") or 1), truncate=parameters.get("truncate", True) is not False,
        attention_factor=float(attention),
    )  # fmt: skip


def _yarn_scale(factor: float, scale: Any) -> float:
    return 1.0 if factor <= 1 else 0.1 * float(scale) * math.log(factor) + 1.0
