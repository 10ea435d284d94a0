"""Checks slots of the cache."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    cache = shapes[2]
    most = registry.op_spec("kv_cache_update").limits["slots"]
    if len(cache) == 4 and -1 not in cache and cache[0] * cache[1] > most:
        raise ValueError(f"kv_cache_update: the cache must have at most {most} slots, got key_cache of shape {cache}")
