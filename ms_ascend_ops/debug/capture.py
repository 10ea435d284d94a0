"""Captures what the layers of a network take and give while it runs: of cells in PyNative, and of MindIRs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import ModelProto, NodeProto

from ms_ascend_ops.debug.dump import Layer, MindIRNode, Record, Value
from ms_ascend_ops.export.files.load import load_changed
from ms_ascend_ops.export.graphs.writes import Writes

__all__ = ["flat", "of_cell", "of_mindir", "value_of"]

_NO_VALUES = frozenset({"Constant", "Load", "UpdateState", "Depend", "MakeTuple", "Parameter"})


def value_of(tensor: Tensor) -> Value:
    """Return the values of a tensor, now."""
    dtype = str(tensor.dtype).lower()
    return Value.of(np.array((tensor.astype(ms.float32) if dtype == "bfloat16" else tensor).asnumpy()), dtype)


def flat(value: Any) -> list[Tensor]:
    """Return the tensors in arguments or results."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [one for item in value for one in flat(item)] if isinstance(value, (list, tuple)) else []


def of_cell(net: nn.Cell, inputs: Sequence[Any], title: str = "", keep_cells: bool = True) -> Record:
    """Run a network in PyNative, and take down every layer.

    Args:
        net: the network.
        inputs: what it is called with.
        title: its name in a report.
        keep_cells: whether `compare` may call layers again.
    """
    record, counts, handles = Record(title or type(net).__name__), Counter[str](), []

    def hook(name: str) -> Any:
        def after(cell: nn.Cell, arguments: Any, results: Any) -> None:
            layer = Layer(
                name,
                type(cell).__name__,
                counts[name],
                [value_of(tensor) for tensor in flat(arguments)],
                [value_of(tensor) for tensor in flat(results)],
            )
            if keep_cells:
                layer.cell, layer.arguments = cell, arguments
            counts[name] += 1
            record.layers.append(layer)

        return after

    seen: set[int] = set()
    for name, cell in net.cells_and_names():
        if id(cell) not in seen:
            seen.add(id(cell))
            handles.append(cell.register_forward_hook(hook(name or "network")))
    try:
        net(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return record


def of_mindir(path: str | os.PathLike[str], inputs: Sequence[Any], title: str = "") -> Record:
    """Run a MindIR or a bundle, and take down the values of its main graph.

    A value is called by its operator and by the parameters that go into it: `MatMul(layers.0.dense.weight)`.

    Args:
        path: the file.
        inputs: tensors or arrays, as the network takes them.
        title: what the record is called; empty: as the file.
    """
    shown: list[tuple[str, MindIRNode]] = []

    def show(model: ModelProto) -> None:
        shown.extend(_show_values(model))

    network = load_changed(path, show)
    results = network(*inputs)
    values = list(results[1:]) if shown else []
    counts: Counter[str] = Counter()
    record = Record(title or Path(path).name)
    for (kind, node), tensor in zip(shown, values, strict=True):
        name = f"{kind}({', '.join(node.parameters)})" if node.parameters else kind
        record.layers.append(Layer(name, kind, counts[name], [], [value_of(tensor)], node=node))
        counts[name] += 1
    outputs = flat(results[0] if shown else results)
    record.layers.append(Layer("network", "MindIR", 0, [], [value_of(tensor) for tensor in outputs]))
    return record


def _show_values(model: ModelProto) -> list[tuple[str, MindIRNode]]:
    """Make the graph return a tuple of what it returned and of its values; returns their operators and places."""
    graph = model.graph
    kinds = {primitive.name: primitive.op_type for primitive in model.primitives}
    entries = {
        primitive.name: next((a.s.decode() for a in primitive.attribute if a.name == "reg_op_name"), "")
        for primitive in model.primitives
    }
    made_by = {node.output[0]: node for node in graph.node if node.output}
    parameters = {parameter.name for parameter in graph.parameter}
    found: list[tuple[str, MindIRNode]] = []
    writes = Writes(model)
    for node in graph.node:
        kind, dims = _kind(node, kinds), _dims(node)
        if kind in _NO_VALUES or dims is None or _is_written(node.output[0], writes):
            continue
        source = node
        if kind == "TupleGetItem" and node.input[0] in made_by:
            source = made_by[node.input[0]]
            kind = _kind(source, kinds)
        fused = kind == "Custom"
        if fused:
            kind = entries.get(source.op_type.removeprefix("REF::"), "") or kind
        taken = tuple(_taken(value, made_by, parameters) for value in source.input)
        own = tuple(name for value in source.input if (name := _parameter(value, made_by, parameters)))
        # MindSpore calls an operator Custom-op3 where it writes one, `MindIRGraph` Custom-rms_norm3.
        put_in = fused and not source.domain.rpartition("/")[2].startswith("Custom-op")
        found.append((kind, MindIRNode(node.output[0], taken, own, fused, put_in)))
    if not found:
        return []
    make = next((name for name, kind in kinds.items() if kind == "MakeTuple"), None)
    old = graph.output[0].name
    if len(graph.output) > 1:
        raise ValueError("of_mindir: a graph with several outputs must return them as one tuple")
    names = [node.name for _, node in found]
    whole = graph.node.add(op_type="MakeTuple", name="debug:all", input=[old, *names], output=["debug:all"])
    if make is not None:
        whole.op_type = f"REF::{make}"
    else:
        primitive = model.primitives.add(name="MakeTuple:debug", op_type="MakeTuple", prim_type=1)
        whole.op_type = f"REF::{primitive.name}"
    graph.output[0].name = whole.output[0]
    return found


def _taken(value: str, made_by: dict[str, NodeProto], parameters: set[str]) -> str:
    """Return what a value is called that a node takes: a parameter by its own name, a constant by none."""
    if parameter := _parameter(value, made_by, parameters):
        return parameter
    node = made_by.get(value)
    while node is not None and node.op_type.startswith(("REF::Depend", "REF::Load")):
        value = node.input[0]
        node = made_by.get(value)
    return "" if node is not None and node.op_type == "Constant" else str(value)


def _is_written(name: str, writes: Writes) -> bool:
    """Tell whether an operator in place writes over a value, which the end of the graph sees no more."""
    return bool(writes.writers(name)) and name in writes


def _kind(node: NodeProto, kinds: dict[str, str]) -> str:
    return str(kinds.get(node.op_type.removeprefix("REF::"), node.op_type))


def _dims(node: NodeProto) -> tuple[int, ...] | None:
    """Return the shape of a node with one tensor as its output."""
    for attribute in node.attribute:
        if attribute.name == "shape" and len(attribute.tensors) == 1 and not attribute.values:
            dims = tuple(attribute.tensors[0].dims)
            return dims if prod(dims) != 0 or not dims else None
    return None


def _parameter(value: str, made_by: dict[str, NodeProto], parameters: set[str]) -> str:
    """Return the name of a parameter that a value is, or is loaded from; empty: it is none."""
    node = made_by.get(value)
    if node is not None and node.op_type.startswith("REF::Load"):
        value = str(node.input[0])
    return str(value).rpartition(":")[2] if value in parameters else ""
