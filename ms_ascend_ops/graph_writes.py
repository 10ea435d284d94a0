"""Checks tensors that a kernel in a graph changes in place: whole ones, or a refusal.

MindSpore gives a graph a copy of a tensor that is a view, and what is written to the copy is lost. A view that the
graph makes of a Parameter or of an input is a copy there, too; in PyNative it is none. A primitive sees neither, so
graphs that hold such kernels are looked at once they are compiled, and what they are called with at each call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from mindspore import Tensor, nn
from mindspore.train.anf_ir_pb2 import ModelProto

from ms_ascend_ops.mindspore_versions import private
from ms_ascend_ops.registry import Signature

__all__ = ["describe_view", "note"]

# These make views of their first input in PyNative. Names are without the endings View and Ext.
_VIEWS = {
    *("BroadcastTo", "Chunk", "Diagonal", "ExpandDims", "Flatten", "Narrow", "Reshape", "Select", "Slice", "Split"),
    *("SplitTensor", "SplitWithSize", "Squeeze", "StridedSlice", "Transpose", "Unstack", "Unsqueeze", "View"),
}

# These give their first input, or an item of it, as it is: a tuple that the graph takes has whole tensors.
_SAME = {"Depend", "Load", "TupleGetItem", "tuple_getitem"}


@dataclass
class _Writes:
    """Lists what a graph's kernels change: operators, names and forms of the inputs that are no whole Parameters."""

    forms: dict[tuple[tuple[int, ...], str], str] = field(default_factory=dict)
    operators: dict[str, Signature] = field(default_factory=dict)
    error: str = ""


_compiling: list[_Writes] = []
_graphs: dict[str, _Writes] = {}  # by the phase


def note(signature: Signature, tensors: tuple[dict[str, Any], ...]) -> None:
    """Note what a primitive that is put into a graph will change."""
    if not _compiling:
        return
    for spec, tensor in zip(signature.inputs, tensors, strict=True):
        if spec.name in signature.writes and not str(tensor["dtype"]).startswith("Ref["):
            form = (tuple(tensor["shape"]), str(tensor["dtype"].element_type()))
            _compiling[-1].forms[form] = f"{signature.name}: {spec.name}"
            _compiling[-1].operators[signature.entry] = signature


def describe_view(tensor: Tensor) -> str:
    """Describe the part of another tensor's memory that this one is; empty if it is the whole of its own."""
    shape, strides, offset = tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset()
    whole = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    if strides != whole or offset != 0:
        return f"strides {strides} from element {offset} on for shape {shape}"
    if tensor.untyped_storage().size() != tensor.nbytes:
        return f"the first {math.prod(shape)} elements of more for shape {shape}"
    return ""


def _compile(compiled: Callable[..., Any], phase_of: Callable[..., str]) -> Callable[..., Any]:
    """Return MindSpore's function that compiles a graph, wrapped to note the writes of that graph."""

    @functools.wraps(compiled)
    def compile_graph(executor: Any, *arguments: Any, **keywords: Any) -> Any:
        _compiling.append(_Writes())
        try:
            result = compiled(executor, *arguments, **keywords)
        finally:
            found = _compiling.pop()
        if found.forms or _graphs:
            phase = phase_of(result)
            if found.forms:
                found.error = _written_copy(
                    executor._graph_executor.get_func_graph_proto(phase, "anf_ir", False), found
                )
                _graphs[phase] = found
            if phase in _graphs and _graphs[phase].error:
                raise ValueError(_graphs[phase].error)
        return result

    return compile_graph


def _written_copy(graph: bytes, found: _Writes) -> str:
    """Return what is wrong with a graph whose kernels write to constants, or to views of its Parameters or inputs."""
    model = ModelProto()
    model.ParseFromString(graph)
    nodes = {node.name: node for node in model.graph.node}
    given = {value.name for value in model.graph.parameters}
    constants = {value.key for value in model.graph.const_vals}
    for node in nodes.values():
        names = {a.name: a.value.str_val for a in node.attribute if a.name == "reg_op_name"}
        signature = found.operators.get(names.get("reg_op_name", ""))
        if node.op_type != "Custom" or signature is None:
            continue
        for spec, edge in zip(signature.inputs, node.input, strict=False):
            if spec.name not in signature.writes:
                continue
            source, views = _origin(edge.name, nodes)
            if source in constants:
                got = "a constant, which tensors of equal values share; make it a Parameter, or pass it as an argument,"
                got += " in mindspore.mutable where it is part of a tuple or list"
            elif source in given and views:
                got = f"{' of '.join(views)} of {source}, which is a copy in a graph;"
                got += " give it in the shape that the operator takes"
            else:
                continue
            rule = "is written in place and must be a whole Parameter or input of the graph"
            return f"{signature.name}: {spec.name} {rule}, got {got}"
    return ""


def _origin(name: str, nodes: dict[str, Any]) -> tuple[str, list[str]]:
    """Return the value that this one is, or is a view of, and what makes the view, the last one first."""
    views: list[str] = []
    while name in nodes:
        node = nodes[name]
        plain = node.op_type.removesuffix("View").removesuffix("Ext") or node.op_type
        if not node.input or (node.op_type not in _SAME and plain not in _VIEWS):
            break
        if node.op_type not in _SAME:
            views.append(node.op_type)
        name = node.input[0].name
    return name, views


def _refuse_views(phase: str | None, arguments: Any) -> None:
    """Refuse views that have the form of what the graph of this phase writes to."""
    if phase is None or phase not in _graphs:
        return
    forms = _graphs[phase].forms
    for tensor in _tensors(arguments):
        shape, dtype = tuple(tensor.shape), str(tensor.dtype)
        for (sizes, written), what in forms.items():
            fits = len(sizes) == len(shape) and all(s in (-1, n) for s, n in zip(sizes, shape, strict=True))
            if fits and written == dtype and (view := describe_view(tensor)):
                raise ValueError(f"{what} is written in place and must be whole in a graph, got a view: {view}")


def _tensors(given: Any) -> Iterator[Tensor]:
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, dict):
        yield from _tensors(tuple(given.values()))
    elif isinstance(given, tuple | list):
        for item in given:
            yield from _tensors(item)


def _watch() -> None:
    """Look at every graph that MindSpore compiles, and at what it is called with: it has no question for either."""
    jit, cells = private("_JitExecutor"), private("_CellGraphExecutor")
    if None in (jit, cells) or not hasattr(nn.Cell, "_predict"):
        return
    compile_jit, arguments_of_jit = _compile(jit.compile, lambda phase: phase), jit._generate_run_args
    real_phase = private("_real_phase")
    call_cell, predict_cell = cells.__call__, nn.Cell._predict

    @functools.wraps(jit.compile)
    def compile_checked(self: Any, method: str, *arguments: Any, **keywords: Any) -> Any:
        phase = compile_jit(self, method, *arguments, **keywords)
        _refuse_views(phase, (arguments, keywords))
        return phase

    @functools.wraps(arguments_of_jit)
    def generate_run_args(self: Any, arguments: Any, keywords: Any, *others: Any, is_predict: bool = False) -> Any:
        if is_predict:  # without compile
            _refuse_views(_phase_of_predict(self.obj), (arguments, keywords))
        return arguments_of_jit(self, arguments, keywords, *others, is_predict=is_predict)

    @functools.wraps(call_cell)
    def call(self: Any, obj: Any, *arguments: Any, phase: str = "predict") -> Any:
        if _graphs:
            _refuse_views(real_phase(phase, obj), arguments)
        return call_cell(self, obj, *arguments, phase=phase)

    @functools.wraps(predict_cell)
    def predict(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if _graphs:
            _refuse_views(_phase_of_predict(self), (arguments, keywords))
        return predict_cell(self, *arguments, **keywords)

    jit.compile, jit._generate_run_args = compile_checked, generate_run_args
    cells.compile, cells.__call__ = _compile(cells.compile, lambda result: result[0]), call
    nn.Cell._predict = predict


def _phase_of_predict(cell: Any) -> str | None:
    """Return the phase of a cell whose graph runs again without a look at what is compiled."""
    phase = getattr(cell, "phase", None)
    return cell.phase_cache.get(phase) if phase in ("prefill", "increment") else None


_watch()
