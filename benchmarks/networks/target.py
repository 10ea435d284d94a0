"""Holds what is measured of a network, and the table of the networks that there are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from mindspore import Tensor, nn
from ms_ascend_ops.benchmarks.networks import clients

__all__ = ["Phase", "Target", "build", "client", "missing", "names"]


@dataclass(frozen=True)
class Phase:
    """Describes one use of a network: a cell, and what it is called with. A call yields `items` tokens or images."""

    name: str
    cell: nn.Cell
    inputs: tuple[Tensor, ...]
    items: int = 1
    unit: str = "tokens"
    # Maps the position of an input to the axes that the exported graph leaves open, as in `export_mindir`.
    dynamic: dict[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """Holds a network in one size. `loss(*batch)` is what a training step lowers; None if it is not trained here."""

    net: nn.Cell
    phases: tuple[Phase, ...]
    verify: tuple[tuple[Tensor, ...], ...]  # calls of `net` that show `optimize` how it is used
    loss: Callable[..., Tensor] | None = None
    batch: tuple[Tensor, ...] = ()
    items: int = 1
    unit: str = "tokens"


@cache
def names() -> tuple[str, ...]:
    """Return the names of the networks: the files in clients/."""
    return tuple(sorted(m.name for m in iter_modules(clients.__path__) if not m.name.startswith("_")))


def client(name: str) -> ModuleType:
    """Return the file of a network. Importing it imports no network."""
    return import_module(f"{clients.__name__}.{name}")


def missing(name: str) -> list[str]:
    """Return what has to be installed before a network can be measured."""
    return [package for package in client(name).NEEDS if package not in sys.modules and find_spec(package) is None]


def build(name: str, size: str, dtype: str) -> Target:
    """Build a network with its parameters.

    Raises:
        ValueError: there is no such size.
    """
    module: Any = client(name)
    if size not in module.SIZES:
        raise ValueError(f"{name} has the sizes {', '.join(module.SIZES)}, got {size}")
    made: Target = module.build(module.SIZES[size], dtype)
    return made
