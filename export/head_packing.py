"""Queries, keys and values of an attention layer as one product of matrices in a MindIR (level O3).

    x @ q.T, x @ k.T, x @ v.T, each split into heads  ->  x @ [q; k; v].T, split into heads, then into the three

The product is cut between heads, after they have become an axis in front: for one token nothing is moved until then.
The weights become one parameter of the file; the network that the file came from keeps its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mindspore.train.mind_ir_pb2 import AttributeProto, NodeProto
from ms_ascend_ops.export.graph import CONSTANT, Node
from ms_ascend_ops.export.mindir_graph import MindIRGraph
from ms_ascend_ops.export.packing import Linear, Uses, join, linear_layer, set_dim
from ms_ascend_ops.export.report import Entry

__all__ = ["pack_heads"]

_BEHIND = (0, 2, 1, 3)  # (batch, length, heads, features) -> (batch, heads, length, features)


@dataclass(frozen=True, eq=False)
class _Heads:
    """A linear layer, and the reshape and transpose that make heads of its features."""

    layer: Linear
    reshape: Node
    transpose: Node

    @property
    def count(self) -> int:
        assert self.transpose.shape is not None
        return int(self.transpose.shape[1])

    @property
    def features(self) -> int:
        assert self.transpose.shape is not None
        return int(self.transpose.shape[3])


def pack_heads(graph: MindIRGraph) -> list[Entry]:
    """Join layers of one input that are split into heads of one size.

    The protobuf holds the result afterwards. To be called before other nodes are put in.
    """
    uses, users = Uses(graph.model), graph.graph.users()
    parameters = {p.name: p for p in graph.proto.parameter}
    groups: dict[tuple[int, int], list[_Heads]] = defaultdict(list)
    for node in graph.graph.nodes:
        if (heads := _heads(node)) is None:
            continue
        reshape = node.inputs[0]
        layer = linear_layer(reshape.inputs[0], parameters, uses, users)
        if layer is not None and layer.reshape is None and users[id(reshape)] == 1:
            groups[id(layer.product.inputs[0]), heads].append(_Heads(layer, reshape, node))
    entries, made = [], []
    for number, group in enumerate(groups.values()):
        group = [heads for heads in group if _alike(group[0], heads)]  # noqa: PLW2901
        if len(group) < 2:
            continue
        made += _joined(graph, group, number)
        layers = [heads.layer.weight.name.rpartition(":")[2].rpartition(".")[0] for heads in group]
        place = layers[0].rpartition(".")[0]
        text = f"{', '.join(layer.rpartition('.')[2] for layer in layers)} by one product, with one weight in the file"
        entries.append(Entry(place, "linear layers", "mindir", True, text))
    graph.put(made)
    return entries


def _heads(node: Node) -> int | None:
    """Features of a head, if a node is the transpose that puts heads in front of the sequence."""
    if node.kind != "Transpose" or tuple(node.inputs[1].value or ()) != _BEHIND:
        return None
    reshape = node.inputs[0]
    if reshape.kind != "Reshape" or node.shape is None or min(node.shape[1], node.shape[3]) < 1:
        return None
    return node.shape[3] if _target(reshape) is not None else None


def _target(reshape: Node) -> tuple[Node | int, ...] | None:
    """What batch, length, heads and features are reshaped to: numbers, or values of the graph."""
    target = reshape.inputs[1]
    if target.kind == CONSTANT and isinstance(target.value, tuple) and len(target.value) == 4:
        return target.value
    if target.kind in ("MakeTuple", "make_tuple") and len(target.inputs) == 4:
        parts = tuple(i.value if i.kind == CONSTANT else i for i in target.inputs)
        return parts if all(isinstance(part, int) for part in parts[2:]) else None
    return None


def _alike(a: _Heads, b: _Heads) -> bool:
    """Whether one product can give both: dtypes, whole weights, and the same batch and length."""
    one, other = a.layer.weight, b.layer.weight
    weights = one.data_type == other.data_type and one.dims[1] == other.dims[1]
    whole = len(one.raw_data) * other.dims[0] == len(other.raw_data) * one.dims[0]
    plain = not one.quant_params and not other.quant_params
    rows = all(h.count * h.features == h.layer.weight.dims[0] for h in (a, b))
    ours, theirs = _target(a.reshape), _target(b.reshape)
    same = (
        ours is not None
        and theirs is not None
        and all(x is y or x == y for x, y in zip(ours[:2], theirs[:2], strict=True))
    )
    return weights and whole and plain and rows and same


def _joined(graph: MindIRGraph, group: Sequence[_Heads], number: int) -> list[NodeProto]:
    """Product, reshape, transpose and split, and the parts under the names of the transposes that were there."""
    first = group[0]
    total = sum(heads.count for heads in group)
    join(graph.proto, [heads.layer for heads in group])
    prefix = f"{graph.proto.name}:heads_{number}"

    made, target = _new_target(first.reshape, total, prefix)
    reshape = _copy(first.reshape, f"{prefix}_reshape", 2, total)
    reshape.input[1] = target
    transpose = _copy(first.transpose, f"{prefix}_transpose", 1, total)
    transpose.input[0] = reshape.output[0]

    sizes = NodeProto(op_type="Constant", name=f"{prefix}_sizes", output=[f"{prefix}_sizes"])
    value = sizes.attribute.add(name="value", type=AttributeProto.TUPLE)
    for heads in group:
        value.values.add(type=AttributeProto.INT64).ints.append(heads.count)
    axis = NodeProto(op_type="Constant", name=f"{prefix}_axis", output=[f"{prefix}_axis"])
    axis.attribute.add(name="value", i=1, type=AttributeProto.INT64)
    split = NodeProto(
        op_type=f"REF::{graph.by_type('SplitWithSize')}",
        input=[transpose.output[0], sizes.output[0], axis.output[0]],
        output=[f"{prefix}_split"],
        name=f"{prefix}_split",
        domain=transpose.domain,
        node_attr=transpose.node_attr,
    )
    described = split.attribute.add(name="shape", type=AttributeProto.TUPLE)
    described.seq_info.is_dyn_len = False
    for heads in group:
        for attribute in heads.transpose.origin.attribute:
            if attribute.name == "shape":
                described.values.add(type=AttributeProto.TENSORS).tensors.extend(attribute.tensors)
    parts = graph.items(split, {index: heads.transpose for index, heads in enumerate(group)})
    return [*made, reshape, transpose, sizes, axis, split, *parts]


def _copy(node: Node, name: str, axis: int, size: int) -> NodeProto:
    """A node like another, with a name of its own and another size of one axis."""
    made = NodeProto()
    made.CopyFrom(node.origin)
    made.name = made.output[0] = name
    set_dim(made, axis, size)
    return made


def _new_target(reshape: Node, total: int, prefix: str) -> tuple[list[NodeProto], str]:
    """The target of a reshape with another number of heads: new nodes, and the name of the value."""
    target = reshape.inputs[1]
    if (_target(reshape) or ())[2] == -1:
        return [], target.origin.output[0]
    made = NodeProto()
    made.CopyFrom(target.origin)
    made.name = made.output[0] = f"{prefix}_target"
    if target.kind == CONSTANT:
        number = made.attribute[0].values[2]
        del number.ints[:]
        number.ints.append(total)
        return [made], made.name
    count = NodeProto(op_type="Constant", name=f"{prefix}_count", output=[f"{prefix}_count"])
    count.attribute.add(name="value", i=total, type=AttributeProto.INT64)
    made.input[2] = count.name
    return [count, made], made.name
