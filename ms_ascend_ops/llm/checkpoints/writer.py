"""Writes a checkpoint as a directory that `open_checkpoint`, and other programs, can read."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoint_text import portable_template
from ms_ascend_ops.llm.checkpoints.checkpoint import ROPE_FACTORS, Checkpoint, expected_shapes
from ms_ascend_ops.llm.checkpoints.packed import QUANTIZATION
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.checkpoints.safetensors_file import write_safetensors
from ms_ascend_ops.llm.config import ModelConfig

__all__ = ["check_target", "write_directory"]

Array = np.ndarray[Any, Any]

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
    origin: dict[str, str] = {}
    for name in names:
        weight = None if dtype is not None else checkpoint.weight(name)
        if isinstance(weight, QuantizedMatrix):
            for part in _PARTS:
                array = getattr(weight, part)
                if array is not None:
                    tensors[f"{name}.{part}"], origin[f"{name}.{part}"] = (array.dtype, array.shape), name
        else:
            kind = np.dtype(np.float32) if name == ROPE_FACTORS else dtype or weight.dtype  # type: ignore[union-attr]
            tensors[name] = (kind, checkpoint.shapes[name])

    def read(name: str) -> Array:
        if name in origin:
            part: Array = getattr(checkpoint.weight(origin[name]), name.rpartition(".")[2])
            return part
        return checkpoint.array(name, tensors[name][0])

    write_safetensors(path, tensors, read, {"format": "pt"})
    return bool(origin)


def _config(config: ModelConfig, dtype: np.dtype[Any] | None, quantized: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "architectures": [
            {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
             "qwen3": "Qwen3ForCausalLM"}[config.architecture]
        ],
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
        "hidden_act": "silu",
        "attention_bias": config.qkv_bias,
        "tie_word_embeddings": config.tied_embedding,
        "eos_token_id": list(config.end_tokens),
        "bos_token_id": config.begin_token,
    }  # fmt: skip
    if dtype is not None:
        data["torch_dtype"] = np.dtype(dtype).name
    if quantized:
        data["quantization_config"] = {"quant_method": QUANTIZATION}
    scaling = config.rope_scaling
    if scaling is not None:
        data["rope_scaling"] = {"rope_type": scaling.kind, "factor": scaling.factor}
        if scaling.kind == "llama3":
            data["rope_scaling"] |= {
                "low_freq_factor": scaling.low_freq_factor,
                "high_freq_factor": scaling.high_freq_factor,
                "original_max_position_embeddings": scaling.original_context,
            }
    return data


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", "utf-8")
