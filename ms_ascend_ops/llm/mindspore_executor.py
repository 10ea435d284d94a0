"""Runs steps of a network by MindSpore, in PyNative mode: every operator is a call of `ms_ascend_ops.ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mindspore import Tensor, float32

from ms_ascend_ops import ops
from ms_ascend_ops.llm.executor import BLOCK, Chunk, StepArrays, padded
from ms_ascend_ops.llm.layer import converted
from ms_ascend_ops.llm.network import Network, StepInputs
from ms_ascend_ops.llm.rope import rope_tables
from ms_ascend_ops.mindspore_versions import numpy_bfloat16

__all__ = ["MindSporeExecutor", "tensor_of"]

Array = np.ndarray[Any, Any]


class MindSporeExecutor:
    """Runs steps as `ProgramExecutor` does, with tensors of MindSpore."""

    def __init__(self, network: Network, blocks: int, context: int, chunk: int = 256, cache_dtype: Any = None):
        config = network.config
        self.network = network
        self.config = config
        self.blocks = blocks
        self.context = context
        self.chunk = chunk
        self._tensors = network.converted(tensor_of)
        shape = (blocks, BLOCK, config.key_heads, config.head_size)
        dtype = network.dtype if cache_dtype is None else cache_dtype
        self._caches = [(tensor_of(np.zeros(shape, dtype)), tensor_of(np.zeros(shape, dtype))) for _ in network.layers]
        self._rope = rope_tables(config, context, network.rope_factors)
        self._arrays: dict[tuple[int, int], StepArrays] = {}

    def step(self, chunks: Sequence[Chunk], every_row: bool = False) -> Array:
        """See `Executor`."""
        longest = max(len(chunk.tokens) for chunk in chunks)
        rows = self._hidden(chunks)
        rows = rows[: len(chunks)] if longest == 1 else rows[-longest if every_row else -1 :]
        logits: Array = self._tensors.head(ops, rows).astype(float32).asnumpy()
        return self.network.all_logits(logits)

    def states(self, chunk: Chunk) -> Array:
        """See `ProgramExecutor`."""
        states: Array = self._hidden([chunk]).astype(float32).asnumpy()
        return states[-len(chunk.tokens) :]

    def _hidden(self, chunks: Sequence[Chunk]) -> Tensor:
        key = padded(len(chunks)), padded(max(len(chunk.tokens) for chunk in chunks))
        if key not in self._arrays:
            self._arrays[key] = StepArrays(self.network, self._rope, *key, -(-self.context // BLOCK))
        arrays = self._arrays[key]
        arrays.fill(chunks)
        inputs = StepInputs(**{name: converted(one, tensor_of) for name, one in vars(arrays.inputs).items()})
        hidden = self._tensors.hidden(ops, inputs, self._caches)
        return hidden.reshape(-1, hidden.shape[-1])


def tensor_of(array: Array) -> Tensor:
    """Return the array as a tensor; on its memory where it may be written."""
    if array.dtype.name == "bfloat16":  # MindSpore has a type of its own for it
        array = array.view(numpy_bfloat16())
    return Tensor.from_numpy(np.ascontiguousarray(array).copy() if not array.flags.writeable else array)
