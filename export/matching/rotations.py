"""Recognises matrices whose product rotates pairs of elements by a right angle, as rotary embedding does with some."""

from __future__ import annotations

from typing import Any

import numpy as np
from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.matching.expr import Expr

__all__ = ["rotated_by", "rotated_pairs", "rotation_matrix"]

_BACK = " back"


def rotated_by(x: Expr, matrix: Expr, transposed: bool, node: Node) -> Expr | None:
    """Read the product with a matrix that rotates pairs of x, or rotates them back; None with any other."""
    while matrix.inputs:
        if matrix.op == "transpose" and _swaps_last(matrix.attributes["order"]):
            transposed = not transposed
        elif matrix.op not in ("broadcast", "cast", "expand_dims") or not _same_matrix(matrix):
            return None
        matrix = matrix.inputs[0]
    mode = _pairs_of(matrix)
    if not mode:
        return None
    back = mode.endswith(_BACK)
    attributes = {"mode": mode.removesuffix(_BACK)}
    if back is transposed:
        return Expr("rotated_pairs", (x,), attributes, node)
    return Expr("neg", (Expr("rotated_pairs", (x,), attributes),), node=node)


def _same_matrix(expr: Expr) -> bool:
    """Tell whether what is applied to a matrix leaves its last two axes as they are."""
    before = expr.inputs[0].shape
    return expr.shape is not None and before is not None and expr.shape[-2:] == before[-2:]


def _swaps_last(order: tuple[int, ...]) -> bool:
    rank = len(order)
    return order == (*range(rank - 2), rank - 1, rank - 2)


def _pairs_of(matrix: Expr) -> str:
    """Return what `rotated_pairs` says of a matrix."""
    if matrix.node is None:
        return ""
    value = matrix.node.value
    if isinstance(value, np.ndarray):
        return rotated_pairs(value)
    return str(matrix.node.attributes.get("rotates", ""))


def rotated_pairs(values: Any) -> str:
    """Return which pairs a product with a matrix rotates by a right angle: "half", "interleave", or none.

    (-x2, x1) of x1 and x2; " back" is behind it where it is (x2, -x1).
    """
    if values.ndim < 2 or values.shape[-1] != values.shape[-2] or not values.size or values.shape[-1] % 2:
        return ""
    every = values.reshape(-1, *values.shape[-2:])
    values = every[0]
    if np.any(every != values):
        return ""
    known = (mode + back for mode in ("half", "interleave") for back in ("", _BACK))
    return next((rotation for rotation in known if np.array_equal(values, rotation_matrix(rotation, len(values)))), "")


def rotation_matrix(rotation: str, size: int) -> Any:
    """Return the matrix of which `rotated_pairs` says this."""
    quarter, identity = np.array([[0, 1], [-1, 0]]), np.eye(size // 2)
    if rotation.endswith(_BACK):
        quarter = -quarter
    return np.kron(quarter, identity) if rotation.startswith("half") else np.kron(identity, quarter)
