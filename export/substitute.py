"""Putting fused operators into a network in place of what its own cells compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
from mindspore import Parameter, Tensor, nn
from ms_ascend_ops.export import rewrite_engine
from ms_ascend_ops.export.cell_engine import Analysis, analyse
from ms_ascend_ops.export.find import check_level
from ms_ascend_ops.export.generated import is_generated
from ms_ascend_ops.export.measure import Measured, measure
from ms_ascend_ops.export.modes import pynative
from ms_ascend_ops.export.observe import Observed, observe_calls
from ms_ascend_ops.export.patterns import PATTERNS, Row
from ms_ascend_ops.export.probe import dtype_name, sub_cells
from ms_ascend_ops.export.report import Entry, Report

__all__ = ["optimize"]

ENGINES = ("cell", "rewrite")


def optimize(
    net: nn.Cell,
    *,
    verify: Sequence[Tensor] | None = None,
    gradients: bool = False,
    tolerance: float | None = None,
    level: str = "O2",
    engines: Sequence[str] = ("cell",),
    patterns: Sequence[Row] = PATTERNS,
) -> Report:
    """Replace, in place, what the cells of `net` compute and a fused operator computes as well.

    A cell is judged by what it computes, not by its class or name. Each stays the object that it is, with its
    parameters, and gets a class with another `construct`: checkpoints, optimizers and gradients go on as before. Graphs
    that MindSpore has compiled in this process are dropped and compiled again on their next call, since they may hold
    the old constructs.

    Args:
        net: the network.
        verify: inputs of `net`. When given, it runs on them before and after, in evaluation mode, and the report says
            how much the outputs differ; beyond the tolerance everything is put back. They also show what its blocks are
            called with, so that larger ones are looked at.
        gradients: compare also the gradients of the parameters for those inputs.
        tolerance: largest allowed difference as a share of the largest magnitude. By default 1e-4 for float32, 2e-2 for
            float16 and 1e-1 for bfloat16.
        level: O0 nothing; O1 exact replacements; O2 those too that round in other places in half precision; O3 one
            operator in place of several layers, as residual add and norm.
        engines: "cell" exchanges cells whose whole construct is a pattern, or one between sub-cells; "rewrite" changes
            single statements of a construct with `mindspore.rewrite`; it takes seconds per class, and needs `verify`.
        patterns: what to look for.

    Returns:
        A report that prints as a table; `report.restore()` undoes everything.

    Raises:
        TypeError: `net` is not a Cell, or `gradients` or the engine "rewrite" is asked for without `verify`.
        ValueError: `level` or `engines` names something that there is not.
    """
    if not isinstance(net, nn.Cell):
        raise TypeError(f"optimize: net must be a mindspore.nn.Cell, got {type(net).__name__}")
    if gradients and verify is None:
        raise TypeError("optimize: gradients=True needs the inputs to compare them for (verify=inputs)")
    check_level(level, "optimize")
    for engine in engines:
        if engine not in ENGINES:
            raise ValueError(f"optimize: engines must be of {', '.join(ENGINES)}, got {engine!r}")
    if "rewrite" in engines and verify is None:
        raise TypeError("optimize: the engine 'rewrite' needs inputs to prove its changes with (verify=inputs)")

    report = Report(level=level)
    before = None if verify is None else measure(net, verify, gradients)
    observed = Observed() if verify is None else observe_calls(net, verify)
    if level != "O0":
        with pynative():
            _Walk(patterns, level, observed, engines, report).visit(net, "")
    if report.undo:
        report.undo.insert(0, ms.ms_memory_recycle)  # restore() goes backwards: this comes last
        ms.ms_memory_recycle()  # drops compiled graphs, which hold the old constructs
        if before is not None:
            _prove(net, verify or (), gradients, tolerance, before, report)
    return report


def _prove(
    net: nn.Cell,
    inputs: Sequence[Tensor],
    gradients: bool,
    tolerance: float | None,
    before: Measured,
    report: Report,
) -> None:
    """Measure what has changed, and put everything back if that is too much."""
    try:
        after = measure(net, inputs, gradients)
    except Exception as error:
        report.roll_back(f"the network fails with the fused operators: {error}")
        return
    report.outputs, report.gradients = before.difference(after)
    limit = before.tolerance if tolerance is None else tolerance
    for what, found in (("outputs", report.outputs), ("gradients", report.gradients)):
        if found is not None and not found.relative <= limit:
            report.roll_back(f"the {what} differ by {found.relative:.2e}, more than {limit:g}")
            return


class _Walk:
    """Goes through the tree of cells and exchanges what can be. Cells that are made alike are judged once."""

    def __init__(
        self, patterns: Sequence[Row], level: str, observed: Observed, engines: Sequence[str], report: Report
    ) -> None:
        self.patterns, self.level, self.observed, self.report = patterns, level, observed, report
        self.engines = engines
        self._rewritten: dict[Any, rewrite_engine.Rewritten] = {}
        self._known: dict[Any, Analysis] = {}
        self._places: dict[int, str] = {}
        self._contained: set[str] = set()

    def visit(self, cell: nn.Cell, place: str) -> None:
        if is_generated(cell) or type(cell).__module__.startswith("ms_ascend_ops."):
            if id(cell) in self._places:  # a cell that is used in two places
                known = [e for e in self.report.entries if e.place == self._places[id(cell)]]
                self.report.entries.extend(Entry(place, e.pattern, e.engine, e.replaced, e.text) for e in known)
            return
        if id(cell) in self._places:
            return
        self._places[id(cell)] = place
        self._contained |= {f"{place}.{name}" if place else name for name in self._exchange(cell, place)}
        for name, child in sub_cells(cell).items():
            path = f"{place}.{name}" if place else name
            if path not in self._contained:  # in a fused operator, as an activation may be, or a norm
                self.visit(child, path)

    def _exchange(self, cell: nn.Cell, place: str) -> set[str]:
        """Do what can be done with one cell; returns the sub-cells that are contained in a fused operator now."""
        calls = self.observed.calls.get(id(cell), [])
        key = _likeness(cell), repr(calls)
        if key not in self._known:
            self._known[key] = analyse(cell, self.patterns, self.level, calls, self.observed.returns)
        found = self._known[key]
        name = place or "the network"
        if "rewrite" in self.engines and found.swap is None and found.found and calls:
            if key not in self._rewritten:
                self._rewritten[key] = rewrite_engine.rewrite(cell, self.patterns, self.level, self.observed)
            return self._give(cell, name, "rewrite", self._rewritten[key].as_analysis())
        if "cell" in self.engines:
            return self._give(cell, name, "cell", found)
        return set()

    def _give(self, cell: nn.Cell, name: str, engine: str, found: Analysis) -> set[str]:
        """Give a cell the class that was made for it, and enter in the report what that changes."""
        obstacle = _obstacle(cell) if found.swap else ""
        if found.swap is None or obstacle:
            reasons = [(f.row.name, obstacle) for f in found.swap.found] if found.swap else found.left
            self.report.entries.extend(Entry(name, n, engine, False, text) for n, text in dict.fromkeys(reasons))
            return set()
        stock = type(cell)
        object.__setattr__(cell, "__class__", found.swap.kind)
        self.report.undo.append(_class_setter(cell, stock))
        for item in found.swap.found:
            note = "; ".join([item.fused.note, *found.swap.notes] if item.fused.note else found.swap.notes)
            self.report.entries.append(Entry(name, item.row.name, engine, True, note))
        self.report.entries.extend(Entry(name, n, engine, False, text) for n, text in dict.fromkeys(found.left))
        self.report.add_graph(name, found.graph, found.found)
        return {n.origin.name for item in found.swap.found for n in item.inside if n.origin is not None}


def _class_setter(cell: nn.Cell, kind: type) -> Callable[[], None]:
    return lambda: object.__setattr__(cell, "__class__", kind)


_INTERNAL = frozenset(nn.Cell().__dict__)


def _likeness(cell: nn.Cell) -> Any:
    """Equal for cells that compute the same with their own parameters: class, attributes, shapes, sub-cells."""
    own: list[Any] = []
    for name, value in cell.__dict__.items():
        if name in _INTERNAL:
            continue
        if isinstance(value, (int, float, str, bool, type(None))):
            own.append((name, type(value).__name__, value))
        elif isinstance(value, dict) and all(isinstance(v, (int, float, str, bool)) for v in value.values()):
            own.append((name, "dict", tuple(sorted(value.items()))))
        elif isinstance(value, ms.ops.Primitive):
            own.append((name, type(value).__name__, str(value)))
        elif isinstance(value, (nn.Cell, Parameter)):
            continue
        elif isinstance(value, (tuple, list)) and all(isinstance(v, (int, float, str, bool)) for v in value):
            own.append((name, "sequence", tuple(value)))
        elif isinstance(value, (tuple, list)) and all(isinstance(v, nn.Cell) for v in value):
            own.append((name, "cells", len(value)))
        else:
            own.append((name, "object", id(value)))
    parameters = [(n, p.shape, dtype_name(p.dtype)) for n, p in cell._params.items() if p is not None]
    children = [(n, _likeness(c)) for n, c in sub_cells(cell).items()]
    return type(cell), tuple(own), tuple(parameters), tuple(children)


def _obstacle(cell: nn.Cell) -> str:
    """Why a cell that computes a pattern must stay all the same."""
    hooks = ("_forward_pre_hook", "_forward_hook", "_backward_pre_hook", "_backward_hook")
    inside = [c for c in sub_cells(cell).values() if not list(c.get_parameters())]
    if any(getattr(c, name) for c in (cell, *inside) for name in hooks):
        return "a hook is registered on it"
    if cell._shard_fn or cell._in_strategy or cell._out_strategy:
        return "it has a parallel strategy"
    flags = getattr(cell, "_func_graph_flags", None) or {}
    if "output_recompute" in flags:  # on a cell around it, it does no harm
        return "recompute is set on it"
    if cell.mixed_precision_type or any(flags.get(name) for name in ("fp16", "bf16", "fp32")):
        return "it casts its inputs (to_float or automatic mixed precision)"
    return ""
