"""Writes a checkpoint as a directory that `open_checkpoint`, and other programs, can read."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoint_text import portable_template
from ms_ascend_ops.llm.checkpoints.checkpoint import ROPE_FACTORS, Checkpoint, expected_shapes
from ms_ascend_ops.llm.checkpoints.hugging_face import stored_name
from ms_ascend_ops.llm.checkpoints.packed import QUANTIZATION
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.checkpoints.safetensors_file import write_safetensors
from ms_ascend_ops.llm.config import ModelConfig, RopeScaling

__all__ = ["check_target", "write_directory"]

Array = np.ndarray[Any, Any]

_ACTIVATIONS = {"silu": "silu", "gelu_tanh": "gelu_pytorch_tanh"}
_PARTS = ("codes", "scale", "minimum", "zero")


def check_target(target: Path) -> None:
    """Check that a directory is not there yet.

    Raises:
        FileExistsError: it is.
    """
    if target.exists():
        raise FileExistsError(f"{target}: it is there already; delete it, or name another directory")


def write_directory(
    checkpoint: Checkpoint, target: Path, dtype: np.dtype[Any] | None, files: Mapping[str, str] | None = None
) -> int:
    """Write config.json, model.safetensors and the tokenizer. Returns the bytes of the weights.

    Args:
        checkpoint: what to write.
        target: a directory that is not there yet. It comes into being when everything is written.
        dtype: of the weights; None: as they are, quantized ones with codes, scale, and minimum or zero.
        files: texts to write beside them.

    Raises:
        FileExistsError: the target is there.
    """
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        quantized = _write_weights(checkpoint, partial / "model.safetensors", dtype)
        _write_json(partial / "config.json", _config(checkpoint.config, dtype, quantized))
        tokenizer = checkpoint.make_tokenizer()
        tokenizer.backend.save(str(partial / "tokenizer.json"))
        names = {**tokenizer.named, "tokenizer_class": "PreTrainedTokenizerFast"}
        _write_json(partial / "tokenizer_config.json", {key: value for key, value in names.items() if value})
        if checkpoint.chat_template is not None:
            (partial / "chat_template.jinja").write_text(portable_template(checkpoint, tokenizer), "utf-8")
        for name, text in (files or {}).items():
            (partial / name).write_text(text, "utf-8")
        size = (partial / "model.safetensors").stat().st_size
        partial.chmod(0o755)
        partial.rename(target)
        return size
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_weights(checkpoint: Checkpoint, path: Path, dtype: np.dtype[Any] | None) -> bool:
    names = [*expected_shapes(checkpoint.config), *([ROPE_FACTORS] if ROPE_FACTORS in checkpoint else [])]
    tensors: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    origin: dict[str, str] = {}  # of parts of quantized matrices
    sources: dict[str, list[str]] = {}  # of what is written as it is: one weight, or those that are one in such files
    for name in names:
        weight = None if dtype is not None else checkpoint.weight(name)
        if isinstance(weight, QuantizedMatrix):
            for part in _PARTS:
                array = getattr(weight, part)
                if array is not None:
                    tensors[f"{name}.{part}"], origin[f"{name}.{part}"] = (array.dtype, array.shape), name
            continue
        kind = np.dtype(np.float32) if name == ROPE_FACTORS else dtype or weight.dtype  # type: ignore[union-attr]
        stored, shape = stored_name(checkpoint.config, name), checkpoint.shapes[name]
        sources.setdefault(stored, []).append(name)
        rows = shape[0] + (tensors[stored][1][0] if stored in tensors else 0)
        tensors[stored] = kind, (rows, *shape[1:])

    def read(name: str) -> Array:
        if name in origin:
            part: Array = getattr(checkpoint.weight(origin[name]), name.rpartition(".")[2])
            return part
        parts = [checkpoint.array(source, tensors[name][0]) for source in sources[name]]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    write_safetensors(path, tensors, read, {"format": "pt"})
    return bool(origin)


def _config(config: ModelConfig, dtype: np.dtype[Any] | None, quantized: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "architectures": [config.family.model],
        "model_type": config.architecture,
        "hidden_size": config.hidden,
        "intermediate_size": config.feed_forward,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.key_heads,
        "head_dim": config.head_size,
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.epsilon,
        "rope_theta": config.rope_base,
        "hidden_activation" if config.family.activation == "gelu_tanh" else "hidden_act": _ACTIVATIONS[
            config.family.activation
        ],
        "attention_bias": config.qkv_bias,
        "tie_word_embeddings": config.tied_embedding,
        "eos_token_id": list(config.end_tokens),
        "bos_token_id": config.begin_token,
        "pad_token_id": None,  # some classes have one where nothing is said
    }  # fmt: skip
    if dtype is not None:
        data["torch_dtype"] = np.dtype(dtype).name
    if quantized:
        data["quantization_config"] = {"quant_method": QUANTIZATION}
    if config.rotary:
        share = config.rotary / config.head_size
        whole = int(config.head_size * share) == config.rotary  # as readers take it; some shares are a bit too small
        data["partial_rotary_factor"] = share if whole else math.nextafter(share, 1)
    data |= _windows(config) | _of_family(config)
    if config.rope_scaling is not None:
        data["rope_scaling"] = _rope_scaling(config.rope_scaling)
        if config.rope_scaling.kind == "longrope":
            data["original_max_position_embeddings"] = config.rope_scaling.original_context
    return data


def _windows(config: ModelConfig) -> dict[str, Any]:
    """Return the keys of windows. Without one `sliding_window` is null: some classes have one where nothing is said."""
    kind, size = config.family.window, max(config.windows, default=0)
    if kind == "never":
        return {}
    data: dict[str, Any] = {"sliding_window": size or None}
    if "used" in kind:
        data["use_sliding_window"] = size > 0
    if kind == "alternating" or (size and kind == "used"):  # which have other layers by themselves
        types = ["sliding_attention" if window else "full_attention" for window in config.windows]
        data["layer_types"] = types or ["full_attention"] * config.layers
    return data


def _of_family(config: ModelConfig) -> dict[str, Any]:
    """Return the keys that other families have not."""
    values = {
        "query_pre_attn_scalar": round((config.scale_of_scores) ** -2),
        "attn_logit_softcapping": config.score_cap or None,
        "final_logit_softcapping": config.logit_cap or None,
        "rope_local_base_freq": config.local_base,
        "num_local_experts": config.experts,
        "num_experts": config.experts,
        "num_experts_per_tok": config.experts_used,
        "moe_intermediate_size": config.feed_forward,
        "norm_topk_prob": config.normalized_experts,
    }
    if "num_experts" in config.family.keys:
        del values["num_local_experts"]  # as newer versions call it; they read both
    return {key: value for key, value in values.items() if key in config.family.keys}


def _rope_scaling(scaling: RopeScaling) -> dict[str, Any]:
    data: dict[str, Any] = {"rope_type": scaling.kind, "factor": scaling.factor}
    if scaling.kind != "linear":
        data["original_max_position_embeddings"] = scaling.original_context
    if scaling.kind == "llama3":
        data |= {"low_freq_factor": scaling.low_freq_factor, "high_freq_factor": scaling.high_freq_factor}
    if scaling.kind == "yarn":
        data |= {"beta_fast": scaling.beta_fast, "beta_slow": scaling.beta_slow, "truncate": scaling.truncate}
    if scaling.kind == "longrope":
        data |= {"short_factor": list(scaling.short_factors), "long_factor": list(scaling.long_factors)}
    if scaling.kind in ("yarn", "longrope"):
        data["attention_factor"] = scaling.attention_factor
    return data


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
