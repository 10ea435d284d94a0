"""Adapters of the kind LoRA as files, in the layout of Hugging Face's PEFT.

W' = W + (alpha / rank) B A, with A of shape (rank, columns) and B of shape (rows, rank).

Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, Checkpoint, Weight
from ms_ascend_ops.llm.checkpoints.safetensors_file import SafetensorsFile, write_safetensors
from ms_ascend_ops.llm.checkpoints.writer import check_target

__all__ = ["TARGETS", "Lora", "merged", "read_adapter", "write_adapter"]

Array = np.ndarray[Any, Any]

# Layers that can have factors, by the last part of their names.
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
# What changes the equation, and the values with which it does not.
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "use_dora": (False, None), "fan_in_fan_out": (False, None), "bias": ("none", None), "rank_pattern": ({}, None),
    "alpha_pattern": ({}, None), "modules_to_save": ([], None), "lora_bias": (False, None),
}  # fmt: skip


@dataclass(frozen=True)
class Lora:
    """What an adapter is like.

    rank: columns of B, rows of A. alpha: the product is multiplied by alpha / rank. targets: the layers that have one.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: Sequence[str] = TARGETS

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"lora: rank must be at least 1, got {self.rank}")
        if not (self.alpha > 0 and np.isfinite(self.alpha)):
            raise ValueError(f"lora: alpha must be > 0, got {self.alpha}")
        if not self.targets or (unknown := [name for name in self.targets if name not in TARGETS]):
            raise ValueError(f"lora: targets must be of {', '.join(TARGETS)}, got {', '.join(unknown) or 'none'}")

    @property
    def scale(self) -> float:
        """What the product of the factors is multiplied by."""
        return self.alpha / self.rank


def write_adapter(target: Path, lora: Lora, factors: Mapping[str, tuple[Array, Array]], base: str) -> int:
    """Write an adapter that PEFT can load. Returns the bytes of its weights.

    Args:
        target: a directory that is not there yet. It comes into being when everything is written.
        lora: rank, alpha and targets.
        factors: A and B by the names of layers: `model.layers.0.self_attn.q_proj`.
        base: the name of the model that it belongs to.

    Raises:
        FileExistsError: the target is there.
    """
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    tensors = {
        f"{_PREFIX}{name}.lora_{kind}.weight": np.ascontiguousarray(array, np.float32)
        for name, pair in factors.items()
        for kind, array in zip("AB", pair, strict=True)
    }
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": lora.rank,
        "lora_alpha": int(lora.alpha) if lora.alpha == int(lora.alpha) else lora.alpha, "lora_dropout": 0.0,
        "target_modules": sorted(lora.targets), "bias": "none", "fan_in_fan_out": False, "inference_mode": True,
        "modules_to_save": None, "use_rslora": False, "use_dora": False, "rank_pattern": {}, "alpha_pattern": {},
        "init_lora_weights": True, "layers_to_transform": None, "layers_pattern": None, "revision": None,
    }  # fmt: skip
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        (partial / _CONFIG).write_text(json.dumps(config, indent=2) + "\n", "utf-8")
        shapes = {name: (array.dtype, array.shape) for name, array in tensors.items()}
        write_safetensors(partial / _WEIGHTS, shapes, tensors.__getitem__, {"format": "pt"})
        partial.chmod(0o755)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return (target / _WEIGHTS).stat().st_size


def read_adapter(path: str | Path) -> tuple[float, dict[str, tuple[Array, Array]]]:
    """The scale of an adapter, and A and B in float32 by the names of layers.

    Raises:
        ValueError: it cannot be read, or is of another kind than LoRA; the message names the file.
    """
    folder = Path(path)
    file = folder / _CONFIG
    if not file.is_file():
        raise ValueError(f"{folder}: there is no {_CONFIG}")
    try:
        config = json.loads(file.read_text("utf-8"))
        kind, rank, alpha = config["peft_type"], int(config["r"]), float(config["lora_alpha"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"{file}: it cannot be read ({type(error).__name__}: {error})") from error
    if kind != "LORA":
        raise ValueError(f"{file}: peft_type must be LORA, got {kind!r}")
    for key, allowed in _PLAIN.items():
        if config.get(key) not in allowed:
            raise ValueError(f"{file}: {key} must be {allowed[0]!r}, got {config[key]!r:.60}")
    if rank < 1:
        raise ValueError(f"{file}: r must be at least 1, got {rank}")
    weights = SafetensorsFile(_present(folder / _WEIGHTS))
    factors: dict[str, dict[str, Array]] = {}
    for name in weights.tensors:
        layer, _, last = name.removeprefix(_PREFIX).rpartition(".lora_")
        if last not in ("A.weight", "B.weight") or not name.startswith(_PREFIX):
            raise ValueError(f"{weights.path}: the tensor {name} is none of LoRA's factors of linear layers")
        array = weights.read(name).astype(np.float32)
        if array.ndim != 2 or array.shape[0 if last[0] == "A" else 1] != rank:
            raise ValueError(f"{weights.path}: the tensor {name} must be of rank {rank}, got shape {array.shape}")
        factors.setdefault(layer, {})[last[0]] = array
    for layer, pair in factors.items():
        if len(pair) != 2:
            raise ValueError(f"{weights.path}: {layer} has one factor only")
    scale = alpha / (rank**0.5 if config.get("use_rslora") else rank)
    return scale, {layer: (pair["A"], pair["B"]) for layer, pair in factors.items()}


def merged(checkpoint: Checkpoint, adapter: str | Path) -> Checkpoint:
    """A checkpoint with an adapter added: the weights that it changes are float32, all others as they were.

    Raises:
        ValueError: the adapter cannot be read, or belongs to a model of other layers or sizes.
    """
    scale, factors = read_adapter(adapter)
    for layer, (a, b) in factors.items():
        shape = checkpoint.shapes.get(f"{layer}.weight")
        if shape is None or not layer.endswith(TARGETS):
            raise ValueError(f"{adapter}: it changes {layer}, which {checkpoint.path} has not")
        if shape != (b.shape[0], a.shape[1]):
            raise ValueError(
                f"{adapter}: its factors of {layer} make a matrix of {(b.shape[0], a.shape[1])}, but in "
                f"{checkpoint.path} it is {shape}"
            )

    def read(name: str, rows: slice = ALL, columns: slice = ALL) -> Weight:
        layer = name.removesuffix(".weight")
        if layer not in factors or not name.endswith(".weight"):
            return checkpoint.weight(name, rows, columns)
        a, b = factors[layer]
        change: Array = b[rows] @ a[:, columns]
        change *= np.float32(scale)
        change += checkpoint.array(name, np.float32, rows, columns)
        return change

    return replace(checkpoint, read=read, read_part=read)


def _present(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing")
    return path
