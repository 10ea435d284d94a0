"""Products of matrices that take their operands as they lie.

    query @ key.swapaxes(2, 3)  ->  BatchMatMul(query, key, transpose_b=True)

The transpose is a copy; in decoding, one of all keys for every token. In a graph for any sizes MindSpore prepares the
operands of `matmul` for broadcasting besides, which copies both: not where they have the same batch.

    query @ (key.swapaxes(1, 2) * 0.35)  ->  query @ (key * 0.35).swapaxes(1, 2)

So the transpose stands where the product takes it along.
"""

from __future__ import annotations

from collections.abc import Sequence

from mindspore.train.mind_ir_pb2 import AttributeProto, NodeProto
from ms_ascend_ops.export.graph import Node
from ms_ascend_ops.export.mindir_graph import MindIRGraph, name_of
from ms_ascend_ops.export.packing import set_dim
from ms_ascend_ops.export.report import Entry
from ms_ascend_ops.export.sizes import PRODUCTS, Size, Sizes, swaps_last, transposed

__all__ = ["FLOATS", "fold_transposes", "scale_first"]

FLOATS = ("float32", "float16", "bfloat16")

# What a report says.
_FOLDED = ("transpose in front of a product", "mindir", True, "part of it")
_PLAIN = ("product of batches", "mindir", True, "nothing is broadcast")


def scale_first(graph: MindIRGraph) -> list[Entry]:
    """Change the places of a transpose that nobody else uses and the factor between it and a product of matrices."""
    users = graph.graph.users()
    operands = {id(i) for node in graph.graph.nodes if node.kind in PRODUCTS for i in node.inputs[:2]}
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        turned = node.inputs[0] if node.kind in ("Muls", "Divs") and node.inputs else None
        if turned is None or id(node) not in operands or users[id(turned)] != 1 or not swaps_last(turned):
            continue
        if node.dtype not in FLOATS or turned.dtype != node.dtype or node.shape is None:
            continue
        scaled, transpose = NodeProto(), NodeProto()
        scaled.CopyFrom(node.origin)
        transpose.CopyFrom(turned.origin)
        scaled.input[0] = name_of(turned.inputs[0])
        scaled.name = scaled.output[0] = transpose.input[0] = f"{name_of(node)}_first"
        set_dim(scaled, -1, node.shape[-2])
        set_dim(scaled, -2, node.shape[-1])
        transpose.name = transpose.output[0] = name_of(node)
        del transpose.attribute[:]
        transpose.attribute.extend(node.origin.attribute)
        made += [scaled, transpose]
    if made:
        graph.put(made)
    return []


def fold_transposes(graph: MindIRGraph) -> list[Entry]:
    """Let products of matrices do what transposes of their operands do, and products of batches be those alone."""
    sizes = Sizes(graph.graph)
    entries: list[Entry] = []
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        flags = transposed(node)
        if flags is None or node.dtype not in FLOATS:
            continue
        (one, turn_one), (other, turn_other) = map(_behind_transposes, node.inputs[:2], flags)
        folds = (one, other) != node.inputs[:2]
        prepares = node.kind == "MatMulExt" and -1 in (node.shape or ())
        if (folds or prepares) and _same_batch(sizes.shape(one), sizes.shape(other), sizes):
            made += _product(graph, node, (one, other), (turn_one, turn_other))
            entries.append(Entry(graph.name, *(_FOLDED if folds else _PLAIN)))
    if made:
        graph.put(made)
    return entries


def _same_batch(one: Sequence[Size] | None, other: Sequence[Size] | None, sizes: Sizes) -> bool:
    if one is None or other is None or min(len(one), len(other)) < 2:
        return False
    return bool(sizes.same(one[:-2], other[:-2]))


def _behind_transposes(node: Node, turn: bool) -> tuple[Node, bool]:
    """What an operand is without transposes of its last two axes, and whether that is to be transposed."""
    while swaps_last(node):
        node, turn = node.inputs[0], not turn
    return node, turn


def _product(graph: MindIRGraph, node: Node, operands: tuple[Node, Node], turns: tuple[bool, bool]) -> list[NodeProto]:
    """The product under the name of the one that was there, and the constants that it needs."""
    old, kind = node.origin, "MatMul" if len(node.shape or ()) == 2 else "BatchMatMul"
    constants = [_flag(graph, turn) for turn in turns]
    made = NodeProto(
        op_type=f"REF::{graph.by_type(kind, function=True)}",
        input=[*map(name_of, operands), *(constant.name for constant in constants)],
        output=old.output,
        name=old.name,
        domain=f"{old.domain.rpartition('/')[0]}/{kind}-{old.name}",
        attribute=old.attribute,
        node_attr=old.node_attr,
    )
    return [*constants, made]


def _flag(graph: MindIRGraph, value: bool) -> NodeProto:
    name = f"{graph.proto.name}:{value}"
    made = NodeProto(op_type="Constant", name=name, output=[name])
    made.attribute.add(name="value", type=AttributeProto.BOOL, i=int(value))
    return made
