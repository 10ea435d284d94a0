"""Reads and writes adapters of the kind LoRA as files, in the layout of Hugging Face's PEFT.

W' = W + (alpha / rank) B A, with A of shape (rank, columns) and B of shape (rows, rank).

PEFT's modules are those of transformers' class. Where it has one matrix for several, as Phi-3 for queries, keys and
values, factors of the parts are written as factors of that: the A one below the other, the B as blocks on a diagonal,
of a rank and an alpha that are as many times as large. Of factors that are read each part gets its rows of B.

Source: Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, 2021.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import ALL, Checkpoint, Weight
from ms_ascend_ops.llm.checkpoints.safetensors_file import SafetensorsFile, write_safetensors
from ms_ascend_ops.llm.checkpoints.writer import check_target
from ms_ascend_ops.llm.families import FUSED

__all__ = ["TARGETS", "Lora", "merged", "read_adapter", "write_adapter"]

Array = np.ndarray[Any, Any]

# Layers that can have factors, by the last part of their names.
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

_NAMES = (*TARGETS, *(fused.rpartition(".")[2] for fused in FUSED))
_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
# These change the equation, unless they have one of the values.
_PLAIN: Mapping[str, tuple[Any, ...]] = {
    "use_dora": (False, None), "fan_in_fan_out": (False, None), "bias": ("none", None),
    "modules_to_save": ([], None), "lora_bias": (False, None),
}  # fmt: skip


@dataclass(frozen=True)
class Lora:
    """Describes an adapter.

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
        """Return what the product of the factors is multiplied by."""
        return self.alpha / self.rank


def write_adapter(
    target: Path, lora: Lora, factors: Mapping[str, tuple[Array, Array]], checkpoint: Checkpoint
) -> int:  # fmt: skip
    """Write an adapter that PEFT can load. Returns the bytes of its weights.

    Args:
        target: a directory that is not there yet. It comes into being when everything is written.
        lora: rank, alpha and targets.
        factors: A and B by the names of layers: `model.layers.0.self_attn.q_proj`.
        checkpoint: of the model that it belongs to.

    Raises:
        FileExistsError: the target is there.
    """
    check_target(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    stored, parts = _fused(checkpoint, factors)
    tensors = {
        f"{_PREFIX}{name}.lora_{kind}.weight": np.ascontiguousarray(array, np.float32)
        for name, pair in stored.items()
        for kind, array in zip("AB", pair, strict=True)
    }
    alpha = int(lora.alpha) if lora.alpha == int(lora.alpha) else lora.alpha
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(checkpoint.path), "r": lora.rank,
        "lora_alpha": alpha, "lora_dropout": 0.0, "bias": "none",
        "target_modules": sorted({name.rpartition(".")[2] for name in stored}),
        "fan_in_fan_out": False, "inference_mode": True, "modules_to_save": None, "use_rslora": False,
        "use_dora": False, "rank_pattern": {name: count * lora.rank for name, count in parts.items()},
        "alpha_pattern": {name: count * alpha for name, count in parts.items()}, "init_lora_weights": True,
        "layers_to_transform": None, "layers_pattern": None, "revision": None,
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


def read_adapter(path: str | Path) -> dict[str, tuple[Array, Array]]:
    """Read A, and B times its scale, in float32 by the names of layers.

    Raises:
        ValueError: it cannot be read, or is of another kind than LoRA; the message names the file.
    """
    folder = Path(path)
    rank_of, scale_of = _settings(folder)
    weights = SafetensorsFile(_present(folder / _WEIGHTS))
    factors: dict[str, dict[str, Array]] = {}
    for name in weights.tensors:
        layer, _, last = name.removeprefix(_PREFIX).rpartition(".lora_")
        if last not in ("A.weight", "B.weight") or not name.startswith(_PREFIX):
            raise ValueError(f"{weights.path}: the tensor {name} is none of LoRA's factors of linear layers")
        array, rank = weights.read(name).astype(np.float32), rank_of(layer)
        if array.ndim != 2 or array.shape[0 if last[0] == "A" else 1] != rank:
            raise ValueError(f"{weights.path}: the tensor {name} must be of rank {rank}, got shape {array.shape}")
        factors.setdefault(layer, {})[last[0]] = array
    for layer, pair in factors.items():
        if len(pair) != 2:
            raise ValueError(f"{weights.path}: {layer} has one factor only")
    return {layer: (pair["A"], pair["B"] * np.float32(scale_of(layer))) for layer, pair in factors.items()}


def _settings(folder: Path) -> tuple[Callable[[str], int], Callable[[str], float]]:
    """Return the rank of a layer, and the scale of its product, by its name."""
    file = folder / _CONFIG
    if not file.is_file():
        raise ValueError(f"{folder}: there is no {_CONFIG}")
    try:
        config = json.loads(file.read_text("utf-8"))
        kind, rank, alpha = config["peft_type"], int(config["r"]), float(config["lora_alpha"])
        ranks = {str(name): int(value) for name, value in (config.get("rank_pattern") or {}).items()}
        alphas = {str(name): float(value) for name, value in (config.get("alpha_pattern") or {}).items()}
    except (AttributeError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ValueError(f"{file}: it cannot be read ({type(error).__name__}: {error})") from error
    if kind != "LORA":
        raise ValueError(f"{file}: peft_type must be LORA, got {kind!r}")
    for key, allowed in _PLAIN.items():
        if config.get(key) not in allowed:
            raise ValueError(f"{file}: {key} must be {allowed[0]!r}, got {config[key]!r:.60}")
    if (least := min([rank, *ranks.values()])) < 1:
        raise ValueError(f"{file}: r must be at least 1, got {least}")
    if unknown := [name for name in (*ranks, *alphas) if name not in _NAMES]:
        raise ValueError(
            f"{file}: rank_pattern and alpha_pattern must be of {', '.join(_NAMES)}, got {unknown[0]!r:.60}"
        )

    def rank_of(layer: str) -> int:
        return ranks.get(layer.rpartition(".")[2], rank)

    def scale_of(layer: str) -> float:
        its = rank_of(layer)
        return alphas.get(layer.rpartition(".")[2], alpha) / (its**0.5 if config.get("use_rslora") else its)

    return rank_of, scale_of


def merged(checkpoint: Checkpoint, adapter: str | Path) -> Checkpoint:
    """Return a checkpoint with an adapter added: the weights that it changes are float32, all others as they were.

    Raises:
        ValueError: the adapter cannot be read, or belongs to a model of other layers or sizes.
    """
    factors = _divided(checkpoint, read_adapter(adapter))
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
        change += checkpoint.array(name, np.float32, rows, columns)
        return change

    return replace(checkpoint, read=read, read_part=read)


def _fused(
    checkpoint: Checkpoint, factors: Mapping[str, tuple[Array, Array]]
) -> tuple[dict[str, tuple[Array, Array]], dict[str, int]]:  # fmt: skip
    """Return factors of the modules that transformers has, and by name how many parts a fused one has."""
    held, counts = dict(factors), dict[str, int]()
    for fused in checkpoint.config.family.fused:
        for before in {one.removesuffix(part) for one in factors for part in FUSED[fused] if one.endswith(f".{part}")}:
            names = [before + part for part in FUSED[fused]]
            given = [held.pop(name, None) for name in names]
            rows = np.cumsum([0, *(checkpoint.shapes[f"{name}.weight"][0] for name in names)])
            columns = np.cumsum([0, *(0 if pair is None else len(pair[0]) for pair in given)])
            b = np.zeros((rows[-1], columns[-1]), np.float32)
            for index, pair in enumerate(given):
                if pair is not None:
                    b[rows[index] : rows[index + 1], columns[index] : columns[index + 1]] = pair[1]
            held[before + fused] = np.concatenate([pair[0] for pair in given if pair is not None]), b
            counts[fused.rpartition(".")[2]] = sum(pair is not None for pair in given)
    return held, counts


def _divided(
    checkpoint: Checkpoint, factors: Mapping[str, tuple[Array, Array]]
) -> dict[str, tuple[Array, Array]]:  # fmt: skip
    """Return factors of the matrices that a checkpoint has, of those of fused ones."""
    held = dict(factors)
    for fused in checkpoint.config.family.fused:
        for layer in [one for one in factors if one.endswith(f".{fused}")]:
            a, b = held.pop(layer)
            names = [layer.removesuffix(fused) + part for part in FUSED[fused]]
            if any(f"{name}.weight" not in checkpoint.shapes for name in names):
                held[layer] = a, b  # which the checkpoint has not
                continue
            rows = np.cumsum([0, *(checkpoint.shapes[f"{name}.weight"][0] for name in names)])
            if rows[-1] != len(b):
                raise ValueError(
                    f"{checkpoint.path}: an adapter's factors of {layer} must have {rows[-1]} rows, got {len(b)}"
                )
            held |= {name: (a, b[first:last]) for name, first, last in zip(names, rows, rows[1:], strict=False)}
    return held


def _present(path: Path) -> Path:
    if not path.is_file():
        raise ValueError(f"{path}: the file is missing")
    return path
