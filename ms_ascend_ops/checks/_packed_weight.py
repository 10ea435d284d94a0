"""Checks weights in 8 or 4 bits, and the groups of their scales."""

from __future__ import annotations

from ms_ascend_ops import registry
from ms_ascend_ops.checks import ShapeCheck

__all__ = ["packed_weight"]


def packed_weight(op: str) -> ShapeCheck:
    return lambda shapes, _: _packed_weight(op, *shapes[:3])


def _packed_weight(op: str, x: tuple[int, ...], weight: tuple[int, ...], scale: tuple[int, ...]) -> None:
    limits = registry.op_spec(op).limits
    k, row, groups = x[-1], weight[-1], scale[-1]
    if k > 0 and row > 0 and k // row not in (1, 2):
        raise ValueError(
            f"{op}: weight.shape[-1] must be x.shape[-1] (8 bits) or half of that (4 bits),"
            f" got x {x} and weight {weight}"
        )
    if k > 0 and groups > 1:
        rule = ""
        if k // groups > limits["group_size"]:
            rule = f"must have at most {limits['group_size']} elements"
        elif k // groups % 16:
            rule = "must have a multiple of 16 elements"
        if rule:
            raise ValueError(
                f"{op}: a group {rule}, or be a whole row, got {groups} groups of {k // groups}: x {x}, scale {scale}"
            )
