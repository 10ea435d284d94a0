"""Checks heads, the tables of angles, and how those broadcast."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops.checks._rotary import rotated

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    x, cos, sin = shapes[:3]
    rotated("rotary_embedding", "x", x, cos, sin, attributes)
    if -2 not in (*x, *cos):
        _tables(x[: attributes["seq_axis"]], cos[:-2], cos)


def _tables(batch: tuple[int, ...], tables: tuple[int, ...], cos: tuple[int, ...]) -> None:
    """Check that the dims that tables differ in are neighbours: the kernel reads those of one stretch of x in
    one piece.
    """
    aligned = (1,) * (len(batch) - len(tables)) + tables
    own = [i for i, size in enumerate(aligned) if size != 1]
    if own and any(aligned[i] == 1 and batch[i] not in (1, -1) for i in range(own[0], own[-1])):
        raise ValueError(
            f"rotary_embedding: cos must not broadcast in a dim between two in which it does not, got {cos}"
        )
