"""Reads a directory with config.json, tokenizer.json and safetensors, as Hugging Face's Hub has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, Checkpoint, Weight, checked, expected_shapes, places_of
from ms_ascend_ops.llm.checkpoints.hugging_face_config import read_config
from ms_ascend_ops.llm.checkpoints.hugging_face_text import chat_template, read_tokenizer
from ms_ascend_ops.llm.checkpoints.json_file import read_json
from ms_ascend_ops.llm.checkpoints.packed import PackedMatrix, Tensors, packed_matrices
from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.checkpoints.safetensors_file import SafetensorsFile
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.families import FUSED

__all__ = ["read_directory", "stored_name"]

# A file beside config.json, the method that it belongs to, and what it calls settings.
_QUANTIZATION_FILES: tuple[tuple[str, str, Mapping[str, str]], ...] = (
    ("quant_config.json", "awq", {"w_bit": "bits", "q_group_size": "group_size"}),
    ("quantize_config.json", "gptq", {}),
)

_HEAD, _EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"


def read_directory(path: Path) -> Checkpoint:
    """Open a directory.

    Raises:
        ValueError: a file is missing, foreign or truncated, the architecture is not supported, or a tensor is missing;
            the message names the file and the tensor.
    """
    config_path = path / "config.json"
    data = read_json(config_path)
    read_config(config_path, data, {}, True)  # refuses what is not supported before a weight is read
    files, place = _weights(path)
    tensors = Tensors(
        str(path), {name: files[file].tensors[name] for name, file in place.items()},
        lambda name: files[place[name]].read(name),
    )  # fmt: skip
    source, quantization = _quantization(config_path, data)
    packed = packed_matrices(str(source), quantization, tensors)
    shapes: dict[str, tuple[int, ...]] = {name: one.shape for name, one in tensors.places.items()}
    shapes |= {name: one.shape for name, one in packed.items()}
    for name in [*_empty_biases(packed, tensors), *_parts(packed, tensors)]:
        del shapes[name]
    tied = _same_head(data, shapes, packed, tensors)
    if tied:
        shapes.pop(_HEAD, None)
    config = read_config(config_path, data, shapes, tied)
    config.check(str(path))  # before a loop over the layers
    places = places_of(config, path, shapes, {stored: name for name, stored in config.family.names.items()})

    def read(name: str) -> Weight:
        place = places[name]
        weight = packed[place.stored].read() if place.stored in packed else tensors.read(place.stored)
        if place.rows == ALL:
            return weight
        return weight.part(place.rows, ALL) if isinstance(weight, QuantizedMatrix) else weight[place.rows]

    return checked(
        Checkpoint(
            path, config, {name: place.shape for name, place in places.items()}, read,
            lambda: read_tokenizer(path, str(data.get("model_type"))), chat_template(path),
            {name: stored_name(config, name) for name in expected_shapes(config)},
        )
    )  # fmt: skip


def stored_name(config: ModelConfig, name: str) -> str:
    """Return what files of the family call a weight, or the matrix that it is a part of."""
    layer, _, kind = name.rpartition(".")
    for fused in config.family.fused:
        for part in FUSED[fused]:
            if layer.endswith(f".{part}"):
                return f"{layer.removesuffix(part)}{fused}.{kind}"
    return ".".join(config.family.names.get(part, part) for part in name.split("."))


def _weights(path: Path) -> tuple[dict[str, SafetensorsFile], dict[str, str]]:
    """Return the files, and the file of each tensor: what the files hold, whatever the index says of it."""
    index, single = path / "model.safetensors.index.json", path / "model.safetensors"
    if single.is_file():
        file = SafetensorsFile(single)
        return {single.name: file}, dict.fromkeys(file.tensors, single.name)
    if not index.is_file():
        raise ValueError(f"{path}: there is neither {single.name} nor {index.name}")
    listed = read_json(index).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise ValueError(f"{index}: weight_map must name the file of each tensor")
    files = {}
    for name in sorted(set(listed.values())):
        if Path(name).name != name or "\0" in name:
            raise ValueError(f"{index}: a file of weight_map must lie beside it, got {name!r:.60}")
        if not (path / name).is_file():
            raise ValueError(f"{path / name}: the file is missing; {index.name} names it")
        files[name] = SafetensorsFile(path / name)
    for tensor, name in listed.items():
        if tensor not in files[name].tensors:
            raise ValueError(f"{path / name}: the tensor {tensor} is missing; {index.name} says that it is there")
    place = {tensor: name for name, file in files.items() for tensor in file.tensors}
    return files, place | listed


def _quantization(path: Path, data: Mapping[str, Any]) -> tuple[Path, Any]:
    """Return how weights are quantized, and the file that says so: older versions of two tools wrote their own."""
    for key in ("quantization_config", "compression_config"):
        if data.get(key) is not None:
            return path, data[key]
    for name, method, keys in _QUANTIZATION_FILES:
        file = path.parent / name
        if file.is_file():
            found = read_json(file)
            return file, {"quant_method": method} | {keys.get(key, key): value for key, value in found.items()}
    return path, None


def _parts(packed: Mapping[str, PackedMatrix], tensors: Tensors) -> list[str]:
    """Return tensors that are a part of a matrix, or were calculated from the configuration."""
    layers = {name.removesuffix("weight") for name in packed}
    return [
        name
        for name in tensors.places
        if name.endswith(".rotary_emb.inv_freq") or (not name.endswith((".weight", ".bias")) and _layer(name) in layers)
    ]


def _layer(name: str) -> str:
    head, _, last = name.rpartition(".")
    return f"{head.removesuffix('.weight')}." if last else name


def _same_head(
    data: Mapping[str, Any], shapes: Mapping[str, Any], packed: Mapping[str, PackedMatrix], tensors: Tensors
) -> bool:
    """Tell whether the last product has the embedding's weight: if there is no other, whatever the file says of it."""
    if _HEAD not in shapes:
        return True
    if data.get("tie_word_embeddings", False) is not True:
        return False
    if _HEAD in packed or _EMBEDDING in packed or shapes[_HEAD] != shapes.get(_EMBEDDING):
        return False
    return bool(np.array_equal(tensors.read(_HEAD), tensors.read(_EMBEDDING)))


def _empty_biases(packed: Mapping[str, PackedMatrix], tensors: Tensors) -> list[str]:
    """Return biases that are 0: tools for GPTQ give every layer one, whether the network has it or not."""
    biases = [f"{name.removesuffix('.weight')}.bias" for name in packed]
    return [name for name in biases if name in tensors and not tensors.read(name).any()]
