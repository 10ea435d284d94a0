"""Putting fused operators into a network in place of what its own cells compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.modes import evaluating, pynative
from ms_ascend_ops.export.outcome import Match, Skip
from ms_ascend_ops.export.patterns import PATTERNS, Pattern
from ms_ascend_ops.export.probe import Array, dtype_name, read, sub_cells
from ms_ascend_ops.export.report import Difference, Entry, Report

__all__ = ["optimize"]

_Values = list[tuple[str, Array]]

_ENGINE = "cell"

# How far the outputs may move, as a share of their largest magnitude: the rounding errors of a deep network.
_TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def optimize(
    net: nn.Cell,
    *,
    verify: Sequence[Tensor] | None = None,
    gradients: bool = False,
    tolerance: float | None = None,
    patterns: Sequence[Pattern] = PATTERNS,
) -> Report:
    """Replace, in place, the cells of `net` that compute what a fused operator computes.

    A cell is judged by what it computes, not by its class or name. Parameters stay the same objects under the same
    names: checkpoints, optimizers and gradients go on as before. Graphs that MindSpore has compiled in this process are
    dropped and compiled again on their next call, since they may hold the old cells.

    Args:
        net: the network.
        verify: inputs of `net`. When given, it runs on them before and after, in evaluation mode, and the report says
            how much the outputs differ; beyond the tolerance everything is put back.
        gradients: compare also the gradients of the parameters for those inputs.
        tolerance: largest allowed difference as a share of the largest magnitude. By default 1e-4 for float32, 2e-2 for
            float16 and 1e-1 for bfloat16.
        patterns: what to look for.

    Returns:
        A report that prints as a table; `report.restore()` undoes everything.

    Raises:
        TypeError: `net` is not a Cell, or `gradients` is asked for without `verify`.
    """
    if not isinstance(net, nn.Cell):
        raise TypeError(f"optimize: net must be a mindspore.nn.Cell, got {type(net).__name__}")
    if gradients and verify is None:
        raise TypeError("optimize: gradients=True needs the inputs to compare them for (verify=inputs)")
    before = None if verify is None else _measure(net, verify, gradients)
    report = Report()
    with pynative():
        replacements = _find(net, patterns, report)
    _swap(net, replacements, report)
    if before is None or not report.undo:
        return report

    try:
        after = _measure(net, verify or (), gradients)
    except Exception as error:
        report.rolled_back = f"the network fails with the fused operators: {error}"
    else:
        report.outputs = _difference(before[0], after[0])
        report.gradients = _difference(before[1], after[1]) if gradients else None
        limit = _TOLERANCES[_coarsest(before[0])] if tolerance is None else tolerance
        for what, found in (("outputs", report.outputs), ("gradients", report.gradients)):
            if found is not None and not found.relative <= limit:
                report.rolled_back = f"the {what} differ by {found.relative:.2e}, more than {limit:g}"
    if report.rolled_back:
        report.restore()
    return report


def _find(net: nn.Cell, patterns: Sequence[Pattern], report: Report) -> dict[int, tuple[nn.Cell, nn.Cell]]:
    """Walk the tree and enter every recognised cell in the report. Returns (old, new) by the id of the old."""
    replacements: dict[int, tuple[nn.Cell, nn.Cell]] = {}
    seen: dict[int, str] = {}

    def visit(cell: nn.Cell, place: str) -> None:
        if type(cell).__module__.startswith("ms_ascend_ops."):
            return
        if id(cell) in seen:  # a cell that is used in two places
            known = [entry for entry in report.entries if entry.place == seen[id(cell)]]
            report.entries.extend(Entry(place, e.pattern, e.engine, e.replaced, e.text) for e in known)
            return
        seen[id(cell)] = place
        for pattern in patterns:
            outcome = pattern.match(cell)
            if outcome is None:
                continue
            reason = outcome.reason if isinstance(outcome, Skip) else _obstacle(cell, place)
            if isinstance(outcome, Match) and not reason:
                new = pattern.build(cell, outcome)
                _take_over(cell, new)
                replacements[id(cell)] = (cell, new)
                report.entries.append(Entry(place, pattern.name, _ENGINE, True, outcome.note))
                return
            report.entries.append(Entry(place, pattern.name, _ENGINE, False, reason))
        for name, child in sub_cells(cell).items():
            visit(child, f"{place}.{name}" if place else name)

    visit(net, "")
    return replacements


def _obstacle(cell: nn.Cell, place: str) -> str:
    """Why a cell that computes a pattern must stay all the same."""
    if not place:
        return "it is the network itself: only cells inside a network can be swapped"
    hooks = ("_forward_pre_hook", "_forward_hook", "_backward_pre_hook", "_backward_hook")
    if any(getattr(cell, name) for name in hooks):
        return "a hook is registered on it"
    if cell._shard_fn or cell._in_strategy or cell._out_strategy:
        return "it has a parallel strategy"
    flags = getattr(cell, "_func_graph_flags", None) or {}
    if "output_recompute" in flags:  # on a cell around it, it does no harm
        return "recompute is set on it"
    if cell.mixed_precision_type or any(flags.get(name) for name in ("fp16", "bf16", "fp32")):
        return "it casts its inputs (to_float or automatic mixed precision)"
    return ""


def _take_over(old: nn.Cell, new: nn.Cell) -> None:
    """Give a new cell the state that MindSpore keeps for the old one besides parameters and sub-cells."""
    for name in ("requires_grad", "_param_prefix", "_scope", "_phase", "_has_config_recompute"):
        object.__setattr__(new, name, getattr(old, name))
    new.add_flags(training=old.training)


def _swap(net: nn.Cell, replacements: dict[int, tuple[nn.Cell, nn.Cell]], report: Report) -> None:
    """Put the new cells wherever the old ones are referred to: as sub-cells, and in attributes that list sub-cells."""

    def new(value: Any) -> Any:
        return replacements[id(value)][1] if id(value) in replacements else value

    def put(target: Any, key: Any, value: Any) -> None:
        old = target[key]
        target[key] = value
        report.undo.append(lambda: target.__setitem__(key, old))

    if not replacements:
        return
    report.undo.append(ms.ms_memory_recycle)  # restore() goes backwards: this comes last
    for _, cell in list(net.cells_and_names()):
        for name, child in list(cell._cells.items()):
            if id(child) in replacements:
                put(cell._cells, name, new(child))
        for name, value in list(cell.__dict__.items()):
            # SequentialCell, for one, calls the cells of a list of its own.
            if type(value) in (list, tuple) and any(id(item) in replacements for item in value):
                put(cell.__dict__, name, type(value)(map(new, value)))
    ms.ms_memory_recycle()  # drops compiled graphs, which hold the old cells


def _measure(net: nn.Cell, inputs: Sequence[Tensor], gradients: bool) -> tuple[_Values, _Values]:
    """Outputs, and gradients of the parameters for fixed random gradients of the outputs."""
    with evaluating(net):
        outputs = net(*inputs)
        values = _values(outputs)
        if not gradients:
            return values, []
        random = np.random.default_rng(4)
        gradient = ops.GradOperation(get_by_list=True, sens_param=True)(net, net.trainable_params())
        return values, _values(gradient(*inputs, _map(outputs, lambda out: _noise(out, random))))


def _noise(like: Tensor, random: np.random.Generator) -> Tensor:
    return Tensor(random.standard_normal(like.shape).astype(np.float32)).astype(like.dtype)


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    return tuple(_map(v, function) for v in value) if isinstance(value, (tuple, list)) else function(value)


def _values(value: Any) -> _Values:
    """Every tensor of nested tuples, as (dtype name, values)."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _values(item)]
    return [(dtype_name(value.dtype), read(value))] if isinstance(value, Tensor) else []


def _difference(before: _Values, after: _Values) -> Difference:
    """Tensor by tensor, so that large numbers in one do not hide the error of another; the worst counts."""
    absolute = relative = 0.0
    for (_, old), (_, new) in zip(before, after, strict=True):
        error = float(np.abs(new - old).max(initial=0.0))
        scale = float(np.abs(old).max(initial=0.0))
        absolute = max(absolute, error)
        # A NaN stays one: it is not below any tolerance.
        relative = float(np.maximum(relative, error / scale if scale > 0 else error))
    return Difference(absolute, relative)


def _coarsest(values: _Values) -> str:
    dtypes = {dtype for dtype, _ in values}
    return next((dtype for dtype in ("bfloat16", "float16") if dtype in dtypes), "float32")
