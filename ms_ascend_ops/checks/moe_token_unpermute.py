"""Checks experts of a token."""

from __future__ import annotations

from ms_ascend_ops.checks._experts import experts_of_a_token

__all__ = ["check"]

check = experts_of_a_token("moe_token_unpermute", 1)
