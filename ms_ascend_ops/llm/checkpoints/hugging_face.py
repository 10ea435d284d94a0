"""A directory with config.json, tokenizer.json and safetensors, as Hugging Face's Hub has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint, Weight, checked
from ms_ascend_ops.llm.checkpoints.packed import PackedMatrix, Tensors, packed_matrices
from ms_ascend_ops.llm.checkpoints.safetensors_file import SafetensorsFile
from ms_ascend_ops.llm.config import ModelConfig, RopeScaling

__all__ = ["read_directory"]

# What is special about an architecture: a name of ours, and whether it has biases behind queries, keys and values.
_ARCHITECTURES = {"llama": "llama", "mistral": "mistral", "qwen2": "qwen2", "qwen3": "qwen3", "smollm": "llama"}

# A file beside config.json, the method that it belongs to, and what it calls settings.
_QUANTIZATION_FILES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("quant_config.json", "awq", {"w_bit": "bits", "q_group_size": "group_size"}),
    ("quantize_config.json", "gptq", {}),
)


def read_directory(path: Path) -> Checkpoint:
    """Open a directory.

    Raises:
        ValueError: a file is missing, foreign or truncated, the architecture is not supported, or a tensor is missing;
            the message names the file and the tensor.
    """
    config_path = path / "config.json"
    data = _json(config_path)
    files, place = _weights(path)
    tensors = Tensors(
        str(path), {name: files[file].tensors[name] for name, file in place.items()},
        lambda name: files[place[name]].read(name),
    )  # fmt: skip
    source, quantization = _quantization(config_path, data)
    packed = packed_matrices(str(source), quantization, tensors)
    shapes: dict[str, tuple[int, ...]] = {name: one.shape for name, one in tensors.places.items()}
    shapes |= {name: one.shape for name, one in packed.items()}
    for name in _empty_biases(packed, tensors):
        del shapes[name]

    def read(name: str) -> Weight:
        return packed[name].read() if name in packed else tensors.read(name)

    config = _config(config_path, data, shapes)

    def make_tokenizer() -> Any:
        from ms_ascend_ops.llm.tokenizer import Tokenizer, read_tokenizer_json  # noqa: PLC0415 - an extra

        backend = read_tokenizer_json(path / "tokenizer.json")
        # Whether a text begins with a token is what the file's template for single texts says.
        first = backend.encode("").ids[:1]
        return Tokenizer(backend, first[0] if first == [config.begin_token] else None)

    return checked(Checkpoint(path, config, shapes, read, make_tokenizer, _chat_template(path)))


def _weights(path: Path) -> tuple[dict[str, SafetensorsFile], dict[str, str]]:
    """The files, and the file of each tensor."""
    index = path / "model.safetensors.index.json"
    if not index.is_file():
        single = path / "model.safetensors"
        if not single.is_file():
            raise ValueError(f"{path}: there is neither {single.name} nor {index.name}")
        file = SafetensorsFile(single)
        return {single.name: file}, dict.fromkeys(file.tensors, single.name)
    place = _json(index).get("weight_map")
    if not isinstance(place, dict) or not all(isinstance(name, str) for name in place.values()):
        raise ValueError(f"{index}: weight_map must name the file of each tensor")
    files = {}
    for name in sorted(set(place.values())):
        if Path(name).name != name:
            raise ValueError(f"{index}: a file of weight_map must lie beside it, got {name}")
        if not (path / name).is_file():
            raise ValueError(f"{path / name}: the file is missing; {index.name} names it")
        files[name] = SafetensorsFile(path / name)
    for tensor, name in place.items():
        if tensor not in files[name].tensors:
            raise ValueError(f"{path / name}: the tensor {tensor} is missing; {index.name} says that it is there")
    return files, place


def _quantization(path: Path, data: Mapping[str, Any]) -> tuple[Path, Any]:
    """How the weights are quantized, and the file that says so: older versions of two tools wrote one of their own."""
    for key in ("quantization_config", "compression_config"):
        if data.get(key) is not None:
            return path, data[key]
    for name, method, keys in _QUANTIZATION_FILES:
        file = path.parent / name
        if file.is_file():
            found = _json(file)
            return file, {"quant_method": method} | {keys.get(key, key): value for key, value in found.items()}
    return path, None


def _empty_biases(packed: Mapping[str, PackedMatrix], tensors: Tensors) -> list[str]:
    """Biases that are 0: tools for GPTQ give every layer one, whether the network has it or not."""
    biases = [f"{name.removesuffix('.weight')}.bias" for name in packed]
    return [name for name in biases if name in tensors and not tensors.read(name).any()]


def _config(path: Path, data: Mapping[str, Any], shapes: Mapping[str, Any]) -> ModelConfig:
    kind = data.get("model_type")
    if not isinstance(kind, str) or kind not in _ARCHITECTURES:
        raise ValueError(f"{path}: model_type is {kind!r}; those that can be read are {', '.join(_ARCHITECTURES)}")
    if (activation := data.get("hidden_act", "silu")) != "silu":
        raise ValueError(f"{path}: hidden_act must be silu, got {activation!r}")

    def get(key: str, kind: type, default: Any = None) -> Any:
        value = data.get(key)
        value = default if value is None else value
        if value is None:
            raise ValueError(f"{path}: the key {key} is missing")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{path}: the key {key} must be one {kind.__name__}, got {value!r:.60}")
        return value

    heads, hidden = get("num_attention_heads", int), get("hidden_size", int)
    base, scaling = _rope(path, data)
    context = get("max_position_embeddings", int)
    window = data.get("sliding_window")
    if isinstance(window, int) and window > 0 and data.get("use_sliding_window", kind == "mistral"):
        context = min(context, window)
    end = data.get("eos_token_id")
    generation = path.parent / "generation_config.json"
    if generation.is_file():
        end = _json(generation).get("eos_token_id", end)
    ends = end if isinstance(end, list) else [end]
    begin = data.get("bos_token_id")
    prefix = "model.layers.0."
    if any(f"{prefix}mlp.{name}.bias" in shapes for name in ("gate_proj", "up_proj", "down_proj")):
        raise ValueError(f"{path}: biases in the feed-forward layer are not supported")
    return ModelConfig(
        architecture=_ARCHITECTURES[kind],
        layers=get("num_hidden_layers", int),
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
        qkv_bias=f"{prefix}self_attn.q_proj.bias" in shapes,
        output_bias=f"{prefix}self_attn.o_proj.bias" in shapes,
        query_key_norm=f"{prefix}self_attn.q_norm.weight" in shapes,
        tied_embedding=get("tie_word_embeddings", bool, False) or "lm_head.weight" not in shapes,
        end_tokens=tuple(token for token in ends if isinstance(token, int)),
        begin_token=begin if isinstance(begin, int) else None,
    )


def _rope(path: Path, data: Mapping[str, Any]) -> tuple[float, RopeScaling | None]:
    """Newer files have all of it in rope_parameters, older ones a base, and a scaling if there is one."""
    parameters = data.get("rope_parameters") or data.get("rope_scaling") or {}
    if not isinstance(parameters, dict):
        raise ValueError(f"{path}: the rotary embedding must be an object, got {parameters!r:.60}")
    base = parameters.get("rope_theta", data.get("rope_theta", 10000.0))
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    try:
        base = float(base)
        if kind == "default":
            return base, None
        if kind == "linear":
            return base, RopeScaling("linear", float(parameters["factor"]))
        if kind == "llama3":
            return base, RopeScaling(
                "llama3", float(parameters["factor"]), float(parameters["low_freq_factor"]),
                float(parameters["high_freq_factor"]), int(parameters["original_max_position_embeddings"]),
            )  # fmt: skip
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path}: the rotary embedding {dict(parameters)} cannot be read: {error}") from error
    raise ValueError(f"{path}: the rotary embedding must be of type default, linear or llama3, got {kind!r}")


def _chat_template(path: Path) -> str | None:
    separate = path / "chat_template.jinja"
    if separate.is_file():
        return separate.read_text("utf-8")
    config = path / "tokenizer_config.json"
    template = _json(config).get("chat_template") if config.is_file() else None
    if isinstance(template, list):  # several, with names
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing")
    try:
        data = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: this is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path}: this must be a JSON object")
    return data
