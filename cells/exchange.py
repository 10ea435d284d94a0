"""Puts layers into a network in the place of others, with their Parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mindspore as ms
from mindspore import nn

__all__ = ["exchange", "named_as_before"]

_LISTS = (nn.CellList, nn.SequentialCell)  # of cells that numbers name


def named_as_before(make: Callable[[], nn.Cell], parameters: list[Any]) -> nn.Cell:
    """Return what `make` makes; the parameters keep their names, in front of which MindSpore puts a prefix."""
    names = [(parameter, parameter.name) for parameter in parameters]
    made = make()
    for parameter, name in names:
        parameter.name = name
    return made


def exchange(network: nn.Cell, layers: Mapping[str, nn.Cell]) -> list[str]:
    """Put each layer where its name says, with the names that its parameters have. Returns the names of the layers.

    Graphs that MindSpore has compiled are dropped: those of the network hold the cells that were there before.
    """
    for name, layer in layers.items():
        *path, last = name.split(".")
        owner: Any = network
        for part in path:
            owner = owner[int(part)] if isinstance(owner, _LISTS) else getattr(owner, part)
        names = [(parameter, parameter.name) for parameter in layer.get_parameters()]
        if isinstance(owner, _LISTS):
            owner[int(last)] = layer
        else:
            setattr(owner, last, layer)
        for parameter, own_name in names:
            parameter.name = own_name
    if layers:
        ms.ms_memory_recycle()
    return list(layers)
