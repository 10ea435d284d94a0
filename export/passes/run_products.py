"""Replaces products that stand between fused operators by `matmul` of this package, so that the run goes on.

    RMSNorm -> Reshape -> MatMul -> Reshape -> rotary embedding

`load` does so on a CPU, where such a run is launched by one call (export/passes/super_kernels.py). MindSpore runs a
graph of up to 100 kernels in the calling thread, which waits for the threads that calculate a product by `sched_yield`:
with two CPUs it takes half of one from them. The product is a GEMM of the same kind in either case: its sums may be
rounded otherwise.
"""

from __future__ import annotations

from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.graphs.graph import Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, graphs_of, name_of
from ms_ascend_ops.export.passes.products import FLOATS

__all__ = ["join_products"]

_VIEWS = ("Reshape", "ExpandDims", "Transpose", "TupleGetItem")
_FAR = 4  # views between two operators


def join_products(model: ModelProto) -> int:
    """Put `matmul` in the place of products of a matrix with a weight, next to fused operators on both sides or one.

    Returns:
        How many there were.
    """
    if not any(p.op_type == "Custom" for p in model.primitives):
        return 0
    return sum(_join(graph) for graph in graphs_of(model))


def _join(graph: MindIRGraph) -> int:
    users: dict[int, list[Node]] = {}
    for node in graph.graph.nodes:
        for source in node.inputs:
            users.setdefault(id(source), []).append(node)
    made, count = [], 0
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
        count += 1
    if made:
        graph.put(made)
    return count


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
