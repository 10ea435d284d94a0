"""Checks the packed weight, and the groups of its scales."""

from __future__ import annotations

from ms_ascend_ops.checks._packed_weight import packed_weight

__all__ = ["check"]

check = packed_weight("weight_quant_matmul")
