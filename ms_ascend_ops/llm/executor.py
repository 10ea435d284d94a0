"""Runs steps of a network over a paged cache: sequences with new tokens in, logits out."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ms_ascend_ops.library import load_products
from ms_ascend_ops.llm.config import ModelConfig
from ms_ascend_ops.llm.network import Network, StepInputs
from ms_ascend_ops.llm.program import Program, Recorder
from ms_ascend_ops.llm.rope import Angles, rope_tables

__all__ = ["BLOCK", "Chunk", "Executor", "ProgramExecutor", "StepArrays", "check_memory"]

Array = np.ndarray[Any, Any]

BLOCK = 32  # tokens of a block of the cache

# A step is padded to one of these numbers of tokens, or of sequences: each has a program of its own.
_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


@dataclass(frozen=True)
class Chunk:
    """Holds new tokens of a sequence, which stand at the positions from `start` on, and the blocks of the sequence."""

    tokens: Sequence[int]
    start: int
    blocks: Sequence[int]


class Executor(Protocol):
    """Runs a network. Its cache has `blocks` blocks of `BLOCK` tokens."""

    config: ModelConfig
    blocks: int
    context: int  # positions of a sequence at most

    @property
    def chunk(self) -> int:
        """Return the number of new tokens of a step at most."""

    def step(self, chunks: Sequence[Chunk], every_row: bool = False) -> Array:
        """Run a step; return logits behind the last token of each chunk, float32, shape (chunks, vocabulary).

        Several chunks have one token each. With `every_row` there is one chunk, and a row of logits for each token.
        """


class StepArrays:
    """Holds the inputs of a step of b sequences with s tokens, as arrays, and fills them."""

    def __init__(self, network: Network, angles: Angles, batch: int, tokens: int, table: int):
        config = network.config
        self._network, self._tables = network, angles
        shape = (batch, tokens, config.rotary_pairs)
        self.inputs = StepInputs(
            x=np.zeros((batch, tokens, config.hidden), network.dtype),
            angles=tuple((np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for _ in angles),
            slots=np.full((batch, tokens), -1, np.int32),
            tables=np.zeros((batch, table), np.int32),
            lengths=np.zeros(batch, np.int32),
        )
        self._ids = np.zeros((batch, tokens), np.int64)
        self._positions = np.zeros((batch, tokens), np.int64)

    def fill(self, chunks: Sequence[Chunk]) -> None:
        """Fill in the inputs.

        Padding comes before the tokens of a sequence: its keys go nowhere, and its queries see nothing new.
        """
        inputs = self.inputs
        self._ids.fill(0)
        self._positions.fill(0)
        inputs.slots.fill(-1)
        inputs.lengths.fill(0)
        for row, chunk in enumerate(chunks):
            count = len(chunk.tokens)
            positions = np.arange(chunk.start, chunk.start + count)
            blocks = np.asarray(chunk.blocks, np.int32)
            self._ids[row, -count:] = chunk.tokens
            self._positions[row, -count:] = positions
            inputs.slots[row, -count:] = blocks[positions // BLOCK] * BLOCK + positions % BLOCK
            inputs.tables[row, : len(blocks)] = blocks
            inputs.lengths[row] = chunk.start + count
        self._network.embed(self._ids, inputs.x)
        for tables, outs in zip(self._tables, inputs.angles, strict=True):
            for table, out in zip(tables, outs, strict=True):
                np.take(table, self._positions, axis=0, out=out, mode="clip")


class ProgramExecutor:
    """Runs the kernels on NumPy arrays, on a CPU, without MindSpore.

    cache_dtype: of keys and values, and so of attention; None: that of the network.
    """

    def __init__(self, network: Network, blocks: int, context: int, chunk: int = 256, cache_dtype: Any = None):
        load_products()
        config = network.config
        self.network = network
        self.config = config
        self.blocks = blocks
        self.context = context
        self.chunk = min(chunk, _SIZES[-1])
        shape = (blocks, BLOCK, config.key_heads, config.head_size)
        dtype = network.dtype if cache_dtype is None else cache_dtype
        self._caches = [(np.zeros(shape, dtype), np.zeros(shape, dtype)) for _ in network.layers]
        self._rope = rope_tables(config, context, network.rope_factors)
        self._programs: dict[tuple[int, int, str], tuple[StepArrays, Program]] = {}

    def step(self, chunks: Sequence[Chunk], every_row: bool = False) -> Array:
        """See `Executor`."""
        longest = max(len(chunk.tokens) for chunk in chunks)
        logits = self._run(chunks, "every" if every_row else "last")
        wanted = logits[-longest if every_row else 0 :][: None if every_row else len(chunks)].astype(np.float32)
        return self.network.all_logits(wanted)

    def states(self, chunk: Chunk) -> Array:
        """Compute the normalized states behind the last layer, float32, shape (tokens, hidden)."""
        return self._run([chunk], "states")[-len(chunk.tokens) :].astype(np.float32)

    def _run(self, chunks: Sequence[Chunk], rows: str) -> Array:
        arrays, program = self._program(padded(len(chunks)), padded(max(len(one.tokens) for one in chunks)), rows)
        arrays.fill(chunks)
        program.run()
        return program.outputs[0]

    def _program(self, batch: int, tokens: int, wanted: str) -> tuple[StepArrays, Program]:
        key = (batch, tokens, wanted)
        if key not in self._programs:
            arrays = StepArrays(self.network, self._rope, batch, tokens, -(-self.context // BLOCK))
            recorder = Recorder()
            hidden = self.network.hidden(recorder, arrays.inputs, self._caches)
            rows = hidden.reshape(batch * tokens, -1)
            if wanted != "states":
                rows = self.network.head(recorder, rows if wanted == "every" or tokens == 1 else rows.last_row())
            self._programs[key] = arrays, recorder.program([rows])
        return self._programs[key]


def check_memory(source: str, config: ModelConfig, blocks: int, context: int, itemsize: int) -> None:
    """Check that a cache, and the angles of all positions, fit the memory of this machine.

    Args:
        source: where the model came from, for the message.
        config: of the network.
        blocks: of the cache.
        context: positions of a sequence at most.
        itemsize: bytes of an element of the cache.

    Raises:
        ValueError: they do not.
    """
    cache = 2 * config.layers * blocks * BLOCK * config.key_size * itemsize
    bases = 2 if config.local_base else 1
    angles = bases * context * config.rotary_pairs * 4 * 8  # with what they are calculated from, in float64
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if cache + angles > most:
        raise ValueError(
            f"{source}: a context of {context} tokens and a cache of {blocks * BLOCK} take "
            f"{(cache + angles) / 2**30:.1f} GiB, this machine has {most / 2**30:.1f}"
        )


def padded(count: int) -> int:
    """Return the size of the program for a number of tokens or sequences."""
    index = bisect_left(_SIZES, count)
    return _SIZES[index] if index < len(_SIZES) else count
