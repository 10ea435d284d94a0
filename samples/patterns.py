"""Makes patterns of sparse matrices for samples."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["by_chance"]

Array = np.ndarray[Any, Any]


def by_chance(draw: Any, rows: int, columns: int, percent: float) -> tuple[Array, Array]:
    """Return where rows end, and the sorted columns of their values, each there with this chance; int32."""
    counts = draw.random.binomial(columns, percent / 100, rows) if rows else np.zeros(0, int)
    chosen = [np.sort(draw.random.choice(columns, count, replace=False)) for count in counts]
    return np.cumsum(counts).astype(np.int32), np.concatenate([np.zeros(0, int), *chosen]).astype(np.int32)
