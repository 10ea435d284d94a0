"""The places where a fused operator belongs, as a table.

One row per pattern: its name, a matcher and a builder. A matcher looks at one cell of a user's network and returns a
`Match`, a `Skip` with the reason when the cell is of that kind but must stay, or None when it is something else.
Matchers go by what a cell computes, never by its class or by the names of its attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mindspore import nn
from ms_ascend_ops.export.match_rms_norm import build_rms_norm, match_rms_norm
from ms_ascend_ops.export.match_swiglu import build_swiglu_mlp, match_swiglu_mlp
from ms_ascend_ops.export.outcome import Match, Skip

__all__ = ["PATTERNS", "Pattern"]


@dataclass(frozen=True)
class Pattern:
    """One row: what is recognised, how, and what is put there."""

    name: str
    match: Callable[[nn.Cell], Match | Skip | None]
    build: Callable[[nn.Cell, Match], nn.Cell]


PATTERNS: tuple[Pattern, ...] = (
    Pattern("RMSNorm", match_rms_norm, build_rms_norm),
    Pattern("SwiGLU MLP", match_swiglu_mlp, build_swiglu_mlp),
)
