"""Checks heads that are rotated, and the tables of their angles."""

from __future__ import annotations

from typing import Any

from ms_ascend_ops import registry

__all__ = ["rotated"]


def rotated(
    op: str,
    name: str,
    x: tuple[int, ...],
    cos: tuple[int, ...],
    sin: tuple[int, ...],
    attributes: dict[str, Any],
) -> None:
    """Raise ValueError if heads of x cannot be rotated by tables of these shapes."""
    most, rotary_dim = registry.op_spec(op).limits["head_size"], attributes["rotary_dim"]
    if rotary_dim < 0 or rotary_dim % 2:
        raise ValueError(f"{op}: rotary_dim must be even and at least 0, got {rotary_dim}")
    if (-2,) not in (cos, sin) and (
        len(cos) != len(sin) or any(a != b and -1 not in (a, b) for a, b in zip(cos, sin, strict=True))
    ):
        raise ValueError(f"{op}: sin.shape must be cos.shape {cos}, got {sin}")
    dim = -1 if x == (-2,) else x[-1]
    if dim == -1:
        return
    if rotary_dim > dim:
        raise ValueError(f"{op}: rotary_dim must be at most {name}.shape[-1] ({dim}), got {rotary_dim}")
    if dim > most:
        raise ValueError(f"{op}: {name}.shape[-1] must be at most {most}, got {x}")
    rotated = rotary_dim or dim
    if rotated % 2:
        raise ValueError(f"{op}: {name}.shape[-1] must be even (its elements are rotated in pairs), got {x}")
    if cos != (-2,) and attributes["separate_halves"] and cos[-1] not in (rotated, -1):
        raise ValueError(f"{op}: cos.shape[-1] must be {rotated} with separate_halves, got {cos}")
    if cos != (-2,) and cos[-1] not in (rotated, rotated // 2, -1):
        raise ValueError(
            f"{op}: cos.shape[-1] must be {rotated} or {rotated // 2} where {rotated} elements of a head are rotated, "
            f"got {cos}"
        )
