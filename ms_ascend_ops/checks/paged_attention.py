"""Checks sizes of heads, the window, the soft cap, and slots of the cache."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry
from ms_ascend_ops.checks._attention import head_sizes_and_window

__all__ = ["check"]

_sizes_and_window = head_sizes_and_window("paged_attention", ("query", "key_cache", "value_cache"))


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    _sizes_and_window(shapes, attributes)
    if not 0 <= attributes["softcap"] <= 1e30:
        raise ValueError(
            f"paged_attention: softcap must be 0 (none) or more, and at most 1e30, got {attributes['softcap']}"
        )
    limits = registry.op_spec("paged_attention").limits
    cache = shapes[1]
    if len(cache) == 4 and -1 not in cache and cache[0] * cache[1] > limits["slots"]:
        raise ValueError(
            f"paged_attention: the cache must have at most {limits['slots']} slots, got key_cache of shape {cache}"
        )
