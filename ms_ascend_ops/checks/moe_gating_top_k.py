"""Checks experts, their groups, and how many a token has."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    limits = registry.op_spec("moe_gating_top_k").limits
    k, groups, open_groups = (attributes[name] for name in ("k", "group_count", "k_group"))
    if k > limits["experts_of_a_token"]:
        raise ValueError(f"moe_gating_top_k: k must be at most {limits['experts_of_a_token']}, got {k}")
    if groups > limits["groups"]:
        raise ValueError(f"moe_gating_top_k: group_count must be at most {limits['groups']}, got {groups}")
    if open_groups > groups:
        raise ValueError(f"moe_gating_top_k: k_group must be at most group_count ({groups}), got {open_groups}")
    experts = shapes[0][-1]
    if experts < 0:
        return
    if experts > limits["experts"]:
        raise ValueError(f"moe_gating_top_k: x.shape[-1] must be at most {limits['experts']}, got {shapes[0]}")
    if experts % groups:
        raise ValueError(f"moe_gating_top_k: group_count must divide x.shape[-1] ({experts}), got {groups}")
    if k > experts // groups * open_groups:
        raise ValueError(
            f"moe_gating_top_k: k must be at most the experts of k_group groups ({experts // groups * open_groups}),"
            f" got {k}"
        )
    if attributes["group_score"] == "top2" and 1 < groups == experts:
        raise ValueError(f"moe_gating_top_k: a group must have two experts for 'top2', got {groups} of {experts}")
