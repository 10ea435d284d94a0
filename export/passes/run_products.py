"""Products that stand between fused operators become `matmul` of this package, so that the run goes on.

    RMSNorm -> Reshape -> MatMul -> Reshape -> rotary embedding

On a CPU such a run is launched by one call (export/passes/super_kernels.py). The product itself is a GEMM of the same
kind in either case: its sums may be rounded otherwise.
"""

from __future__ import annotations

from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, name_of
from ms_ascend_ops.export.passes.products import FLOATS
from ms_ascend_ops.export.reports.report import Entry

__all__ = ["join_runs"]

_VIEWS = ("Reshape", "ExpandDims", "Transpose", "TupleGetItem")
_FAR = 4  # views between two operators


def join_runs(graph: MindIRGraph) -> list[Entry]:
    """Put `matmul` in the place of products of a matrix with a weight, next to fused operators on both sides or one."""
    users: dict[int, list[Node]] = {}
    for node in graph.graph.nodes:
        for source in node.inputs:
            users.setdefault(id(source), []).append(node)
    entries, made = [], []
    for number, node in enumerate(graph.graph.nodes):
        flags = [source.value for source in node.inputs[2:4]]
        if node.kind != "MatMul" or node.dtype not in FLOATS or flags[:1] != [False] or type(flags[-1]) is not bool:
            continue
        x, weight = node.inputs[:2]
        if x.shape is None or weight.shape is None or len(x.shape) != 2 or len(weight.shape) != 2:
            continue
        if not x.dtype == weight.dtype == node.dtype or graph.may_be_written(x) or graph.may_be_written(weight):
            continue
        if not (_is_ours(_source(x)) or any(_is_ours(user) for user in _readers(node, users))):
            continue
        attributes = {"transpose_weight": flags[-1]}
        try:
            described = graph.described("matmul", attributes, [x.shape, weight.shape], [x.dtype, weight.dtype])
        except (TypeError, ValueError):
            continue
        inputs = [name_of(x), name_of(weight)]
        made += graph.operator("matmul", attributes, inputs, described, {0: node}, node.origin, number)
        entries.append(Entry(graph.name, "product between operators", "mindir", True, "matmul: a run goes on"))
    if made:
        graph.put(made)
    return entries


def _is_ours(node: Node) -> bool:
    return node.kind == "Custom" and "reg_op_name" in node.attributes


def _source(node: Node) -> Node:
    for _ in range(_FAR):
        if node.kind not in _VIEWS:
            break
        node = node.inputs[0]
    return node


def _readers(node: Node, users: dict[int, list[Node]]) -> list[Node]:
    """Return those who read a value, through views."""
    readers, level = [], [node]
    for _ in range(_FAR):
        level = [user for one in level for user in users.get(id(one), [])]
        readers += [one for one in level if one.kind not in _VIEWS]
        level = [one for one in level if one.kind in _VIEWS]
    return readers
