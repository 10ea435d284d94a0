"""Finds the fused operators that are to blame: those whose replacement by stock operators takes a difference away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mindspore import nn

from ms_ascend_ops.debug.capture import of_cell
from ms_ascend_ops.debug.compare import compare
from ms_ascend_ops.debug.dump import Record
from ms_ascend_ops.dispatch import table
from ms_ascend_ops.dispatch.policies import Fixed

__all__ = ["blame"]


class _Called:
    """Hears which operators are called."""

    every = True

    def __init__(self) -> None:
        self.names: list[str] = []

    def called(self, operator: str, version: str, bucket: str, seconds: float, nbytes: int, counted: bool) -> None:
        if operator not in self.names:
            self.names.append(operator)

    def failed(self, operator: str, version: str, kind: str) -> None:
        """Do nothing: this is of no use here."""

    def fell_back(self, operator: str, version: str, to: str) -> None:
        """Do nothing: this is of no use here."""


def blame(net: nn.Cell, inputs: Sequence[Any], golden: Record) -> tuple[list[str], str]:
    """Find by halving the smallest set of fused operators of a network whose replacement explains `golden`.

    Args:
        net: the network that differs. It runs in PyNative, once for each try.
        inputs: what it is called with.
        golden: the record of the network that it is to agree with.

    Returns:
        The names, and how they were found. No names: with all replaced the difference is still there, or there is none.
    """
    heard = _Called()
    table.listen(heard)
    try:
        before = _differs(net, inputs, golden)
    finally:
        table.unlisten(heard)
    replaceable = [name for name in heard.names if "composition" in table.table_of(name).versions]
    others = sorted(set(heard.names) - set(replaceable))
    note = f"; {', '.join(others)} cannot be replaced" if others else ""
    if not before:
        return [], "no place differs by more than rounding explains"
    tries = 0

    def still(names: list[str]) -> bool:
        nonlocal tries
        tries += 1
        with _replaced(names):
            return _differs(net, inputs, golden)

    if not replaceable or still(replaceable):
        return [], f"the difference stays with all of {', '.join(replaceable) or 'no operator'} replaced{note}"
    found = _smallest(replaceable, still)
    return found, f"found in {tries} runs of {len(replaceable)} operators ({', '.join(replaceable)}){note}"


def _differs(net: nn.Cell, inputs: Sequence[Any], golden: Record) -> bool:
    return not compare(of_cell(net, inputs), golden).equal


def _smallest(names: list[str], still: Callable[[list[str]], bool]) -> list[str]:
    """Reduce names that together explain it to as few as that takes (delta debugging)."""
    parts = 2
    while len(names) > 1:
        size = -(-len(names) // parts)
        pieces = [names[i : i + size] for i in range(0, len(names), size)]
        rests = [[name for name in names if name not in piece] for piece in pieces]
        smaller = next((one for one in (pieces + rests if parts > 2 else pieces) if one and not still(one)), None)
        if smaller is not None:
            names, parts = smaller, 2
        elif parts >= len(names):
            break
        else:
            parts = min(2 * parts, len(names))
    return names


@contextmanager
def _replaced(names: Sequence[str]) -> Iterator[None]:
    """Run with stock operators for these names; policies are as they were afterwards."""
    before = {name: (table.table_of(name), table.ACTIVE.get(name)) for name in names}
    kept = {name: (one.policy, one.guard, one.used) for name, (one, _) in before.items()}
    for name, (one, _) in before.items():
        one.policy, one.guard, one.used = Fixed("composition"), None, True
        one.changed()
        table.ACTIVE[name] = one
    try:
        yield
    finally:
        for name, (one, active) in before.items():
            one.policy, one.guard, one.used = kept[name]
            one.changed()
            if active is None:
                table.ACTIVE.pop(name, None)
