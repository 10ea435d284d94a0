"""Lets a feature answer calls of operators in place of this library's kernels: `dispatch` does.

`custom.py`, the core, looks for an operator in `ROUTERS` with every call, and knows no feature. Needs no MindSpore.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

__all__ = ["ROUTERS", "Makers", "Routed", "Router"]

Function = Callable[..., Any]


@dataclass(frozen=True)
class Makers:
    """Holds what the core can make of an operator with its attributes: functions of all its inputs.

    Args:
        kernel: the kernel of a library; None is this one.
        cann: MindSpore's function for CANN's own operator.
        applied: takes a function of the inputs and the attributes.
    """

    kernel: Callable[[Path | None], Function]
    cann: Callable[[], Function]
    applied: Callable[[Function], Function]


class Routed(Protocol):
    """Answers calls of one operator with one set of attributes on one device."""

    def __call__(self, *tensors: Any) -> Any:
        """Answer a call in PyNative."""

    def in_graph(self, shapes: Sequence[tuple[int, ...] | None], dtypes: Sequence[str | None]) -> Function:
        """Return the function that a graph gets. Unknown dims are -1; of absent inputs both are None."""


class Router(Protocol):
    """Chooses who answers the calls of one operator."""

    def route(
        self, make: Makers, check: Callable[..., None], device: str, attributes: dict[str, Any], first: str
    ) -> Routed:
        """Return what answers calls with these attributes.

        Args:
            make: the functions that there are.
            check: raises for inputs that the operator does not take.
            device: the device target.
            attributes: all of them, by name.
            first: the implementation that comes first where nothing else is said; empty: no matter.
        """


# Routers by operator. All others go to this library's kernel, which costs one look into an empty dict.
ROUTERS: dict[str, Router] = {}
