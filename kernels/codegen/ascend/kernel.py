"""A kernel of the CANN package."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.ascend.chips import Chip
from ms_ascend_ops.registry import OpSpec, Signature

__all__ = ["Kernel"]


@dataclass(frozen=True)
class Kernel:
    """One operator of the package: the forward or the gradient of an operator, and the chips it is built for."""

    spec: OpSpec
    signature: Signature
    chips: tuple[Chip, ...]
    fields: tuple[tuple[str, str], ...]  # of its tiling data: type, name
    synchronizes: bool
    multiplies: bool  # products of matrices: its vector cores share a cube core
