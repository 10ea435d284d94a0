"""What a matcher says about a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Match", "Skip"]


@dataclass(frozen=True)
class Match:
    """The cell computes the pattern. `arguments` is what the builder needs; `note` is for the reader of the report."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Skip:
    """The cell is of the pattern's kind, and must stay as it is."""

    reason: str
