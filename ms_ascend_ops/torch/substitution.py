"""Puts the operators into a network in place of what it computes: `optimize`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from ms_ascend_ops import registry
from ms_ascend_ops.export.matching.find import Found, check_level, find
from ms_ascend_ops.export.matching.patterns import PATTERNS, Row
from ms_ascend_ops.export.reports.report import Difference, Entry, Report
from ms_ascend_ops.torch import npu
from ms_ascend_ops.torch.graphs import changes_inputs, place, read
from ms_ascend_ops.torch.registration import NAMESPACE
from ms_ascend_ops.torch.versions import accumulated_limit, failing_at_the_limit, own_compiled_code

__all__ = ["optimize"]

# The largest difference of an output, as a share of the largest magnitude.
_TOLERANCES = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
_TOLERANCE = 1e-4

ENGINE = "torch"

# The same code may be compiled so often for one model: for each layer in which a graph ends, and each rank.
_RECOMPILE_LIMIT = 256


def optimize(
    model: nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    *,
    level: str = "O2",
    tolerance: float | None = None,
    backend: str = "eager",
    patterns: Sequence[Row] = PATTERNS,
) -> Report:
    """Replace, in place, what `model` computes and a fused operator computes as well.

    A place is found by what the graphs of the network compute, not by names or classes: `torch.compile` takes the
    graphs, in which the patterns of `ms_ascend_ops.optimize` are looked for. The model stays the object that it is,
    with its parameters. Graphs for other inputs, or for training, are taken when the model is called so, and get the
    operators, too.

    Args:
        model: the network, on a CPU or an NPU of torch_npu.
        example_inputs: positional arguments of the model as a tuple or list, or arguments by name. The model runs on
            them before and after, in evaluation mode; beyond the tolerance everything is put back.
        level: O0 nothing; O1 exact replacements; O2 those too that round in other places in half precision; O3 one
            operator in place of several layers, as residual add and norm.
        tolerance: largest allowed difference as a share of the largest magnitude. By default 1e-4 for float32, 2e-2 for
            float16 and 1e-1 for bfloat16.
        backend: of `torch.compile`, for the graphs with the operators in them: "eager" runs them as they are,
            "inductor" compiles what is around the operators.
        patterns: what to look for.

    Returns:
        A report that prints as a table; `report.restore()` undoes everything.

    Raises:
        TypeError: model is no Module, or example_inputs are neither a tuple, a list nor a dict.
        ValueError: there is no such level; there are no inputs.
        RuntimeError: the model is compiled already.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"optimize: model must be a torch.nn.Module, got {type(model).__name__}")
    if not isinstance(example_inputs, (tuple, list, Mapping)):
        raise TypeError(
            f"optimize: example_inputs must be a tuple, a list or a dict of the inputs of model, got "
            f"{type(example_inputs).__name__}"
        )
    if not example_inputs:
        raise ValueError("optimize: example_inputs must be the inputs of model, got none")
    check_level(level, "optimize")
    if model._compiled_call_impl is not None:
        raise RuntimeError("optimize: the model is compiled already; restore the report of the first time, or it")

    named = isinstance(example_inputs, Mapping)
    args, kwargs = ((), dict(example_inputs)) if named else (tuple(example_inputs), {})
    report = Report(level=level)
    if level == "O0":
        return report
    with _evaluating(model):
        before = _outputs(model, args, kwargs)
        substitution = _Backend(report, level, patterns, backend)
        # Sizes that change become symbols; numbers of the network stay numbers, as the patterns need them.
        # Compiled code of other models of the same classes, which Dynamo keeps with the code, does not count.
        model.compile(backend=substitution, **own_compiled_code(_RECOMPILE_LIMIT))
        report.undo.append(lambda: setattr(model, "_compiled_call_impl", None))
        try:
            # A size that another model of the class had does not make this one's a symbol.
            with torch._dynamo.config.patch(**failing_at_the_limit(), automatic_dynamic_shapes=False):
                after = _outputs(model, args, kwargs)
        except torch._dynamo.exc.FailOnRecompileLimitHit:
            name, limit = accumulated_limit()
            report.roll_back(
                f"PyTorch compiles code no more than {limit} times in a process, of all models together: raise "
                f"{name}, or call torch.compiler.reset() before"
            )
            return report
        except Exception as error:
            report.roll_back(f"the network does not run any more: {error}")
            return report
    if not report.replaced:
        report.restore()
        report.undone = False
        return report
    report.outputs = _difference(before, after)
    allowed = _tolerance(before) if tolerance is None else tolerance
    if not report.outputs.relative <= allowed:
        report.roll_back(f"an output differs by {report.outputs}, more than {allowed:g}")
    return report


class _Backend:
    """Compiles for `torch.compile`: puts the operators into a graph, and hands it on."""

    def __init__(self, report: Report, level: str, patterns: Sequence[Row], backend: str):
        self._report = report
        self._level = level
        self._patterns = patterns
        self._next = backend

    def __call__(self, module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        entries = _substitute(module, self._patterns, self._level)
        known = set(self._report.entries)
        self._report.entries.extend(entry for entry in entries if entry not in known)  # once, for all graphs
        if self._next == "eager":
            return module.forward  # type: ignore[no-any-return]
        compiled: Callable[..., Any] = torch._dynamo.lookup_backend(self._next)(module, inputs)
        return compiled


def _substitute(module: fx.GraphModule, patterns: Sequence[Row], level: str) -> list[Entry]:
    """Replace what is found in a graph; the places that are, and those that must stay, each with the reason."""
    graph = module.graph
    found, left = find(read(graph), patterns, level)
    order = {node: i for i, node in enumerate(graph.nodes)}
    changes = sorted(i for node, i in order.items() if changes_inputs(node))
    now: dict[fx.Node, fx.Node] = {}
    entries = []
    for place_left in left:
        if place_left.root.origin is not None:
            entries.append(_entry(place_left.root.origin, place_left.row, False, place_left.reason))
    for one in found:
        root = one.root.origin
        if root is None:  # between two nodes of PyTorch: a part of something else
            continue
        reason = _blocked(one, order, changes)
        if not reason:
            _replace(graph, one, order, now)
        entries.append(_entry(root, one.row, not reason, reason or one.fused.note))
    inside = {node for one in found for node in _origins(one)}
    for node in reversed(list(graph.nodes)):
        if node in inside and not node.users:
            graph.erase_node(node)
    graph.lint()
    module.recompile()
    return entries


def _entry(root: fx.Node, row: Row, replaced: bool, text: str) -> Entry:
    return Entry(place(root), row.name, ENGINE, replaced, text)


def _origins(found: Found) -> list[fx.Node]:
    return [node.origin for node in found.inside if node.origin is not None]


def _blocked(found: Found, order: Mapping[fx.Node, int], changes: Sequence[int]) -> str:
    """Return why the operator cannot stand here, if it cannot."""
    inputs = [node.origin for node in (*found.inputs, *found.moved.values())]
    outputs = [node.origin for node in found.outputs.values()]
    if None in inputs or None in outputs:
        return "a function of PyTorch does more than is replaced"
    first, last = min(order[node] for node in outputs), max(order[node] for node in outputs)
    if any(order[node] >= first for node in inputs):
        return "one of its results is used before all of its inputs are there"
    begin = min(order[node] for node in _origins(found))
    if any(begin <= i <= last for i in changes):
        return "a tensor may be changed in place within it"
    values = [node.meta.get("example_value") for node in inputs[: len(found.inputs)]]
    if any(not isinstance(value, Tensor) or value.device.type not in ("cpu", npu.DEVICE) for value in values):
        return "the kernels run on tensors of a CPU or of torch_npu"
    if any(values[i].requires_grad for i in found.fused.constant):
        return "a gradient goes through its tables, and the operator gives another one"
    return ""


def _replace(graph: fx.Graph, found: Found, order: Mapping[fx.Node, int], now: dict[fx.Node, fx.Node]) -> None:
    fused = found.fused
    signature = registry.signature(fused.op)
    attributes = signature.check_attributes(fused.attributes)
    target = getattr(getattr(torch.ops, NAMESPACE), fused.op).default
    outputs = {index: node.origin for index, node in found.outputs.items()}
    first = min(outputs.values(), key=lambda node: order[node])
    with graph.inserting_before(first):
        tensors = [now.get(node.origin, node.origin) for node in found.inputs]
        for place, via in found.moved.items():
            moved = graph.node_copy(via.origin, lambda node: now.get(node, node))
            moved.replace_input_with(moved.all_input_nodes[0], tensors[place])
            tensors[place] = moved
        width = (fused.inputs[0].shape or (1,))[-1]
        tensors += [graph.call_function(torch.full, ((width,), value)) for value in fused.filled]
        call = graph.call_function(target, (*tensors, *attributes.values()))
        call.meta["nn_module_stack"] = first.meta.get("nn_module_stack")
        results = {
            index: graph.call_function(operator.getitem, (call, index)) if len(signature.outputs) > 1 else call
            for index in outputs
        }
    for index, old in outputs.items():
        results[index].meta["example_value"] = old.meta.get("example_value")
        old.replace_all_uses_with(results[index])
        now[old] = results[index]


@contextmanager
def _evaluating(model: nn.Module) -> Any:
    """Run with the network in evaluation mode, and without gradients."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def _outputs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    leaves = pytree.tree_leaves(model(*args, **kwargs))
    return [leaf.detach().clone() for leaf in leaves if isinstance(leaf, Tensor)]


def _tolerance(outputs: Sequence[Tensor]) -> float:
    return max((_TOLERANCES.get(value.dtype, _TOLERANCE) for value in outputs), default=_TOLERANCE)


def _difference(before: Sequence[Tensor], after: Sequence[Tensor]) -> Difference:
    """Return the largest of the outputs. What is not finite must be the same."""
    if [(a.shape, a.dtype) for a in before] != [(b.shape, b.dtype) for b in after]:
        return Difference(float("inf"), float("inf"))
    absolute = relative = 0.0
    for a, b in zip(before, after, strict=True):
        wide = torch.float64 if a.is_floating_point() else a.dtype
        old, new = a.to(wide), b.to(wide)
        same = (old == new) | (old.isnan() & new.isnan())
        error = torch.where(same, 0, (old - new).abs()).nan_to_num(float("inf")) if a.numel() else torch.zeros(1)
        finite = torch.where(old.isfinite(), old, 0).abs()
        largest = float(finite.max()) if a.numel() else 0.0
        absolute = max(absolute, float(error.max()))
        if float(error.max()) > 0:
            relative = max(relative, float(error.max()) / largest if largest else float("inf"))
    return Difference(absolute, relative)
