"""Sizes of heads, and slots of the cache."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    limits = registry.op_spec("paged_attention").limits
    for name, shape in zip(("query", "key_cache", "value_cache"), shapes, strict=False):
        if shape[-1] > limits["head_size"]:
            raise ValueError(f"paged_attention: {name}.shape[-1] must be at most {limits['head_size']}, got {shape}")
    cache = shapes[1]
    if len(cache) == 4 and -1 not in cache and cache[0] * cache[1] > limits["slots"]:
        raise ValueError(
            f"paged_attention: the cache must have at most {limits['slots']} slots, got key_cache of shape {cache}"
        )
