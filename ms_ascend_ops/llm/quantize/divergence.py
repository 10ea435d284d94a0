"""Measures how far two networks' predictions lie apart: the mean Kullback-Leibler divergence of their next tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.llm.checkpoints.checkpoint import Checkpoint
from ms_ascend_ops.llm.executor import BLOCK, Chunk, ProgramExecutor
from ms_ascend_ops.llm.network import load_network

__all__ = ["Divergence", "divergence", "divergence_of"]

Array = np.ndarray[Any, Any]

_ROWS = 64  # at once, in float64


@dataclass(frozen=True)
class Divergence:
    """Holds nats a token, with the standard error of the mean, and how often the likeliest token is the same."""

    value: float
    error: float
    same: float
    tokens: int


def divergence(expected: Sequence[Array], actual: Sequence[Array]) -> Divergence:
    """Compare logits, shape (tokens, vocabulary), of some windows."""
    values: list[float] = []
    same = 0
    for theirs, ours in zip(expected, actual, strict=True):
        for first in range(0, len(theirs), _ROWS):
            p = _log_softmax(theirs[first : first + _ROWS])
            q = _log_softmax(ours[first : first + _ROWS])
            values += (np.exp(p) * (p - q)).sum(1).tolist()
            same += int((p.argmax(1) == q.argmax(1)).sum())
    mean = math.fsum(values) / len(values)
    # Negative by rounding only, where both are the same.
    mean = math.inf if math.isnan(mean) else max(mean, 0.0)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Divergence(mean, error, same / len(values), len(values))


def divergence_of(checkpoint: Checkpoint, windows: Sequence[Sequence[int]], expected: Sequence[Array]) -> Divergence:
    """Run the network of a checkpoint on the kernels that it will run on, weights in the types that it has."""
    window = len(windows[0])
    blocks = list(range(-(-window // BLOCK)))
    executor = ProgramExecutor(load_network(checkpoint, np.float32, True), len(blocks), window)
    results = []
    for tokens in windows:
        rows = []
        for first in range(0, window, _ROWS):
            part = Chunk(tokens[first : first + _ROWS], first, blocks)
            rows.append(executor.step([part], every_row=True))
        results.append(np.concatenate(rows))
    return divergence(expected, results)


def _log_softmax(logits: Array) -> Array:
    rows = logits.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    rows -= np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return rows
