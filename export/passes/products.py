"""Rewrites products of matrices to take their operands as they lie.

    query @ key.swapaxes(2, 3)  ->  BatchMatMul(query, key, transpose_b=True)

The transpose is a copy; in decoding, one of all keys for every token. In a graph for any sizes MindSpore prepares the
operands of `matmul` for broadcasting besides, which copies both: not where they have the same batch.

    query @ (key.swapaxes(1, 2) * 0.35)  ->  query @ (key * 0.35).swapaxes(1, 2)

So the transpose stands where the product takes it along.

    query @ repeat(key, groups)  ->  query.reshape(batch, heads, groups * length, -1) @ key

Heads of queries that share keys are one head with so many more rows. Repeating writes all keys and values once for each
of them, in decoding at every token.
"""

from __future__ import annotations

from collections.abc import Sequence

from mindspore.train.mind_ir_pb2 import NodeProto
from ms_ascend_ops.export.graphs.graph import CONSTANT, Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, name_of
from ms_ascend_ops.export.graphs.sizes import PRODUCTS, Size, Sizes, repeats_heads, swaps_last, transposed
from ms_ascend_ops.export.passes.packing import set_dim
from ms_ascend_ops.export.reports.report import Entry

__all__ = ["FLOATS", "fold_transposes", "group_heads", "scale_first", "with_numbers"]

FLOATS = ("float32", "float16", "bfloat16")

# A report says this.
_FOLDED = ("transpose in front of a product", "mindir", True, "part of it")
_PLAIN = ("product of batches", "mindir", True, "nothing is broadcast")
_GROUPED = ("repeated heads", "mindir", True, "one product for the heads that share one")


def scale_first(graph: MindIRGraph) -> list[Entry]:
    """Change the places of a transpose without another use and the factor between it and a product of matrices."""
    users = graph.graph.users()
    operands = {id(i) for node in graph.graph.nodes if node.kind in PRODUCTS for i in node.inputs[:2]}
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        swapped = node.inputs[0] if _is_scaled(node) else None
        if swapped is None or id(node) not in operands or users[id(swapped)] != 1 or not swaps_last(swapped):
            continue
        if node.dtype not in FLOATS or swapped.dtype != node.dtype or len(node.shape or ()) < 2 or node.shape is None:
            continue
        if graph.may_be_written(swapped.inputs[0]):
            continue
        scaled, transpose = NodeProto(), NodeProto()
        scaled.CopyFrom(node.origin)
        transpose.CopyFrom(swapped.origin)
        scaled.input[0] = name_of(swapped.inputs[0])
        scaled.name = scaled.output[0] = transpose.input[0] = graph.unused(f"{name_of(node)}_first")
        set_dim(scaled, -1, node.shape[-2])
        set_dim(scaled, -2, node.shape[-1])
        transpose.name = transpose.output[0] = name_of(node)
        del transpose.attribute[:]
        transpose.attribute.extend(node.origin.attribute)
        made += [scaled, transpose]
    if made:
        graph.put(made)
    return []


def _is_scaled(node: Node) -> bool:
    """Tell whether a node multiplies or divides by a number. MindSpore 2.7 and 2.8 divide by a tensor without dims."""
    if node.kind != "Div" or len(node.inputs) != 2:
        return node.kind in ("Muls", "Divs") and bool(node.inputs)
    return node.inputs[1].kind == CONSTANT and node.inputs[1].shape == ()


def fold_transposes(graph: MindIRGraph) -> list[Entry]:
    """Let products of matrices do what transposes of their operands do, and products of batches be those alone."""
    sizes = Sizes(graph.graph)
    entries: list[Entry] = []
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        flags = transposed(node)
        if flags is None or node.dtype not in FLOATS:
            continue
        (one, turn_one), (other, turn_other) = (
            _behind_transposes(graph, operand, turn) for operand, turn in zip(node.inputs, flags, strict=False)
        )
        folds = (one, other) != node.inputs[:2]
        prepares = node.kind == "MatMulExt" and -1 in (node.shape or ())
        if (folds or prepares) and _same_batch(sizes.shape(one), sizes.shape(other), sizes):
            kind = "MatMul" if len(sizes.shape(one) or ()) == 2 else "BatchMatMul"
            constants = [graph.flag(turn) for turn in (turn_one, turn_other)]
            inputs = [name_of(one), name_of(other), *(constant.name for constant in constants)]
            made += [*constants, _operator(graph, node, kind, inputs, name_of(node), node.shape)]
            entries.append(Entry(graph.name, *(_FOLDED if folds else _PLAIN)))
    if made:
        graph.put(made)
    return entries


def group_heads(graph: MindIRGraph) -> list[Entry]:
    """Let a head of keys, or values, meet all its heads of queries in one product instead of being repeated."""
    sizes = Sizes(graph.graph)
    entries: list[Entry] = []
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        flags = transposed(node)
        shared = _repeated(node.inputs[1], sizes) if flags is not None and not flags[0] else None
        targets = _targets(node, shared, sizes) if shared is not None else None
        if flags is None or shared is None or targets is None or graph.may_be_written(shared):
            continue
        name, kind = name_of(node), "BatchMatMul"
        constants = [graph.flag(flag) for flag in flags]
        rows, grouped = graph.unused(f"{name}_rows"), graph.unused(f"{name}_grouped")
        inputs = [rows, name_of(shared), *(constant.name for constant in constants)]
        made += [
            *constants,
            *_reshape(graph, node, name_of(node.inputs[0]), rows, targets[0]),
            _operator(graph, node, kind, inputs, grouped, (*targets[0][:3], targets[1][3])),
            *_reshape(graph, node, grouped, name, targets[1]),
        ]
        entries.append(Entry(graph.name, *_GROUPED))
    if made:
        graph.put(made)
    return entries


def _repeated(node: Node, sizes: Sizes) -> Node | None:
    """Read heads (batch, heads, length, features) that a node holds several times, each time one behind the other."""
    spread = node.inputs[0] if node.kind == "Reshape" and node.inputs else node
    single = spread.inputs[0] if spread.kind in ("BroadcastTo", "Tile") and spread.inputs else spread
    if single is spread or single.kind not in ("ExpandDims", "Reshape") or not single.inputs:
        return None
    same = repeats_heads(sizes, *(sizes.shape(n) for n in (single.inputs[0], single, spread, node)))
    return single.inputs[0] if same else None


def _targets(node: Node, shared: Node, sizes: Sizes) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return what queries of a product and its result are reshaped to; None: unknown in part, or something else."""
    queries = node.inputs[0]
    before, keys, after = (list(sizes.shape(n) or ()) for n in (queries, shared, node))
    if not len(before) == len(keys) == len(after) == 4 or not sizes.same(before[:1], keys[:1]):
        return None
    heads, count = before[1], keys[1]
    if not isinstance(heads, int) or not isinstance(count, int) or not count or heads % count or heads != after[1]:
        return None
    if node.dtype not in FLOATS or not queries.dtype == shared.dtype == node.dtype:
        return None
    rows = before[2] * (heads // count) if isinstance(before[2], int) else -1
    first, second = (
        tuple(size if isinstance(size, int) else -1 for size in target)
        for target in ((before[0], count, rows, before[3]), after)
    )
    return (first, second) if max(first.count(-1), second.count(-1)) < 2 else None


def _same_batch(one: Sequence[Size] | None, other: Sequence[Size] | None, sizes: Sizes) -> bool:
    if one is None or other is None or min(len(one), len(other)) < 2:
        return False
    return bool(sizes.same(one[:-2], other[:-2]))


def _behind_transposes(graph: MindIRGraph, node: Node, turn: bool) -> tuple[Node, bool]:
    """Return what an operand is without transposes of its last two axes, and whether that is to be transposed."""
    while swaps_last(node) and not graph.may_be_written(node.inputs[0]):
        node, turn = node.inputs[0], not turn
    return node, turn


def _reshape(graph: MindIRGraph, like: Node, source: str, name: str, target: tuple[int, ...]) -> list[NodeProto]:
    """Make a reshape with its target."""
    return with_numbers(graph, like, "Reshape", source, name, target, target)


def with_numbers(
    graph: MindIRGraph,
    like: Node,
    kind: str,
    source: str,
    name: str,
    numbers: Sequence[int],
    shape: Sequence[int] | None = None,
) -> list[NodeProto]:
    """Make an operator of a value and a tuple of numbers, and that tuple; `shape` as of `_operator`."""
    constant = graph.numbers(numbers)
    return [constant, _operator(graph, like, kind, [source, constant.name], name, shape)]


def _operator(
    graph: MindIRGraph, like: Node, kind: str, inputs: Sequence[str], name: str, shape: Sequence[int] | None
) -> NodeProto:
    """Make an operator with a result of this shape, of that of `like` for None; otherwise in the place of that."""
    old = like.origin
    made = NodeProto(
        op_type=f"REF::{graph.by_type(kind, function=True)}",
        input=inputs,
        output=[name],
        name=name,
        domain=f"{old.domain.rpartition('/')[0]}/{kind}-{name}",
        attribute=old.attribute,
        node_attr=old.node_attr,
    )
    for attribute in made.attribute:
        for tensor in attribute.tensors if attribute.name == "shape" and shape is not None else ():
            tensor.dims[:] = shape
    return made
