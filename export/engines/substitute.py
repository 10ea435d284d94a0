"""Puts fused operators into a network in place of what its own cells compute."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.cells.moe_feed_forward import MoEFeedForward
from ms_ascend_ops.export.engines import function_engine, rewrite_engine
from ms_ascend_ops.export.engines.cell_engine import Analysis, Target, absent, analyse, normalizes_batches
from ms_ascend_ops.export.engines.equivalence import equivalence_key, form_of, unsupported_reason
from ms_ascend_ops.export.engines.experts import Experts, is_block
from ms_ascend_ops.export.engines.generated import is_generated, with_method
from ms_ascend_ops.export.engines.proof import Proof
from ms_ascend_ops.export.engines.timing import GRAPH, PYNATIVE, running
from ms_ascend_ops.export.graphs.bypass import bypassing, name_without
from ms_ascend_ops.export.graphs.graph import CALL, Node
from ms_ascend_ops.export.graphs.layers import activation_of, operator_of
from ms_ascend_ops.export.graphs.modes import pynative, quiet
from ms_ascend_ops.export.graphs.observe import Observed, functions_of, observe_calls
from ms_ascend_ops.export.graphs.probe import sub_cells
from ms_ascend_ops.export.graphs.state import State
from ms_ascend_ops.export.matching.find import check_level
from ms_ascend_ops.export.matching.patterns import PATTERNS, Row
from ms_ascend_ops.export.modules.optimize import is_module
from ms_ascend_ops.export.modules.optimize import optimize as optimize_module
from ms_ascend_ops.export.reports.measure import measured
from ms_ascend_ops.export.reports.report import Entry, Report

__all__ = ["optimize"]

ENGINES = ("cell", "rewrite")


def optimize(
    net: nn.Cell,
    *,
    verify: Sequence[Tensor] | Sequence[Sequence[Tensor]] | None = None,
    gradients: bool = False,
    graph: bool | None = None,
    tolerance: float | None = None,
    level: str = "O2",
    engines: Sequence[str] | None = None,
    patterns: Sequence[Row] = PATTERNS,
) -> Report:
    """Replace, in place, what the cells of `net` compute and a fused operator computes as well.

    A cell is judged by what it computes, not by its class or name. Each stays the object that it is, with its
    parameters, and gets a class with another `construct`: checkpoints, optimizers and gradients go on as before. Only
    blocks of experts (O3) become other cells with parameters of their own, `MoEFeedForward`: load a checkpoint before,
    and make an optimizer after. Graphs that MindSpore has compiled in this process are dropped and compiled again on
    their next call, since they may hold the old constructs.

    Args:
        net: the network. Modules of MindNLP, which are no cells, are taken, too: docs/substitution.md.
        verify: inputs of `net`. When given, it runs on them before and after, in evaluation mode, and the report says
            how much the outputs differ, and in which mode they were compared; beyond the tolerance everything is put
            back. Each run starts from the state that the network has now, which is there again in the end: parameters
            and tensors that it writes, for which they are copied once. They also show what its blocks are
            called with, so that larger ones are looked at. A network that is called in several ways, with and without
            a cache, say, takes a list for each: `[[ids], [ids, cache]]`.
        gradients: compare also the gradients of the parameters for those inputs. Where this is False, and an
            operator gives no gradient for an input as a mask, it is only made sure that no parameter loses its own.
        graph: compare the outputs in graph mode, too, which compiles the network once, and again where they differ. By
            default this is done in PyNative mode where a statement as `x += y` is in a source that was changed: graphs
            execute it in place, PyNative does not. Convolutions (O3) that are only faster in PyNative stay unless this
            is False: the network may be compiled, or exported, later.
        tolerance: largest allowed difference as a share of the largest magnitude. By default 1e-4 for float32, 2e-2 for
            float16 and 1e-1 for bfloat16.
        level: O0 nothing; O1 exact replacements; O2 those too that round in other places in half precision; O3 one
            operator in place of several layers, as residual add and norm, and in place of convolutions; a layer in
            place of a block of experts.
        engines: "cell" exchanges cells whose whole construct is a pattern, or one between sub-cells; "rewrite" changes
            single statements of a construct and of the functions that it calls, and needs `verify`.
            By default all that can be used: both with `verify`, "cell" without.
        patterns: what to look for. With other ones than these, blocks of experts stay.

    Returns:
        A report that prints as a table; `report.restore()` undoes everything. Experts get the weights back that their
        layer has by then.

    Raises:
        TypeError: `net` is not a Cell, or `gradients` or the engine "rewrite" is given without `verify`.
        ValueError: `level` or `engines` names something that there is not.
    """
    if is_module(net):
        return optimize_module(net, verify, gradients=gradients, tolerance=tolerance, level=level, patterns=patterns)
    if not isinstance(net, nn.Cell):
        raise TypeError(f"optimize: net must be a mindspore.nn.Cell, got {type(net).__name__}")
    if (gradients or graph) and verify is None:
        asked = "gradients" if gradients else "graph"
        raise TypeError(f"optimize: {asked}=True needs the inputs to compare the network for (verify=inputs)")
    check_level(level, "optimize")
    engines = _engines(engines, verify is not None)
    calls = _calls(verify)
    observed = Observed()
    proof = None
    if calls is not None:
        state = State(net)
        # In PyNative mode the watched run is also the one that is compared.
        once = not gradients and ms.get_context("mode") == ms.PYNATIVE_MODE
        with _inputs_named(net, calls):
            observed = observe_calls(net, calls) if once else observed
            complete = len(observed.outputs) == len(calls)
            before = measured(tuple(observed.outputs), observed.primitives) if complete else None
            proof = Proof(net, calls, state, before, gradients=gradients, graph=graph, tolerance=tolerance)
            observed = observed if once else observe_calls(net, calls)
        observed.outputs.clear()
        state.restore()
        state.forget_unchanged()
        observed.state = state

    experts = patterns is PATTERNS and "cell" in engines
    modes = (
        (GRAPH,) if ms.get_context("mode") == ms.GRAPH_MODE else (PYNATIVE,) if graph is False else (PYNATIVE, GRAPH)
    )

    def attempt(rows: Sequence[Row], drop: bool) -> tuple[Report, set[str]]:
        report = Report(level=level)
        walk = _Walk(rows, level, observed, engines, report, drop, Experts(net) if experts else None)
        with quiet():
            if level != "O0":
                with pynative(), running(*modes):
                    walk.start(net)
                if observed.state is not None:
                    observed.state.restore()
            if report.undo:
                report.undo.insert(0, ms.ms_memory_recycle)  # restore() goes backwards: this comes last
                ms.ms_memory_recycle()  # drops compiled graphs, which hold the old constructs
                if proof is not None:
                    blocking = proof.check(report, walk)
                    if report.rolled_back and walk.dropped:  # somebody reads it after all
                        return attempt(rows, drop=False)
                    return report, blocking
            return report, set()

    report, blocking = attempt(patterns, drop=True)
    if not blocking:
        return report
    left = [replace(e, replaced=False, text=_BLOCKED) for e in report.entries if e.replaced and e.pattern in blocking]
    report, _ = attempt([row for row in patterns if row.name not in blocking], drop=True)
    report.entries.extend(left)
    return report


_BLOCKED = "a gradient goes through its mask, and the operator gives none"


def _engines(asked: Sequence[str] | None, verify: bool) -> Sequence[str]:
    if asked is None:
        return ENGINES if verify else ("cell",)
    for engine in asked:
        if engine not in ENGINES:
            raise ValueError(f"optimize: engines must be of {', '.join(ENGINES)}, got {engine!r}")
    if "rewrite" in asked and not verify:
        raise TypeError("optimize: the engine 'rewrite' needs inputs to prove its changes with (verify=inputs)")
    return asked


def _calls(verify: Sequence[Any] | None) -> list[Sequence[Tensor]] | None:
    """Return the inputs of each call."""
    if verify is None:
        return None
    if not isinstance(verify, (list, tuple)):
        raise TypeError(f"optimize: verify must be a list of the inputs of net, got {_kind(verify)}")
    if not verify:
        raise ValueError("optimize: verify must be a list of the inputs of net, got an empty one")
    return list(verify) if all(isinstance(call, (list, tuple)) for call in verify) else [verify]


@contextmanager
def _inputs_named(net: nn.Cell, calls: list[Sequence[Tensor]]) -> Iterator[None]:
    """Say, where MindSpore names an operator within the network for a wrong input, which inputs there are."""
    try:
        yield
    except (RuntimeError, TypeError, ValueError) as error:
        given = "; or ".join(_named(net, call) for call in calls)
        kind = next(one for one in (RuntimeError, TypeError, ValueError) if isinstance(error, one))
        text = str(error).partition("\n- C++ Call Stack")[0].rstrip("-\n ")  # that is in the cause
        raise kind(f"optimize: the network fails on verify, {given}: {text}") from error


def _named(net: nn.Cell, call: Sequence[Any]) -> str:
    """Return the inputs of a call by the names that they have in `construct`."""
    parameters = inspect.signature(net.construct).parameters.values()
    names = [one.name for one in parameters if one.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    return ", ".join(
        f"{name}: {_kind(value)}" if name else _kind(value)
        for name, value in zip_longest(names[: len(call)], call, fillvalue="")
    )


def _kind(value: Any) -> str:
    """Return a value as an error names it, without its content."""
    if isinstance(value, Tensor):
        return f"a Tensor of shape {tuple(value.shape)}"
    return type(value).__name__


class _Walk:
    """Goes through the tree of cells and exchanges what can be. Cells that are made alike are judged once."""

    def __init__(
        self,
        patterns: Sequence[Row],
        level: str,
        observed: Observed,
        engines: Sequence[str],
        report: Report,
        drop: bool,
        experts: Experts | None,
    ) -> None:
        self.patterns, self.level, self.observed, self.report = patterns, level, observed, report
        self.engines, self.experts = engines, experts
        self.blind: set[str] = set()  # patterns that were replaced by operators with an input without gradient
        self.in_place = False  # whether a changed source has statements as `x += y`
        self._swaps: list[tuple[nn.Cell, type, type]] = []
        self._known: dict[Any, _Found] = {}
        self._flats: dict[Any, Any] = {}
        self._errors: dict[Any, Mapping[str, float]] = {}
        self._called: dict[Any, Analysis] = {}
        self._places: dict[int, str] = {}
        self.drop, self.dropped = drop, False  # results of functions that nobody reads: may they be None, are some
        self._contained: set[str] = set()

    @contextmanager
    def stock(self) -> Iterator[None]:
        """Restore, within the block, the classes that the network had."""
        self._give_classes(stock=True)
        try:
            yield
        finally:
            self._give_classes(stock=False)

    def _give_classes(self, *, stock: bool) -> None:
        for cell, before, after in self._swaps:
            object.__setattr__(cell, "__class__", before if stock else after)
        ms.ms_memory_recycle()

    def start(self, net: nn.Cell) -> None:
        """Go through the whole network."""
        self._exchange_experts(net, "")
        self.visit(net, "")

    def _exchange_experts(self, cell: nn.Cell, place: str) -> nn.Cell:
        """Put a layer in the place of a block of experts, if this is one; what is there then."""
        if self.experts is None or not is_block(cell) or isinstance(cell, MoEFeedForward):
            return cell
        inside = [name for name, _ in cell.cells_and_names() if name and not name.startswith("shared_experts")]
        entry, layer = self.experts.exchange(cell, place, self.level, unsupported_reason(cell, inside))
        self.report.entries.append(entry)
        if layer is None:
            return cell
        self.report.undo.append(self.experts.undo(place))
        return layer

    def visit(self, cell: nn.Cell, place: str) -> None:
        if isinstance(cell, MoEFeedForward) and cell.shared_experts is not None:
            self.visit(cell.shared_experts, f"{place}.shared_experts")
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
                self.visit(self._exchange_experts(child, path), path)

    def _exchange(self, cell: nn.Cell, place: str) -> set[str]:
        """Do what can be done with one cell; returns the sub-cells that are contained in a fused operator now."""
        kinds = self.observed.kinds(cell)
        key = equivalence_key(cell), repr(kinds)
        if key not in self._known:
            self._known[key] = self._search(cell, kinds)
        return self._give(cell, place or "the network", self._known[key])

    def _search(self, cell: nn.Cell, kinds: Sequence[Any]) -> _Found:
        """Ask the engines about a cell: for each choice of optional inputs with which it was called."""
        found = _Found()
        if type(cell) in _PLAIN:
            return found
        form = tuple(form_of(c) for _, c in cell.cells_and_names()), tuple(p.dtype for p in cell.get_parameters())
        plain = [row for row in self.patterns if not row.evaluation]
        target = Target(cell, plain, self.level, self.observed.returns, form=form, errors=self._errors)
        target = replace(target, state=self.observed.state)
        if (op := operator_of(cell)) and op not in target.layers:
            return found
        for calls in kinds or [[]]:
            found.analyses += self._asked(target, calls)
        if "cell" in self.engines and not any(analysis.swap for _, analysis in found.analyses):
            found.analyses = self._parts(target, kinds) or found.analyses
        if "rewrite" in self.engines and not any(analysis.swap for _, analysis in found.analyses):
            found.analyses += self._functions(target)
        found.analyses += self._in_evaluation(target, kinds)
        # Each construct wraps the one before: inputs it was not made for go there, and finally to the stock construct.
        for _, analysis in found.analyses:
            if analysis.swap is not None:
                found.kind = analysis.swap.make(found.kind or type(cell))
        return found

    def _asked(self, target: Target, calls: Sequence[Any]) -> Iterator[tuple[str, Analysis]]:
        """Yield what the first engine says, or the second where that finds something that it cannot write."""
        analysis, engine = analyse(target, calls), "cell"
        if "rewrite" in self.engines and analysis.swap is None and analysis.found and calls:
            flat = self._flat(target.cell, absent(target, calls[0]))
            engine = "rewrite"
            changed = flat if isinstance(flat, str) else rewrite_engine.rewrite(target, flat, calls)
            # If the second engine cannot even look, the report gives its reason besides that of the first.
            analysis = (
                Analysis(left=[(name, f"{text}; {changed}") for name, text in analysis.left])
                if isinstance(changed, str)
                else changed
            )
        if engine in self.engines:
            yield engine, analysis

    def _in_evaluation(self, target: Target, kinds: Sequence[Any]) -> list[tuple[str, Analysis]]:
        """Return what the engines find where the cell is not trained: its statements go around those of training."""
        if not any(normalizes_batches(cell) for _, cell in target.cell.cells_and_names()):
            return []
        outside = replace(target, patterns=self.patterns, evaluation=True, watched={})
        found = [(engine, analysis) for calls in kinds for engine, analysis in self._asked(outside, calls)]
        return [(e, a) for e, a in found if a.swap is not None and any(item.row.evaluation for item in a.swap.found)]

    def _flat(self, cell: nn.Cell, absent: Mapping[str, bool]) -> Any:
        """Return the flat source of a cell; cells that differ in numbers only have the same."""
        key = form_of(cell), repr(absent)
        if key not in self._flats:
            self._flats[key] = rewrite_engine.flat_source(cell, absent)
        return self._flats[key]

    def _parts(self, target: Target, kinds: Sequence[Any]) -> list[tuple[str, Analysis]]:
        """Return what the first engine finds behind the edges of a construct: in its methods, and in linear layers."""
        found: list[tuple[str, Analysis]] = []
        gated = [row for row in self.patterns if row.op in _GATED]
        if any(activation_of(child) for child in sub_cells(target.cell).values()):
            split = replace(target, patterns=gated, split=True, watched={})
            found += [("cell", analysis) for calls in kinds if (analysis := analyse(split, calls)).swap is not None]
        for name in self.observed.methods.get(id(target.cell), {}):
            method = replace(target, method=name, watched={})
            calls = self.observed.kinds(target.cell, name)
            found += [("cell", analysis) for call in calls if (analysis := analyse(method, call)).swap is not None]
        return found

    def _functions(self, target: Target) -> list[tuple[str, Analysis]]:
        """Return what the second engine finds in the functions that a construct calls which it does not take itself."""
        found: list[tuple[str, Analysis]] = []
        named = functions_of(inspect.unwrap(type(target.cell).construct))
        for name in self.observed.functions.get(id(target.cell), {}):
            part = replace(target, function=named[name], watched={})
            for calls in self.observed.kinds(target.cell, function=name):
                key = function_engine.equivalence_key(part, name, calls)
                if key not in self._called:
                    self._called[key] = function_engine.rewrite_function(part, name, calls, drop=self.drop)
                found.append(("rewrite", self._called[key]))
                swap = self._called[key].swap
                self.dropped |= swap is not None and swap.unread
        return found

    def _give(self, cell: nn.Cell, name: str, found: _Found) -> set[str]:
        """Give a cell the class that was made for it, and enter in the report what that changes."""
        reason = unsupported_reason(cell, found.layers()) if found.kind else ""
        self.report.entries.extend(found.entries(name, reason))
        if found.kind is None or reason:
            return set()
        stock = type(cell)
        object.__setattr__(cell, "__class__", found.kind)
        self.report.undo.append(_class_setter(cell, stock))
        self._swaps.append((cell, stock, found.kind))
        for path, activation in found.without():
            self._give_method(cell, path, activation)
        for _, analysis in found.analyses:
            if analysis.swap is not None:
                self.report.add_graph(name, analysis.graph, analysis.swap.found)
                self.in_place |= analysis.swap.in_place
                self.blind |= {item.row.name for item in analysis.swap.found if item.fused.constant}
        return found.contained()

    def _give_method(self, owner: nn.Cell, path: str, activation: str) -> None:
        """Give a linear layer the method that does all but its activation."""
        layer = dict(owner.cells_and_names())[path]
        function = bypassing(layer, activation)
        stock = type(layer)
        kind = with_method(stock, name_without(activation), function)
        object.__setattr__(layer, "__class__", kind)
        self.report.undo.append(_class_setter(layer, stock))
        self._swaps.append((layer, stock, kind))


@dataclass
class _Found:
    """Hold what the engines say about cells that are alike: one analysis for each choice of optional inputs."""

    kind: type | None = None
    analyses: list[tuple[str, Analysis]] = field(default_factory=list)

    def entries(self, name: str, reason: str) -> list[Entry]:
        """Return the lines of the report for one such cell. What is there for every choice of inputs is one line."""
        lines: Counter[Entry] = Counter()
        for engine, analysis in self.analyses:
            own: Counter[Entry] = Counter(
                {Entry(name, pattern, engine, False, text): 1 for pattern, text in analysis.left}
            )
            if analysis.swap is not None:
                for item in analysis.swap.found:
                    notes = [*([item.fused.note] if item.fused.note else []), *analysis.swap.notes]
                    text = reason or "; ".join(notes)
                    own[Entry(name, item.row.name, engine, not reason, text)] += 1
            lines |= own
        return sorted(lines.elements(), key=lambda entry: not entry.replaced)

    def without(self) -> set[tuple[str, str]]:
        """Return the linear layers that are called without their activations, with the names of those."""
        return {pair for _, analysis in self.analyses if analysis.swap for pair in analysis.swap.without}

    def layers(self) -> set[str]:
        """Return the linear layers of which fused operators take the parameters."""
        swaps = [a.swap for _, a in self.analyses if a.swap is not None]
        inside = [n for swap in swaps for item in swap.found if item.fused.op in _LAYERS for n in item.inside]
        return {n.name for n in inside if n.kind == CALL} | {path for path, _ in self.without()}

    def contained(self) -> set[str]:
        """Return the sub-cells that are part of a fused operator, whatever the inputs."""
        inside = [
            {origin.name for item in a.swap.found for n in item.inside if (origin := _call_of(n)) is not None}
            if a.swap
            else set()
            for _, a in self.analyses
        ]
        return set.intersection(*inside) if inside else set()


# Cells that are a primitive themselves, and a part of no pattern.
_PLAIN = (nn.Conv2dTranspose, nn.Dropout, nn.Embedding, nn.Identity, nn.BatchNorm2d, nn.MaxPool2d)
_LAYERS = frozenset({"matmul", "conv2d", "conv2d_batch_norm"})  # operators that take the parameters of a layer
_GATED = frozenset({"silu_mul", "swiglu", "gelu_mul", "geglu"})


def _call_of(node: Node) -> Node | None:
    """Return the call of a sub-cell that a node is, or is a part of."""
    return node if node.kind == CALL else node.origin


def _class_setter(cell: nn.Cell, kind: type) -> Callable[[], None]:
    return lambda: object.__setattr__(cell, "__class__", kind)
