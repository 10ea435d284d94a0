"""Holds what every reader gives: a configuration, named weights that are read on demand, and the text side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.quantized import QuantizedMatrix
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.families import FUSED, NORMS

if TYPE_CHECKING:
    from ms_ascend_ops.llm.tokenizer import Tokenizer

__all__ = ["ALL", "ROPE_FACTORS", "Checkpoint", "Weight", "checked", "expected_shapes", "places_of"]

Array = np.ndarray[Any, Any]
Weight = Array | QuantizedMatrix

ALL = slice(None)

# Divisors of the rotary frequencies, where a file has them as a tensor.
ROPE_FACTORS = "rope_factors"


@dataclass
class Checkpoint:
    """Describes a file, or a directory, that holds a model.

    Weights have the names that Hugging Face gives them: `model.layers.0.self_attn.q_proj.weight`.
    """

    path: Path
    config: ModelConfig
    shapes: Mapping[str, tuple[int, ...]]
    read: Callable[[str], Weight]
    make_tokenizer: Callable[[], Tokenizer]
    chat_template: str | None = None
    names: Mapping[str, str] = field(default_factory=dict)  # what the file calls them, where that differs
    # Reads some rows and columns alone; without it, `read` gives what lies in the file, of which a part is taken.
    read_part: Callable[[str, slice, slice], Weight] | None = None
    note: str = ""  # what whoever opened it should know

    def __contains__(self, name: str) -> bool:
        return name in self.shapes

    def weight(self, name: str, rows: slice = ALL, columns: slice = ALL) -> Weight:
        """Read a weight, or some rows and columns of it; a vector has rows only.

        Raises:
            ValueError: the file holds no numbers there, or the columns begin or end within a group of a quantized
                matrix.
        """
        if rows == ALL and columns == ALL:
            return self.read(name)
        try:
            if self.read_part is not None:
                return self.read_part(name, rows, columns)
            weight = self.read(name)
            if isinstance(weight, QuantizedMatrix):
                return weight.part(rows, columns)
        except ValueError as error:
            raise ValueError(f"{self.path}: {self.names.get(name, name)}: {error}") from error
        return weight[rows] if weight.ndim == 1 else weight[rows, columns]

    def array(self, name: str, dtype: Any = np.float32, rows: slice = ALL, columns: slice = ALL) -> Array:
        """Read a weight, or a part of it, as floats."""
        weight = self.weight(name, rows, columns)
        return weight.dequantized(dtype) if isinstance(weight, QuantizedMatrix) else weight.astype(dtype, copy=False)


@dataclass(frozen=True)
class Place:
    """Says where a weight lies: a tensor of the file, rows of it, and the shape of these."""

    stored: str
    rows: slice
    shape: tuple[int, ...]


def places_of(
    config: ModelConfig, path: Path, shapes: Mapping[str, tuple[int, ...]], known_as: Mapping[str, str]
) -> dict[str, Place]:
    """Return where the weights of a network lie, by their names.

    Args:
        config: of the network.
        path: the file, for messages.
        shapes: those of its tensors.
        known_as: parts of names that the file has otherwise.

    Raises:
        ValueError: two tensors are the same weight.
    """
    expected, places = expected_shapes(config), dict[str, Place]()

    def put(name: str, place: Place) -> None:
        if name in places:
            raise ValueError(f"{path}: the tensors {places[name].stored} and {place.stored} are both {name}")
        places[name] = place

    for stored, shape in shapes.items():
        layer, _, kind = stored.rpartition(".")
        fused = next((one for one in config.family.fused if layer.endswith(f".{one}")), None)
        if fused is None:
            name = ".".join(known_as.get(part, part) for part in stored.split("."))
            if len(shape) == 3 and ".experts." in name:  # all of a layer, as one tensor
                before, _, last = name.partition(".experts.")
                for expert in range(shape[0]):
                    its = slice(expert * shape[1], (expert + 1) * shape[1])
                    put(f"{before}.experts.{expert}.{last}", Place(stored, its, shape[1:]))
                continue
            put(name, Place(stored, ALL, shape))
            continue
        first = 0
        for part in FUSED[fused]:
            name = f"{layer.removesuffix(fused)}{part}.{kind}"
            rows = expected[name][0] if name in expected else 0
            # The last part gets what is left, so that a wrong number of rows is seen.
            end = max(first, shape[0]) if part == FUSED[fused][-1] else first + rows
            put(name, Place(stored, slice(first, end), (end - first, *shape[1:])))
            first = end
    return places


def checked(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint, if it has every weight in the shape that its configuration says.

    Raises:
        ValueError: it has not; the message names the file and the tensor.
    """
    checkpoint.config.check(str(checkpoint.path))  # before a loop over the layers
    expected = expected_shapes(checkpoint.config)
    for name, shape in expected.items():
        known_as = checkpoint.names.get(name, name)
        if name not in checkpoint.shapes:
            raise ValueError(f"{checkpoint.path}: the tensor {known_as} is missing")
        if checkpoint.shapes[name] != shape:
            raise ValueError(
                f"{checkpoint.path}: the tensor {known_as} must have shape {shape}, got {checkpoint.shapes[name]}"
            )
    for name in checkpoint.shapes:
        if name not in expected and name != ROPE_FACTORS:
            raise ValueError(
                f"{checkpoint.path}: the tensor {checkpoint.names.get(name, name)} is not known; it is no part of a "
                f"network of {checkpoint.config.layers} layers of {checkpoint.config.architecture}"
            )
    factors = checkpoint.shapes.get(ROPE_FACTORS)
    if factors is not None and factors != (checkpoint.config.rotary_pairs,):
        raise ValueError(
            f"{checkpoint.path}: {checkpoint.names.get(ROPE_FACTORS, ROPE_FACTORS)} must have shape "
            f"{(checkpoint.config.rotary_pairs,)}, got {factors}"
        )
    return checkpoint


def expected_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the weights of a network, and their shapes."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config.vocabulary, config.hidden)}
    for layer in range(config.layers):
        prefix = f"model.layers.{layer}."
        attention = prefix + "self_attn."
        sizes = {"q_proj": config.query_size, "k_proj": config.key_size, "v_proj": config.key_size}
        for name, size in sizes.items():
            shapes[f"{attention}{name}.weight"] = (size, config.hidden)
            if config.qkv_bias:
                shapes[f"{attention}{name}.bias"] = (size,)
        if config.query_key_norm:
            whole = config.family.query_key_norm == "all"
            shapes[attention + "q_norm.weight"] = (config.query_size if whole else config.head_size,)
            shapes[attention + "k_norm.weight"] = (config.key_size if whole else config.head_size,)
        shapes[attention + "o_proj.weight"] = (config.hidden, config.query_size)
        if config.output_bias:
            shapes[attention + "o_proj.bias"] = (config.hidden,)
        if config.experts:
            shapes[prefix + "mlp.gate.weight"] = (config.experts, config.hidden)
        for part in [f"experts.{expert}." for expert in range(config.experts)] or [""]:
            shapes[f"{prefix}mlp.{part}gate_proj.weight"] = (config.feed_forward, config.hidden)
            shapes[f"{prefix}mlp.{part}up_proj.weight"] = (config.feed_forward, config.hidden)
            shapes[f"{prefix}mlp.{part}down_proj.weight"] = (config.hidden, config.feed_forward)
        for name in NORMS[config.family.norms]:
            shapes[f"{prefix}{name}.weight"] = (config.hidden,)
    shapes["model.norm.weight"] = (config.hidden,)
    if not config.tied_embedding:
        shapes["lm_head.weight"] = (config.vocabulary, config.hidden)
    return shapes
