"""Tables of cosines and sines for rotary position embedding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ms_ascend_ops.llm.config import ModelConfig, RopeScaling

__all__ = ["frequencies", "rope_tables"]

Array = np.ndarray[Any, Any]


def rope_tables(config: ModelConfig, positions: int, factors: Array | None = None) -> tuple[Array, Array]:
    """Cosines and sines of all angles of the first positions, float32, shape (positions, head_size / 2).

    `factors` divide the frequencies. Angles are calculated in float64.
    """
    angles = np.arange(positions)[:, None] * frequencies(config, factors)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def frequencies(config: ModelConfig, factors: Array | None = None) -> Array:
    """Of each pair of elements, in radians a position.

    Source: Su et al., RoFormer, 2021; the scaling of low frequencies is that of Llama 3.1.
    """
    half = config.head_size // 2
    plain = config.rope_base ** -(np.arange(half, dtype=np.float64) / half)
    if factors is not None:
        plain = plain / factors.astype(np.float64)
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    return plain / scaling.factor if scaling.kind == "linear" else _llama3(plain, scaling)


def _llama3(plain: Array, scaling: RopeScaling) -> Array:
    turns = scaling.original_context * plain / (2 * math.pi)  # within the context of the first training
    blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = np.clip(blend, 0, 1)
    blended: Array = plain / scaling.factor * (1 - blend) + plain * blend
    return blended
