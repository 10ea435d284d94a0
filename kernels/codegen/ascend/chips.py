"""The chips a CANN package can be built for, and what they lack.

Sources: the Ascend C guide (the support table of each instruction), and the compute units of CANN's project template.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ms_ascend_ops.registry import Signature

__all__ = ["CHIPS", "Chip", "type_rows", "unsupported_reason"]


@dataclass(frozen=True)
class Chip:
    """One compute unit of CANN. `lacks` are dtypes it has not, `missing` instructions, with the reason."""

    name: str
    title: str
    lacks: frozenset[str] = frozenset()
    missing: Mapping[str, str] = field(default_factory=dict)


CHIPS = {
    chip.name: chip
    for chip in (
        Chip("ascend910b", "Atlas A2 (910B1 to 910B4)"),
        Chip("ascend910_93", "Atlas A3 (910_93)"),
        Chip(
            "ascend310p",
            "Atlas inference products (310P)",
            frozenset({"bfloat16"}),
            {
                "DataCopyPad": "it copies whole blocks of 32 bytes only, and the kernel needs DataCopyPad for tails",
                "SyncAll": "its cores have no hardware barrier, and the kernel needs SyncAll",
            },
        ),
    )
}


def type_rows(signature: Signature, chip: Chip) -> list[Mapping[str, str]]:
    """The combinations of dtypes of a kernel that the chip has."""
    fixed = {tensor.dtype for tensor in signature.inputs + signature.outputs if tensor.dtype not in signature.variables}
    return [row for row in signature.types if not chip.lacks & (fixed | set(row.values()))]


def unsupported_reason(signature: Signature, source: str, chip: Chip) -> str:
    """Why a kernel cannot run on a chip, or nothing. `source` is all that the kernel is made of."""
    for instruction, reason in chip.missing.items():
        if f"{instruction}(" in source:
            return reason
    return "" if type_rows(signature, chip) else f"it has no {', '.join(sorted(chip.lacks))}"
