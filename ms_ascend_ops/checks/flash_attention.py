"""Checks sizes of heads, and the window."""

from __future__ import annotations

from ms_ascend_ops.checks._attention import head_sizes_and_window

__all__ = ["check"]

check = head_sizes_and_window("flash_attention")
