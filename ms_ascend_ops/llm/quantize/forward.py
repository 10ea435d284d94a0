"""Runs a network layer by layer, on windows of tokens, and shows what its linear layers see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ms_ascend_ops.library import load_products
from ms_ascend_ops.llm.executor import BLOCK, Chunk, StepArrays
from ms_ascend_ops.llm.layer import Layer, layer_product, normalized
from ms_ascend_ops.llm.linear import FloatLinear, Linear
from ms_ascend_ops.llm.network import Network, StepInputs, attention, capped
from ms_ascend_ops.llm.program import Eager
from ms_ascend_ops.llm.rope import rope_tables

__all__ = ["Forward"]

Array = np.ndarray[Any, Any]
Observer = Callable[[str, Array], None]


@dataclass
class _Seen:
    """Shows the input of a linear layer to somebody first."""

    linear: Linear
    kind: str
    observe: Observer

    def __call__(self, ops: Any, x: Any) -> Any:
        self.observe(self.kind, x.reshape(-1, x.shape[-1]))
        return self.linear(ops, x)

    def gated(self, ops: Any, x: Any, activation: str) -> Any:
        self.observe(self.kind, x.reshape(-1, x.shape[-1]))
        return self.linear.gated(ops, x, activation)


def _observed(layer: Layer, observe: Observer) -> Layer:
    first, *others = layer.products  # all of them have the same input
    output, gate_up, down = (_Seen(getattr(layer, kind), kind, observe) for kind in ("output", "gate_up", "down"))
    return replace(layer, products=(_Seen(first, "qkv", observe), *others), output=output, gate_up=gate_up, down=down)


class Forward:
    """Runs a float32 network on windows of one length."""

    def __init__(self, network: Network, window: int):
        load_products()
        config = network.config
        self.network = network
        self.window = window
        self._ops = Eager()
        blocks = -(-window // BLOCK)
        shape = (blocks, BLOCK, config.key_heads, config.head_size)
        self._caches = np.zeros(shape, np.float32), np.zeros(shape, np.float32)  # of one layer at a time
        tables = rope_tables(config, window, network.rope_factors)
        self._arrays = StepArrays(network, tables, 1, window, blocks)
        self._chunk = Chunk([0] * window, 0, list(range(blocks)))

    def embedded(self, tokens: Sequence[int], embedding: Array | None = None) -> Array:
        """Compute the states in front of the first layer, shape (1, window, hidden)."""
        self._arrays.fill([Chunk(tokens, 0, self._chunk.blocks)])
        if embedding is not None:
            rows: Array = embedding[np.asarray(tokens)][None] * np.float32(self.network.config.embedding_scale)
            return rows
        return np.array(self._step.x)

    @property
    def _step(self) -> StepInputs:
        return self._arrays.inputs

    def layer(self, layer: Layer, residual: Array, observe: Observer | None = None) -> Array:
        """Compute the states behind a layer.

        `observe` gets the names of units and what goes into them, (window, columns).
        """
        ops, step = self._ops, self._step
        x = normalized(ops, residual, layer.input_norm, layer.config)
        attend = attention(ops, step, [self._caches] * layer.config.layers)
        seen = layer if observe is None else _observed(layer, observe)
        product, residual = layer_product(ops, seen, x, residual, step.angles, attend)
        behind: Array = residual + product
        return behind

    def logits(self, residual: Array, weight: Array | None = None) -> Array:
        """Compute the logits, shape (window, vocabulary), from the network's last product or another weight."""
        x: Any = normalized(self._ops, residual, self.network.norm, self.network.config)
        rows = x.reshape(self.window, -1)
        head: Linear = self.network.head if weight is None else FloatLinear(weight, None)
        return capped(head(self._ops, rows), self.network.config.logit_cap)

    def logits_from(self, residual: Array, first: int, changed: Mapping[int, Layer] | None = None) -> Array:
        """Compute the logits of states in front of the layer `first`, with some layers in the place of the
        network's.
        """
        for index in range(first, len(self.network.layers)):
            residual = self.layer((changed or {}).get(index, self.network.layers[index]), residual)
        return self.logits(residual)
