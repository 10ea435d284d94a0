"""Reads fused operators as nodes of a MindIR: what they are, whether they may run, and their form on another target.

On a CPU such a node names a function of this package's library, on an Ascend NPU a function of the CANN package. Both
name the operator and hold its attributes. Everything else is written anew for the machine at hand, by `FusedPrimitive`,
so that it is what `ops.Custom` itself would have written there; nothing of a path in the file survives.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from mindspore.train.mind_ir_pb2 import AttributeProto, GraphProto, ModelProto, NodeProto, PrimitiveProto
from ms_ascend_ops.export.files.model import graphs, operators, texts

from ms_ascend_ops import registry
from ms_ascend_ops.custom import VERSION, FusedPrimitive
from ms_ascend_ops.library import LIBRARY

__all__ = ["operators_of", "read_fused", "retarget", "write_fused"]

# Primitives that run Python code, or write files.
_REFUSED = {
    "PyExecute": "runs Python code",
    "PyFunc": "runs Python code",
    "PyInterpret": "runs Python code",
    "PythonOp": "runs Python code",
    "TensorDump": "writes files",
}


def operators_of(model: ModelProto, label: str) -> dict[str, registry.Signature]:
    """Return the fused operators that a model needs, by the name of the signature. Refuses what may not run.

    Raises:
        ValueError: a node brings code from elsewhere, or is of an operator or version that this package does not have.
    """
    return {signature.name: signature for signature, _ in _checked(model, label).values()}


def retarget(model: ModelProto, label: str) -> None:
    """Give every fused operator the form of this machine's `device_target`.

    Raises:
        ValueError: as `operators_of`.
        RuntimeError: the library of this machine is missing or has another version.
    """
    found = _checked(model, label)
    made, stored = {}, {}
    for primitive in model.primitives:
        if primitive.name in found:
            stored[primitive.name] = _stored_inputs(primitive, *found[primitive.name])
            made[primitive.name] = FusedPrimitive(*found[primitive.name], None)
            write_fused(primitive, made[primitive.name])
    orders = {f"REF::{primitive.name}" for primitive in model.primitives if primitive.op_type == "UpdateState"}
    for graph in graphs(model):
        _set_inputs(graph, made, stored, _states(graph, orders), label)


def read_fused(primitive: PrimitiveProto) -> tuple[registry.Signature, dict[str, Any]]:
    """Return the operator that a node calls, and its attributes.

    Raises:
        ValueError: it is not one of this package's operators, or of a version that this package does not have.
    """
    stored = {attribute.name: attribute for attribute in primitive.attribute}
    signature = _signature(stored)
    version = stored[VERSION].i if VERSION in stored else 1
    if version != signature.version:
        raise ValueError(
            f"it needs version {version} of the operator {signature.name}, and this ms_ascend_ops has version "
            f"{signature.version}: {'upgrade ms_ascend_ops' if version > signature.version else 'export it again'}"
        )
    values = {}
    for spec in (*signature.attributes, *signature.presence):
        name = spec.node_name if spec.node_name in stored else spec.formerly  # of an earlier release
        if name not in stored:
            raise ValueError(f"its {signature.name} has no attribute {spec.name}")
        values[spec.name] = spec.current(_value(stored[name]))
    try:
        given = {spec.name: spec.check(signature.name, values[spec.name]) for spec in signature.presence}
        return signature, signature.check_attributes(values) | given
    except (TypeError, ValueError) as error:
        raise ValueError(f"it holds a bad attribute ({error})") from error


def write_fused(primitive: PrimitiveProto, fused: FusedPrimitive) -> None:
    """Write the node of a fused operator as `ops.Custom` has it; only the name of `primitive` is kept."""
    del primitive.attribute[:]
    primitive.op_type = "Custom"
    primitive.prim_type = PrimitiveProto.PRIMITIVE
    for name, value in fused.attrs.items():
        primitive.attribute.append(_attribute(name, value))


def _checked(model: ModelProto, label: str) -> dict[str, tuple[registry.Signature, dict[str, Any]]]:
    for op_type, attributes in operators(model):
        if op_type in _REFUSED:
            raise ValueError(f"load: {label} is refused: it holds a {op_type}, which {_REFUSED[op_type]}")
        if op_type.startswith("Custom") and op_type != "Custom":
            raise ValueError(f"load: {label} is refused: it holds a {op_type}, which is no operator of this package")
        if op_type != "Custom":
            for text in texts(attributes):
                if _is_library(text):
                    raise ValueError(f"load: {label} is refused: a {op_type} names the library {text}")
    for graph in graphs(model):
        for node in graph.node:
            if node.op_type.partition(":")[0] == "Custom":  # as MindIR of older versions has it
                function = {a.name: a.s.decode(errors="replace") for a in node.attribute}.get("func_name", "")
                raise ValueError(f"load: {label} is refused: the node {node.name} names the library {function}")
    try:
        return {p.name: read_fused(p) for p in model.primitives if p.op_type == "Custom"}
    except ValueError as error:
        raise ValueError(f"load: {label} is refused: {error}") from error


def _is_library(text: str) -> bool:
    return ".so" in PurePosixPath(text.partition(":")[0]).suffixes


def _signature(stored: Mapping[str, AttributeProto]) -> registry.Signature:
    def text(name: str) -> str:
        return str(stored[name].s.decode(errors="replace")) if name in stored else ""

    if text("func_type") != "aot" or text("imply_path"):
        raise ValueError(f"it holds a Custom of kind {text('func_type') or 'unnamed'} ({text('imply_path')})")
    library, _, entry = text("func_name").rpartition(":")
    if PurePosixPath(library).name != LIBRARY.name:
        raise ValueError(
            f"it names the library {library or text('func_name')}, and only {LIBRARY.name} of this installation may run"
        )
    signatures = [signature for op in registry.names() for signature in registry.op_spec(op).signatures]
    for signature in signatures:
        if entry in (signature.entry, f"aclnn{signature.cann_type}"):  # on a CPU, on an NPU
            return signature
    raise ValueError(
        f"it needs the operator {entry}, which this version of ms_ascend_ops does not have "
        f"(it has {', '.join(sorted(signature.entry for signature in signatures))})"
    )


def _value(attribute: AttributeProto) -> Any:
    kinds = AttributeProto.AttributeType
    if attribute.type == kinds.Value("STRING"):
        return attribute.s.decode(errors="replace")
    if attribute.type == kinds.Value("BOOL"):
        return bool(attribute.i)
    if attribute.type == kinds.Value("INT64"):
        return int(attribute.i)
    if attribute.type == kinds.Value("FLOAT"):
        return float(str(np.float32(attribute.f)))  # the number that was written, not its neighbour in float64
    if attribute.type == kinds.Value("DOUBLE"):
        return float(attribute.d)
    return None  # no type that an attribute has


def _attribute(name: str, value: Any) -> AttributeProto:
    attribute = AttributeProto(name=name)
    kinds = AttributeProto.AttributeType
    if isinstance(value, str):
        attribute.type, attribute.s = kinds.Value("STRING"), value.encode()
    elif isinstance(value, bool):
        attribute.type, attribute.i = kinds.Value("BOOL"), int(value)
    elif isinstance(value, int):
        attribute.type, attribute.i = kinds.Value("INT64"), value
    elif isinstance(value, float):
        attribute.type, attribute.f = kinds.Value("FLOAT"), value
    elif value is None:
        attribute.type = kinds.Value("NONE")
    elif isinstance(value, list):
        attribute.type = kinds.Value("LIST")
        # MindSpore holds the texts of a list so, and has no others for operators.
        attribute.values.extend(AttributeProto(type=kinds.Value("STRING"), strings=[text.encode()]) for text in value)
    else:
        raise TypeError(f"the attribute {name} is a {type(value).__name__}, which a MindIR cannot hold")
    return attribute


def _stored_inputs(
    primitive: PrimitiveProto, signature: registry.Signature, attributes: Mapping[str, Any]
) -> list[str]:
    """Return the names of the tensors that its nodes take first in the file: on an NPU, placeholders replace
    absent ones.
    """
    texts_of = {attribute.name: attribute.s.decode(errors="replace") for attribute in primitive.attribute}
    on_npu = texts_of["func_name"].rpartition(":")[2] != signature.entry
    return [tensor.name for tensor in (signature.inputs if on_npu else signature.given(attributes))]


def _states(graph: GraphProto, orders: Collection[str]) -> set[str]:
    """Return the values of a graph that stand for the order of reads and writes."""
    monads = (AttributeProto.UMONAD, AttributeProto.IOMONAD)
    states = {value.name for value in graph.input if value.attr_info.type in monads}
    for node in graph.node:
        if node.op_type in orders or (node.op_type == "Constant" and node.attribute[0].type in monads):
            states.update(node.output)
    return states


def _set_inputs(
    graph: GraphProto,
    made: Mapping[str, FusedPrimitive],
    stored: Mapping[str, list[str]],
    states: Collection[str],
    label: str,
) -> None:
    """Let every fused node take its tensors, then the constants of its primitive, then what orders its writes."""
    nodes: list[tuple[NodeProto, bool]] = []  # with whether it was written here
    written: set[str] = set()
    dropped: set[str] = set()
    for node in graph.node:
        name = node.op_type.removeprefix("REF::")
        if name in made:
            if len(node.input) < len(stored[name]):
                found = f"{len(node.input)} of {len(stored[name])} tensors"
                raise ValueError(f"load: {label} is refused: the node {node.name} has {found}")
            fused, old = made[name], list(node.input)
            tensors = dict(zip(stored[name], old, strict=False))
            behind = [state for state in old[len(stored[name]) :] if state in states]
            del node.input[:]
            node.input.extend(tensors[tensor] for tensor in fused.takes)
            for position, value in enumerate(fused.constants):
                constant = NodeProto(name=f"{node.name}:attribute{position}", op_type="Constant")
                constant.output.append(constant.name)
                constant.attribute.append(_attribute("value", value))
                node.input.append(constant.name)
                nodes.append((constant, True))
                written.add(constant.name)
            node.input.extend(behind)
            dropped.update(set(old) - set(node.input))
        nodes.append((node, False))
    if not dropped and not written:
        return
    used = {name for node, _ in nodes for name in node.input} | {value.name for value in graph.output}
    obsolete = written | (dropped - used)  # of the file, those are gone or replaced
    kept = [
        NodeProto.FromString(node.SerializeToString()) for node, is_new in nodes if is_new or node.name not in obsolete
    ]
    del graph.node[:]
    graph.node.extend(kept)
