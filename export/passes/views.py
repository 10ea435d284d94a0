"""Functionalizes: views and writes in place become operators that nothing has to order.

    keys = mint.transpose(keys, 1, 2)
    scores += mask

A view is memory of another tensor, and a sum in place is written there. MindSpore keeps both in an order with what else
reads or writes that memory (`UpdateState`, `Load`), so what was made of it has more users than a pattern has. Where
nothing writes the memory of a view, and nobody but the sum reads what it is written over, the order says nothing.
"""

from __future__ import annotations

from collections import Counter

from ms_ascend_ops.export.graphs.graph import CONSTANT, INPUT, PARAMETER, Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, name_of, outputs_of
from ms_ascend_ops.export.passes.products import with_numbers
from ms_ascend_ops.export.reports.report import Entry

__all__ = ["functionalize", "write_apart"]

# To each primitive that writes in place belongs one that gives the same as a value of its own. The number is of its
# operands before the state.
_APART = {
    "InplaceAddExt": ("AddExt", 3),
    "InplaceSubExt": ("SubExt", 3),
    "InplaceMul": ("Mul", 2),
    "InplaceMuls": ("Muls", 2),
    "InplaceDiv": ("Div", 2),
    "InplaceDivs": ("Divs", 2),
    "InplaceMaskedFillTensor": ("MaskedFill", 3),
    "InplaceMaskedFillScalar": ("MaskedFillScalar", 3),
}
# Operators with one input that return its memory.
_SAME_MEMORY = frozenset(("Reshape", "ExpandDims", "TransposeExtView", "Squeeze"))


def write_apart(graph: MindIRGraph) -> list[Entry]:
    """Let sums and products in place be values of their own, where nobody needs what they are written over."""
    users = graph.graph.users()
    order = {id(n) for n in graph.graph.nodes if n.kind == "UpdateState"}
    for node in graph.graph.nodes:
        if id(node) in order:
            users.subtract(id(i) for i in node.inputs[1:])
    apart = {name_of(n): n for n in graph.graph.nodes if n.kind in _APART and _is_apart(graph, n, users)}
    # Other writes to the memory might come before a read that has no order then.
    written = {name: graph.writers_of(node) for name, node in apart.items()}
    apart = {name: node for name, node in apart.items() if (by := written[name]) is not None and by <= set(apart)}
    if not apart:
        return []
    free = {id(node) for node in apart.values()}
    instead = _unordered(graph, free)
    _leave_tuples(graph, free)
    states = {name_of(node) for node in graph.graph.nodes if id(node) in instead and node.kind == "UpdateState"}
    for node in apart.values():
        proto = node.origin
        proto.op_type = f"REF::{graph.by_type(_APART[node.kind][0], function=True)}"
        del proto.input[-1]  # the state in which it was
        node.inputs = node.inputs[:-1]
    graph.redirect(instead)
    graph.put([], without=states)
    return []


def _is_apart(graph: MindIRGraph, node: Node, users: Counter[int]) -> bool:
    """Tell whether a write goes to memory of the graph that only this node reads, and keeps shape and dtype."""
    if len(node.inputs) != _APART[node.kind][1] + 1:
        return False  # without a state, or no such operator: the file says what it likes
    target, other = node.inputs[0], node.inputs[1]
    if (target.shape, target.dtype) != (node.shape, node.dtype) or not node.dtype:
        return False
    if other.kind != CONSTANT and other.dtype not in (node.dtype, "bool"):
        return False
    while users[id(target)] == 1:
        if target.inputs and (target.kind in _APART or target.kind in _SAME_MEMORY):
            target = target.inputs[0]
        else:
            return target.kind not in (INPUT, PARAMETER, CONSTANT) and graph.is_new(target)
    return False


def functionalize(graph: MindIRGraph) -> list[Entry]:
    """Put stock transposes in the place of views, without the order that MindSpore has given these."""
    orders = {
        id(node): order
        for node in graph.graph.nodes
        if (order := _order(node)) is not None and not graph.is_ever_written(node)
    }
    if not orders:
        return []
    free = set(orders)
    instead = _unordered(graph, free)
    _leave_tuples(graph, free)
    views = [(node, orders[id(node)]) for node in graph.graph.nodes if id(node) in orders]
    states = {name_of(node) for node in graph.graph.nodes if id(node) in instead and node.kind == "UpdateState"}
    graph.redirect(instead)
    made = []
    for node, order in views:
        made += with_numbers(graph, node, "Transpose", name_of(node.inputs[0]), name_of(node), order)
    graph.put(made, without=states)
    return []


def _order(node: Node) -> tuple[int, ...] | None:
    """Return the order in which a view takes the axes of a tensor; None: it is no such view, or unknown."""
    rank = len(node.shape or ())
    if node.kind != "TransposeExtView" or len(node.inputs) != 4:
        return None
    axes = [i.value for i in node.inputs[1:3] if i.kind == CONSTANT]
    if len(axes) != 2 or not all(type(axis) is int and -rank <= axis < rank for axis in axes):
        return None
    order = list(range(rank))
    one, other = axes
    order[one], order[other] = order[other], order[one]
    return tuple(order)


def _leave_tuples(graph: MindIRGraph, free: set[int]) -> None:
    """Take what is in `free` out of tuples that are there for the order alone, and have other parts, too."""
    values = {id(i) for node in graph.graph.nodes if node.kind != "UpdateState" for i in node.inputs}
    values |= {id(output) for output in graph.graph.outputs}
    for node in graph.graph.nodes:
        parts = [place for place, i in enumerate(node.inputs) if id(i) not in free]
        if node.kind != "MakeTuple" or id(node) in values or not 0 < len(parts) < len(node.inputs):
            continue
        node.inputs = tuple(node.inputs[place] for place in parts)
        node.origin.input[:] = [node.origin.input[place] for place in parts]
        for attribute in node.origin.attribute:
            if len(attribute.values) > len(parts):
                shapes = [attribute.values[place] for place in parts]
                del attribute.values[:]
                attribute.values.extend(shapes)


def _unordered(graph: MindIRGraph, free: set[int]) -> dict[int, Node]:
    """Return what stands for each node, by id, that has kept something in `free` in an order, and nothing else."""
    kept = outputs_of(graph)
    instead: dict[int, Node] = {}
    for node in graph.graph.nodes:
        if node.kind == "MakeTuple" and node.inputs and all(id(i) in free for i in node.inputs):
            free.add(id(node))
        elif id(node) in kept or len(node.inputs) != 2:
            continue
        elif node.kind == "Load" and id(node.inputs[0]) in free:
            free.add(id(node))
            instead[id(node)] = node.inputs[0]
        elif node.kind == "UpdateState" and id(node.inputs[1]) in free:
            instead[id(node)] = node.inputs[0]
    return instead
