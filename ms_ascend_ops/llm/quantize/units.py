"""Finds the parts of a network that have one type each, and makes a checkpoint that has them in other types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint, Weight, expected_shapes
from ms_ascend_ops.llm.checkpoints.quantized import GROUP
from ms_ascend_ops.llm.layer import Layer
from ms_ascend_ops.llm.linear import FloatLinear
from ms_ascend_ops.llm.network import Network, load_network
from ms_ascend_ops.llm.quantize.rounding import check_group, nbytes_of, rounded

__all__ = ["Editable", "Part", "Unit", "rounded_checkpoint"]

Array = np.ndarray[Any, Any]

_SELF, _MLP = "self_attn.", "mlp."
# Matrices that become one product, or have the same input, have the same type.
_IN_LAYER: Mapping[str, tuple[str, ...]] = {
    "qkv": (f"{_SELF}q_proj", f"{_SELF}k_proj", f"{_SELF}v_proj"),
    "output": (f"{_SELF}o_proj",),
    "gate_up": (f"{_MLP}gate_proj", f"{_MLP}up_proj"),
    "down": (f"{_MLP}down_proj",),
}
_EMBEDDINGS = ("model.embed_tokens.weight", "lm_head.weight")


@dataclass
class Part:
    """Describes a matrix of a checkpoint: some rows of a layer's weight."""

    name: str  # without `.weight`
    linear: FloatLinear
    rows: slice

    @property
    def weight(self) -> Array:
        """Return a view."""
        weight: Array = self.linear.weight[self.rows]
        return weight


@dataclass
class Unit:
    """Holds matrices with the same input and the same type."""

    name: str
    kind: str  # qkv, output, gate_up, down, head or embedding
    layer: int | None
    parts: list[Part]

    @property
    def columns(self) -> int:
        """Return the columns of each matrix."""
        return int(self.parts[0].weight.shape[1])

    def linears(self) -> list[FloatLinear]:
        """Return the layers that hold the matrices."""
        return list({id(part.linear): part.linear for part in self.parts}.values())

    def nbytes(self, kind: str, group: int) -> int:
        """Return the bytes in a file, in some type."""
        return sum(nbytes_of(part.weight.shape, kind, group) for part in self.parts)


class Editable:
    """Holds a network in float32 whose weights may be changed, and its units."""

    def __init__(self, source: Checkpoint):
        self.source = source
        self.network: Network = load_network(source, np.float32)
        self.units = list(_units(self.network))

    def checkpoint(self, plan: Mapping[str, str], group: int = GROUP) -> Checkpoint:
        """Return the network as a checkpoint, with the types of units by their names.

        It follows the network's weights.
        """
        matrices = {f"{part.name}.weight": (unit, part) for unit in self.units for part in unit.parts}
        biases = {f"{part.name}.bias": part for unit in self.units for part in unit.parts}
        norms = {"model.norm.weight": self.network.norm}
        for index, layer in enumerate(self.network.layers):
            norms[f"model.layers.{index}.input_layernorm.weight"] = layer.input_norm
            norms[f"model.layers.{index}.post_attention_layernorm.weight"] = layer.post_norm

        def make(name: str) -> Weight:
            if name in matrices:
                unit, part = matrices[name]
                return rounded(part.weight, plan[unit.name], group)
            if name in norms:
                norm: Array = norms[name]
                return norm
            if name in biases and biases[name].linear.bias is not None:
                bias: Array = biases[name].linear.bias[biases[name].rows]
                return bias
            return self.source.read(name)

        return replace(self.source, read=_last(make))


def _units(network: Network) -> Iterator[Unit]:
    for index, layer in enumerate(network.layers):
        for kind, names in _IN_LAYER.items():
            prefix = f"model.layers.{index}."
            parts = list(_parts([prefix + name for name in names], _linears(layer, kind), network))
            yield Unit(f"layers.{index}.{kind}", kind, index, parts)
    tied = network.config.tied_embedding
    if not tied:
        yield Unit("embedding", "embedding", None, [
            Part("model.embed_tokens", FloatLinear(network.embedding, None), slice(None))
        ])  # fmt: skip
    assert isinstance(network.head, FloatLinear)
    name = "model.embed_tokens" if tied else "lm_head"
    yield Unit("head", "head", None, [Part(name, network.head, slice(None))])


def _linears(layer: Layer, kind: str) -> Sequence[Any]:
    return layer.products if kind == "qkv" else (getattr(layer, kind),)


def _parts(names: Sequence[str], linears: Sequence[FloatLinear], network: Network) -> Iterator[Part]:
    shapes = expected_shapes(network.config)
    if len(linears) == len(names):
        yield from (Part(name, linear, slice(None)) for name, linear in zip(names, linears, strict=True))
        return
    first = 0
    for name in names:
        rows = shapes[f"{name}.weight"][0]
        yield Part(name, linears[0], slice(first, first + rows))
        first += rows


def rounded_checkpoint(source: Checkpoint, kind: str, embedding: str, group: int = GROUP) -> Checkpoint:
    """Return the checkpoint with its matrices rounded to the nearest, one at a time when they are read.

    Args:
        source: what to round.
        kind: the type of the linear layers.
        embedding: that of the embedding and of the last product.
        group: columns with one scale.

    Raises:
        ValueError: a matrix has no such groups.
    """
    kinds = {
        name: embedding if name in _EMBEDDINGS else kind
        for name, shape in expected_shapes(source.config).items()
        if len(shape) == 2 and not name.endswith(".mlp.gate.weight")  # a router is small, and chooses
    }
    for name, one in kinds.items():
        if one.startswith("int"):
            check_group(f"{source.path}: {name}", source.shapes[name][1], group)

    def make(name: str) -> Weight:
        return rounded(source.array(name), kinds[name], group) if name in kinds else source.read(name)

    return replace(source, read=_last(make))


def _last(make: Any) -> Any:
    """Keeps the last result: who writes a matrix asks for each of its parts."""
    known: dict[str, Weight] = {}

    def read(name: str) -> Weight:
        if name not in known:
            known.clear()
            known[name] = make(name)
        return known[name]

    return read
