"""Makes tables of cosines and sines for rotary position embedding."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ms_ascend_ops.llm.config import ModelConfig, RopeScaling

__all__ = ["Angles", "frequencies", "rope_tables"]

Array = np.ndarray[Any, Any]
# Pairs of cosines and sines, one for each rotary base of a network.
Angles = tuple[tuple[Array, Array], ...]


def rope_tables(config: ModelConfig, positions: int, factors: Array | None = None) -> Angles:
    """Return cosines and sines of all angles of the first positions, float32, shape (positions, pairs of a head).

    There are those of `rope_base`, and behind them those of `local_base`, if the network has one. `factors` divide the
    frequencies. Angles are calculated in float64.
    """
    found = [_tables(config, positions, factors)]
    if config.local_base:
        local = replace(config, rope_base=config.local_base, rope_scaling=None)
        found.append(_tables(local, positions, None))
    return tuple(found)


def _tables(config: ModelConfig, positions: int, factors: Array | None) -> tuple[Array, Array]:
    angles = np.arange(positions)[:, None] * frequencies(config, factors, positions)
    scale = 1.0 if config.rope_scaling is None else config.rope_scaling.attention_factor
    return (scale * np.cos(angles)).astype(np.float32), (scale * np.sin(angles)).astype(np.float32)


def frequencies(config: ModelConfig, factors: Array | None = None, positions: int = 0) -> Array:
    """Return the frequency of each pair of elements, in radians a position, for contexts of so many positions at most.

    Source: Su et al., RoFormer, 2021; the scaling of low frequencies is that of Llama 3.1; Peng et al., YaRN, 2023;
    Ding et al., LongRoPE, 2024.
    """
    half = config.rotary_pairs
    plain = config.rope_base ** -(np.arange(half, dtype=np.float64) / half)
    if factors is not None:
        plain = plain / factors.astype(np.float64)
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    if scaling.kind == "longrope":
        long = positions > scaling.original_context
        own: Array = plain / np.array(scaling.long_factors if long else scaling.short_factors)
        return own
    if scaling.kind == "yarn":
        return _yarn(plain, scaling, config.rope_base)
    return plain / scaling.factor if scaling.kind == "linear" else _llama3(plain, scaling)


def _yarn(plain: Array, scaling: RopeScaling, base: float) -> Array:
    """Scale frequencies.

    Pairs that turn often within the original context keep theirs; those that turn seldom are stretched.
    """
    half = len(plain)
    first, last = (
        half * math.log(scaling.original_context / (turns * 2 * math.pi)) / math.log(base)
        for turns in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * half - 1)
    stretched = np.clip((np.arange(half) - first) / (last - first if last != first else 1e-3), 0, 1)
    blended: Array = plain / scaling.factor * stretched + plain * (1 - stretched)
    return blended


def _llama3(plain: Array, scaling: RopeScaling) -> Array:
    turns = scaling.original_context * plain / (2 * math.pi)  # within the context of the first training
    blend = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    blend = np.clip(blend, 0, 1)
    blended: Array = plain / scaling.factor * (1 - blend) + plain * blend
    return blended
