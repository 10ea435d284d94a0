"""Joins queries, keys and values of an attention layer to one product of matrices in a MindIR (level O3).

    x @ q.T, x @ k.T, x @ v.T, each split into heads  ->  x @ [q; k; v].T, split into heads, then into the three

The product is cut between heads, after they have become an axis in front: for one token nothing is moved until then.
Where queries and keys go through rotary embeddings with the same tables, one operator does that and cuts the product.
The weights become one parameter of the file; the network that the file came from keeps its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mindspore.train.mind_ir_pb2 import AttributeProto, NodeProto, TensorProto
from ms_ascend_ops.export.graphs.graph import CONSTANT, Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, name_of
from ms_ascend_ops.export.graphs.sizes import permutation
from ms_ascend_ops.export.matching.find import Found
from ms_ascend_ops.export.passes.packing import Linear, Uses, join, linear_layer, set_dim
from ms_ascend_ops.export.reports.report import Entry

from ms_ascend_ops.mindspore_versions import has_fault

__all__ = ["pack_heads"]

_BEHIND = (0, 2, 1, 3)  # (batch, length, heads, features) -> (batch, heads, length, features)
_ROTARY, _QKV_ROTARY = "rotary_embedding", "qkv_rotary_embedding"


@dataclass(frozen=True, eq=False)
class _Heads:
    """Describes a linear layer, and the reshape and transpose that make heads of its features."""

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


@dataclass(frozen=True, eq=False)
class _Rotated:
    """Describes queries, keys and values, the places of the rotary embeddings of the first two, and one
    operator for all.
    """

    group: list[_Heads]
    places: list[Found]
    attributes: dict[str, int | str]
    tables: list[Node]
    described: list[TensorProto]

    @property
    def outputs(self) -> dict[int, Node]:
        return dict(enumerate([*(place.root for place in self.places), self.group[2].transpose]))


def pack_heads(graph: MindIRGraph, found: Iterable[Found] = ()) -> tuple[list[Entry], set[int]]:
    """Join layers of one input that are split into heads of one size, with the rotary embeddings behind them.

    The protobuf holds the result afterwards. To be called before other nodes are put in. Returns what to report, and
    the ids of those places in `found` that are replaced now.
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
    embeddings = {id(item.inputs[0]): item for item in found if item.fused.op == _ROTARY}
    entries: list[Entry] = []
    made: list[NodeProto] = []
    done: set[int] = set()
    for number, group in enumerate(groups.values()):
        group = [heads for heads in group if _alike(group[0], heads)]  # noqa: PLW2901
        if len(group) < 2:
            continue
        if rotated := _rotated(group, embeddings, users):
            group = rotated.group  # noqa: PLW2901
            done.update(map(id, rotated.places))
        elif has_fault("SplitWithSize on a CPU"):
            continue
        made += _joined(graph, group, number, rotated)
        layers = [heads.layer.weight.name.rpartition(":")[2].rpartition(".")[0] for heads in group]
        place = layers[0].rpartition(".")[0]
        text = f"{', '.join(layer.rpartition('.')[2] for layer in layers)} by one product, with one weight in the file"
        text += f"; heads and rotary embedding by {_QKV_ROTARY}" if rotated else ""
        entries.append(Entry(place, "linear layers", "mindir", True, text))
    graph.put(made)
    return entries, done


def _heads(node: Node) -> int | None:
    """Return the number of features of a head, if a node is the transpose that puts heads in front of the sequence."""
    if permutation(node) != _BEHIND:
        return None
    reshape = node.inputs[0]
    if reshape.kind != "Reshape" or node.shape is None or min(node.shape[1], node.shape[3]) < 1:
        return None
    return node.shape[3] if _target(reshape) is not None else None


def _target(reshape: Node) -> tuple[Node | int, ...] | None:
    """Return what batch, length, heads and features are reshaped to: numbers, or values of the graph."""
    if len(reshape.inputs) != 2:
        return None
    target = reshape.inputs[1]
    if target.kind == CONSTANT and isinstance(target.value, tuple) and len(target.value) == 4:
        return target.value
    if target.kind in ("MakeTuple", "make_tuple") and len(target.inputs) == 4:
        parts = tuple(i.value if i.kind == CONSTANT else i for i in target.inputs)
        return parts if all(isinstance(part, int) for part in parts[2:]) else None
    return None


def _alike(a: _Heads, b: _Heads) -> bool:
    """Tell whether one product can give both: dtypes, whole weights, and the same batch and length."""
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


def _rotated(group: Sequence[_Heads], embeddings: dict[int, Found], users: Counter[int]) -> _Rotated | None:
    """Return the members as queries, keys and values, if one operator can do what is done with their heads."""
    rotated = [heads for heads in group if id(heads.transpose) in embeddings]
    plain = [heads for heads in group if id(heads.transpose) not in embeddings]
    if len(rotated) != 2 or len(plain) != 1:
        return None
    group, reshape = [*rotated, *plain], rotated[0].reshape
    places = [embeddings[id(heads.transpose)] for heads in rotated]
    tables = _tables(*places)
    alone = all(_only_in(item, heads.transpose, users) for heads, item in zip(rotated, places, strict=True))
    if not tables or not alone or reshape.shape is None or _depends(tables, [heads.layer.product for heads in group]):
        return None
    attributes = {
        **{name: heads.count for name, heads in zip(("q_heads", "k_heads", "v_heads"), group, strict=True)},
        **{name: places[0].fused.attributes[name] for name in ("mode", "rotary_dim", "separate_halves")},
        "layout": "BNSD",
    }
    packed = (*reshape.shape[:2], sum(heads.count for heads in group), group[0].features)
    shapes, dtypes = [packed, *(t.shape or () for t in tables)], [reshape.dtype, *(t.dtype for t in tables)]
    try:
        described = MindIRGraph.described(_QKV_ROTARY, attributes, shapes, dtypes)
    except (TypeError, ValueError):
        return None
    return _Rotated(group, places, attributes, tables, described)


def _only_in(item: Found, node: Node, users: Counter[int]) -> bool:
    """Tell whether all users of a node are inside a place."""
    return users[id(node)] == sum(i is node for inner in item.inside for i in inner.inputs)


def _tables(one: Found, other: Found) -> list[Node]:
    """Return the tables that two rotary embeddings of heads in front of the sequence have in common, or None."""
    tables = [table for table in map(_table, one.inputs[1:]) if table is not None]
    same = one.fused.attributes == other.fused.attributes and one.fused.attributes["seq_axis"] == 2
    return tables if same and tables == [_table(node) for node in other.inputs[1:]] else []


def _table(node: Node) -> Node | None:
    """Return the table of a rotary embedding without the axis of heads."""
    if len(node.shape or ()) == 2:
        return node
    if not node.inputs or len(node.inputs[0].shape or ()) != 3:
        return None
    expands = node.kind == "ExpandDims" and node.inputs[1].value in (1, -3)
    return node.inputs[0] if expands or _puts_axis_of_heads(node) else None


def _puts_axis_of_heads(node: Node) -> bool:
    """Tell whether a reshape does, as far as sizes are known: one that is open follows from the others."""
    before, after = node.inputs[0].shape, node.shape
    if node.kind != "Reshape" or before is None or after is None or len(after) != 4 or after[1] != 1:
        return False
    pairs = list(zip(before, (after[0], *after[2:]), strict=True))
    return all(a == b or -1 in (a, b) for a, b in pairs) and sum(-1 in pair for pair in pairs) <= 1


def _depends(nodes: Iterable[Node], others: Iterable[Node]) -> bool:
    """Tell whether one of the nodes is computed from one of the others."""
    wanted, seen, stack = {id(node) for node in others}, set(), list(nodes)
    while stack:
        node = stack.pop()
        if id(node) in wanted:
            return True
        if id(node) not in seen:
            seen.add(id(node))
            stack.extend(node.inputs)
    return False


def _joined(graph: MindIRGraph, group: Sequence[_Heads], number: int, rotated: _Rotated | None) -> list[NodeProto]:
    """Make product, reshape, transpose and split; the parts get the names of the transposes that were there.

    With `rotated`, its operator stands for the last two, and for the rotary embeddings.
    """
    first = group[0]
    total = sum(heads.count for heads in group)
    join(graph.proto, [heads.layer for heads in group])
    prefix = f"{graph.proto.name}:heads_{number}"

    made, target = _new_target(graph, first.reshape, total, prefix)
    reshape = _copy(first.reshape, graph.unused(f"{prefix}_reshape"), 2, total)
    reshape.input[1] = target
    if rotated:
        inputs = [reshape.output[0], *map(name_of, rotated.tables)]
        like, described = first.transpose.origin, rotated.described
        nodes = graph.operator(_QKV_ROTARY, rotated.attributes, inputs, described, rotated.outputs, like, number)
        return [*made, reshape, *nodes]
    transpose = _copy(first.transpose, graph.unused(f"{prefix}_transpose"), 1, total)
    transpose.input[0] = reshape.output[0]

    sizes = _constant(graph.unused(f"{prefix}_sizes"))
    value = sizes.attribute.add(name="value", type=AttributeProto.TUPLE)
    for heads in group:
        value.values.add(type=AttributeProto.INT64).ints.append(heads.count)
    axis = _constant(graph.unused(f"{prefix}_axis"))
    axis.attribute.add(name="value", i=1, type=AttributeProto.INT64)
    name = graph.unused(f"{prefix}_split")
    split = NodeProto(
        op_type=f"REF::{graph.by_type('SplitWithSize')}",
        input=[transpose.output[0], sizes.output[0], axis.output[0]],
        output=[name],
        name=name,
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
    """Return a node like another, with a name of its own and another size of one axis."""
    made = NodeProto()
    made.CopyFrom(node.origin)
    made.name = made.output[0] = name
    set_dim(made, axis, size)
    return made


def _constant(name: str) -> NodeProto:
    return NodeProto(op_type="Constant", name=name, output=[name])


def _new_target(graph: MindIRGraph, reshape: Node, total: int, prefix: str) -> tuple[list[NodeProto], str]:
    """Return the target of a reshape with another number of heads: new nodes, and the name of the value."""
    target = reshape.inputs[1]
    if (_target(reshape) or ())[2] == -1:
        return [], target.origin.output[0]
    made = NodeProto()
    made.CopyFrom(target.origin)
    made.name = made.output[0] = graph.unused(f"{prefix}_target")
    if target.kind == CONSTANT:
        number = made.attribute[0].values[2]
        del number.ints[:]
        number.ints.append(total)
        return [made], made.name
    count = _constant(graph.unused(f"{prefix}_count"))
    count.attribute.add(name="value", i=total, type=AttributeProto.INT64)
    made.input[2] = count.name
    return [count, made], made.name
