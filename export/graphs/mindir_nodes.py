"""Reads the nodes of a MindIR file as those of a `Graph`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np
from mindspore.train.mind_ir_pb2 import AttributeProto, GraphProto, NodeProto, PrimitiveProto, TensorProto
from ms_ascend_ops.export.files.retarget import read_fused
from ms_ascend_ops.export.graphs.graph import CONSTANT, INPUT, PARAMETER, Node

__all__ = ["attributes_of", "constant", "read_nodes", "used_by_several", "uses", "values_of"]

_DTYPES = {"FLOAT": "float32", "DOUBLE": "float64"}
_NUMPY = {
    "FLOAT": np.float32,
    "FLOAT16": np.float16,
    "DOUBLE": np.float64,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}


def read_nodes(
    proto: GraphProto,
    primitives: Mapping[str, PrimitiveProto],
    attributes: Mapping[str, dict[str, Any]],
    outside: Mapping[str, Node],
) -> tuple[dict[str, Node], list[Node]]:
    """Read every value of a graph by its name, and what it computes, in order.

    `outside`: values of graphs around it.
    """
    nodes: dict[str, Node] = {}

    def known(name: str) -> Node:
        return nodes.setdefault(name, outside.get(name) or Node(INPUT, name=name))

    for value in proto.input:
        tensor = value.tensor[0] if len(value.tensor) == 1 else None
        shape = tuple(tensor.dims) if tensor is not None else None
        shape = None if shape is None or -2 in shape else shape
        nodes[value.name] = Node(INPUT, (), value.name, shape, _dtype(tensor.data_type) if tensor else "")
    for parameter in proto.parameter:
        nodes[parameter.name] = _parameter(parameter)
    order = []
    for node in proto.node:
        name = node.output[0]
        if node.op_type == "Constant":
            made = outside[name]
        else:
            reference = node.op_type.removeprefix("REF::")
            primitive = primitives.get(reference)
            shape, dtype = _described(node)
            kind = primitive.op_type if primitive else node.op_type
            called = [reference] if reference in nodes else []
            inputs = tuple(known(i) for i in [*node.input, *called])
            made = Node(kind, inputs, name, shape, dtype, attributes=attributes.get(reference, {}), origin=node)
        nodes[name] = made
        order.append(made)
    for output in proto.output:
        known(output.name)
    return nodes, order


def _parameter(parameter: TensorProto) -> Node:
    name = parameter.ref_key or parameter.name.rpartition(":")[2]
    shape, dtype = tuple(parameter.dims), _dtype(parameter.data_type)
    return Node(PARAMETER, (), name, shape, dtype, value=_table(parameter), origin=parameter.name)


def _dtype(data_type: int) -> str:
    name = TensorProto.DataType.Name(data_type)
    return str(_DTYPES.get(name, name.lower()))


def _decode(attribute: AttributeProto) -> Any:
    """Return a constant or an attribute as a Python object; None for what is no data."""
    kind = AttributeProto.AttributeType.Name(attribute.type)
    if kind in ("TUPLE", "LIST"):
        return tuple(_decode(value) for value in attribute.values)
    if kind == "TENSORS" and len(attribute.tensors) == 1:
        tensor = attribute.tensors[0]
        dtype = _NUMPY.get(TensorProto.DataType.Name(tensor.data_type))
        if dtype is None or len(tensor.raw_data) != prod(tensor.dims) * np.dtype(dtype).itemsize:
            return None
        return np.frombuffer(tensor.raw_data, dtype).reshape(tuple(tensor.dims))
    if kind in ("FLOAT", "DOUBLE"):  # inside a tuple, a number stands in a list of one
        return next(iter([*attribute.floats, *attribute.doubles]), attribute.f if kind == "FLOAT" else attribute.d)
    if kind == "BOOL" or kind.startswith(("INT", "UINT")):
        value = attribute.ints[0] if attribute.ints else attribute.i
        return bool(value) if kind == "BOOL" else int(value)
    return attribute.s.decode(errors="replace") if kind == "STRING" else None


def constant(proto: NodeProto) -> Node:
    """Return a Constant of the file as a node."""
    value = _decode(proto.attribute[0]) if proto.attribute else None
    made = Node(CONSTANT, (), proto.output[0], value=value, origin=proto)
    if isinstance(value, np.ndarray):
        made.shape, made.dtype = value.shape, str(value.dtype)
    return made


def _table(parameter: TensorProto) -> Any:
    """Return the values of a parameter that may be a table of angles: it has rows of a few hundred numbers."""
    dims = tuple(parameter.dims)
    if (
        not 2 <= len(dims) <= 4
        or dims[-1] > 512
        or parameter.data_type != TensorProto.FLOAT
        or parameter.ByteSize() > 2**24
    ):
        return None
    values = np.frombuffer(parameter.raw_data, np.float32)
    return values.reshape(dims) if values.size == prod(dims) else None


def _described(proto: NodeProto) -> tuple[tuple[int, ...] | None, str]:
    """Return shape and dtype of a node with one output, as MindSpore has inferred them."""
    for attribute in proto.attribute:
        if attribute.name == "shape" and len(attribute.tensors) == 1:
            dims = tuple(attribute.tensors[0].dims)
            return (None if -2 in dims else dims), _dtype(attribute.tensors[0].data_type)
    return None, ""


def attributes_of(primitive: PrimitiveProto) -> dict[str, Any]:
    """Return the attributes of a primitive. One of this package has its name and its own; others have none."""
    if primitive.op_type != "Custom":
        return {attribute.name: _decode(attribute) for attribute in primitive.attribute}
    try:
        signature, attributes = read_fused(primitive)
    except ValueError:
        return {}
    return {"reg_op_name": signature.entry, **attributes}


def uses(node: NodeProto) -> list[str]:
    """Return the values that a node needs: its inputs, and the function that it calls where that is a value."""
    return [*node.input, node.op_type.removeprefix("REF::")] if node.op_type.startswith("REF::") else list(node.input)


def used_by_several(protos: Iterable[GraphProto]) -> set[str]:
    """Return values that another graph than their own uses: of those there is one user more than their graph shows."""
    outside = set()
    for proto in protos:
        own = values_of(proto)
        outside |= {name for node in proto.node for name in uses(node) if name not in own}
    return outside


def values_of(proto: GraphProto) -> set[str]:
    """Return the values of a graph."""
    return {node.output[0] for node in proto.node} | {i.name for i in proto.input} | {p.name for p in proto.parameter}
