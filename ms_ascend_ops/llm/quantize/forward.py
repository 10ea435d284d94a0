"""A network layer by layer, on windows of tokens, with what its linear layers see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ms_ascend_ops import registry
from ms_ascend_ops.inference import infer_shapes, infer_types
from ms_ascend_ops.library import load_products, native
from ms_ascend_ops.llm.executor import BLOCK, Chunk, StepArrays
from ms_ascend_ops.llm.linear import FloatLinear, Linear
from ms_ascend_ops.llm.network import Layer, Network, StepInputs
from ms_ascend_ops.llm.program import Recorder
from ms_ascend_ops.llm.rope import rope_tables

__all__ = ["Forward"]

Array = np.ndarray[Any, Any]
Observer = Callable[[str, Array], None]


class _Eager(Recorder):
    """The operators, called at once on arrays."""

    def _call(self, operator: str, inputs: Sequence[Any], **attributes: Any) -> list[Any]:
        signature = registry.signature(operator)
        values = signature.check_attributes(attributes)
        shapes = infer_shapes(signature, [None if one is None else one.shape for one in inputs], values)
        dtypes = infer_types(signature, [None if one is None else one.dtype.name for one in inputs])
        outputs = [np.empty(shape, np.dtype(name)) for shape, name in zip(shapes, dtypes, strict=True)]
        arrays = [None if one is None else np.ascontiguousarray(one) for one in inputs]
        native().prepare(operator, arrays, outputs, dict(values))()
        return outputs


class Forward:
    """Runs a float32 network on windows of one length."""

    def __init__(self, network: Network, window: int):
        load_products()
        config = network.config
        self.network = network
        self.window = window
        self._ops = _Eager()
        blocks = -(-window // BLOCK)
        shape = (blocks, BLOCK, config.key_heads, config.head_size)
        self._caches = np.zeros(shape, np.float32), np.zeros(shape, np.float32)  # of one layer at a time
        tables = rope_tables(config, window, network.rope_factors)
        self._arrays = StepArrays(network, *tables, 1, window, blocks)
        self._chunk = Chunk([0] * window, 0, list(range(blocks)))

    def embedded(self, tokens: Sequence[int], embedding: Array | None = None) -> Array:
        """States in front of the first layer, shape (1, window, hidden)."""
        self._arrays.fill([Chunk(tokens, 0, self._chunk.blocks)])
        if embedding is not None:
            rows: Array = embedding[np.asarray(tokens)][None]
            return rows
        return np.array(self._step.x)

    @property
    def _step(self) -> StepInputs:
        return self._arrays.inputs

    def layer(self, layer: Layer, residual: Array, observe: Observer | None = None) -> Array:
        """States behind a layer. `observe` gets the names of units and what goes into them, (window, columns)."""
        ops, network = self._ops, self.network
        epsilon = network.config.epsilon

        def seen(kind: str, x: Any) -> Any:
            if observe is not None:
                observe(kind, x.reshape(-1, x.shape[-1]))
            return x

        x: Any = seen("qkv", ops.rms_norm(residual, layer.input_norm, epsilon=epsilon)[0])
        query, key, value = network.heads(ops, layer, x, self._step)
        ops.kv_cache_update(key, value, *self._caches, self._step.slots)
        x = ops.paged_attention(query, *self._caches, self._step.tables, self._step.lengths)
        x = layer.output(ops, seen("output", x.reshape(1, self.window, -1)))
        x, _, residual = ops.add_rms_norm(residual, x, layer.post_norm, epsilon=epsilon)  # type: ignore[assignment]
        x = layer.down(ops, seen("down", layer.gate_up.gated(ops, seen("gate_up", x))))
        behind: Array = residual + x
        return behind

    def logits(self, residual: Array, weight: Array | None = None) -> Array:
        """Behind the last layer, shape (window, vocabulary), from the network's last product or another weight."""
        x: Any = self._ops.rms_norm(residual, self.network.norm, epsilon=self.network.config.epsilon)[0]
        rows = x.reshape(self.window, -1)
        head: Linear = self.network.head if weight is None else FloatLinear(weight)
        result: Array = head(self._ops, rows)
        return result

    def rest(self, residual: Array, first: int, changed: Mapping[int, Layer] | None = None) -> Array:
        """Logits of states in front of the layer `first`, with some layers in the place of the network's."""
        for index in range(first, len(self.network.layers)):
            residual = self.layer((changed or {}).get(index, self.network.layers[index]), residual)
        return self.logits(residual)
