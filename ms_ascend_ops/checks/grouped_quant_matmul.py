"""Checks the length of a sum, K."""

from __future__ import annotations

from ms_ascend_ops.checks._columns import exact_sums

__all__ = ["check"]

check = exact_sums("grouped_quant_matmul")
