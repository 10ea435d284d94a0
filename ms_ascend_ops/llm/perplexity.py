"""Measures how well a model predicts a text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ms_ascend_ops.llm.executor import BLOCK, Chunk

__all__ = ["LlamaCpp", "Perplexity", "perplexity"]

Array = np.ndarray[Any, Any]

_ROWS = 64  # of logits at once: with large vocabularies they take more memory than anything else


class Predictor(Protocol):
    """Gives logits: an `Executor`, or another program beside it."""

    context: int
    blocks: int

    @property
    def chunk(self) -> int:
        """Return the number of new tokens of a step at most."""

    def step(self, chunks: Sequence[Chunk], every_row: bool = False) -> Array:
        """See `Executor`."""


class LlamaCpp:
    """Runs llama.cpp by llama-cpp-python, with its own settings, for one sequence.

    Raises:
        ImportError: it is not installed.
        ValueError: it cannot load the file.
    """

    def __init__(self, path: Path, context: int, threads: int):
        from llama_cpp import Llama  # noqa: PLC0415

        self.context, self.blocks, self.chunk = context, -(-context // BLOCK), context
        self._model = Llama(
            str(path), n_ctx=context, n_threads=threads, n_threads_batch=threads, logits_all=True, verbose=False
        )

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a text, by its own tokenizer."""
        ids: list[int] = self._model.tokenize(text.encode(), add_bos=False, special=True)
        return ids

    def step(self, chunks: Sequence[Chunk], every_row: bool = False) -> Array:
        """See `Executor`; the blocks do not matter."""
        (chunk,) = chunks
        self._model.n_tokens = chunk.start
        self._model.eval(list(chunk.tokens))
        rows: Array = self._model.scores[chunk.start : chunk.start + len(chunk.tokens)]
        return rows if every_row else rows[-1:]


@dataclass(frozen=True)
class Perplexity:
    """Holds exp of the mean negative log probability of tokens, with its standard error."""

    value: float
    error: float
    tokens: int


def perplexity(
    executor: Predictor, tokens: Sequence[int], window: int, begin: int | None = None, step: int | None = None
) -> Iterator[Perplexity]:
    """Yield the perplexity of a text so far, after each window of it.

    The text is cut into windows that do not see each other. In each, the second half is predicted from all before it
    in the window: the way of llama.cpp, whose figures these can be compared with. A text shorter than two windows is
    one window, whose tokens are predicted but for the first.

    Args:
        executor: runs the network.
        tokens: of the text.
        window: tokens of a window.
        begin: the token in the place of each window's first, if the model wants one.
        step: tokens that are calculated at once, at most. Few are calculated as those of answers are.

    Raises:
        ValueError: fewer than 2 tokens, or a window that the context or the cache has no room for.
    """
    if len(tokens) < 2:
        raise ValueError(f"perplexity: the text must have at least 2 tokens, got {len(tokens)}")
    room = min(executor.context, executor.blocks * BLOCK)
    if not 2 <= window <= room:
        raise ValueError(f"perplexity: window must be 2 to {room}, got {window}")
    whole = len(tokens) < 2 * window
    size = min(window, len(tokens)) if whole else window
    first = 1 if whole else size // 2
    losses: list[float] = []
    for start in range(0, len(tokens) - size + 1, size):
        ids = list(tokens[start : start + size])
        targets = ids[first:]
        if begin is not None and not whole:
            ids[0] = begin
        losses += _losses(executor, ids[:-1], first - 1, targets, step or executor.chunk)
        mean = math.fsum(losses) / len(losses)
        spread = float(np.std(losses, ddof=1)) / math.sqrt(len(losses)) if len(losses) > 1 else math.inf
        yield Perplexity(math.exp(mean), math.exp(mean) * spread, len(losses))


def _losses(executor: Predictor, ids: Sequence[int], first: int, targets: Sequence[int], step: int) -> list[float]:
    """Return negative log probabilities of the targets behind the tokens from `first` on."""
    blocks = list(range(-(-len(ids) // BLOCK)))
    losses: list[float] = []
    place = 0
    while place < len(ids):
        wanted = place >= first
        count = min(_ROWS if wanted else executor.chunk, step, (len(ids) if wanted else first) - place)
        logits = executor.step([Chunk(ids[place : place + count], place, blocks)], every_row=wanted)
        if wanted:
            losses += _negative_log(logits, targets[place - first :][:count])
        place += count
    return losses


def _negative_log(logits: Array, targets: Sequence[int]) -> list[float]:
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    chosen = rows[np.arange(len(targets)), list(targets)]
    result: list[float] = (np.log(np.exp(rows).sum(axis=1)) - chosen).tolist()
    return result
