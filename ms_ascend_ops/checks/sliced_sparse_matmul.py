"""Checks what the Unified Buffer holds of a row of x, and of pieces."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry

__all__ = ["check"]


def check(shapes: list[Any], attributes: dict[str, Any]) -> None:
    x, (slices,) = shapes[0], shapes[1]
    most = registry.op_spec("sliced_sparse_matmul").limits["elements"]
    if x[-1] > most:
        raise ValueError(f"sliced_sparse_matmul: x.shape[-1] must be at most {most}, got {x}")
    if 64 * slices > most:
        raise ValueError(f"sliced_sparse_matmul: slice_ends.shape[0] must be at most {most // 64}, got {slices}")
