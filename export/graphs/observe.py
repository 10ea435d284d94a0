"""What the cells of a network are called with, and what they return, from one run of it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mindspore import Tensor, nn
from ms_ascend_ops.export.graphs.modes import evaluating, pynative
from ms_ascend_ops.export.graphs.probe import settle
from ms_ascend_ops.export.graphs.trace import Spec, spec_of

__all__ = ["Observed", "observe_calls"]

_CALLS_OF_A_KIND = 3


@dataclass
class Observed:
    """By the id of a cell: descriptions of the inputs of its calls, by name, and of what it returned first."""

    calls: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    returns: dict[int, Any] = field(default_factory=dict)

    def kinds(self, cell: nn.Cell) -> list[list[dict[str, Any]]]:
        """The calls of a cell, those together that give it the same optional inputs."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for call in self.calls.get(id(cell), []):
            groups.setdefault(_kind(call), []).append(call)
        return list(groups.values())


def _kind(call: Mapping[str, Any]) -> str:
    return repr([(n, "tensor" if isinstance(v, Spec) else v) for n, v in call.items() if v is not None])


def observe_calls(net: nn.Cell, calls: Sequence[Sequence[Tensor]]) -> Observed:
    """Run `net`, operator by operator, and write down how its cells are called. What it cannot run stays empty."""
    observed = Observed()
    with pynative(), evaluating(net), _watching(observed):
        for inputs in calls:
            try:
                net(*inputs)
            except Exception:  # operators without a kernel on this machine: what ran before is known
                settle()
    return observed


@contextmanager
def _watching(observed: Observed) -> Iterator[None]:
    original = nn.Cell.__call__

    def call(self: nn.Cell, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        try:
            bound = inspect.signature(inspect.unwrap(type(self).construct)).bind(self, *args, **kwargs).arguments
        except (TypeError, ValueError):
            return result
        described = {name: spec_of(value) for name, value in list(bound.items())[1:]}
        known = observed.calls.setdefault(id(self), [])
        if described not in known and sum(_kind(k) == _kind(described) for k in known) < _CALLS_OF_A_KIND:
            known.append(described)
        observed.returns.setdefault(id(self), spec_of(result))
        return result

    nn.Cell.__call__ = call
    try:
        yield
    finally:
        nn.Cell.__call__ = original
