"""Makes a MindIR simpler before patterns are looked for, and changes no bit of what it calculates.

    mask[:128, :128]  ->  a constant

The part of a causal mask or of a table that a length needs: MindSpore slices at every call, on a CPU element by
element.

    keys[:, :, None]  ->  keys.expand_dims(2)

MindSpore writes a new axis as an axis and a slice of everything, which is a copy, on a CPU a slow one: those of the
keys and values that grouped heads share took a quarter of a prefill. So are a transpose that undoes another one, and a
product with 1, of which diffusion networks have one behind every block.

    (scores * 0.125).reshape(shape)  ->  scores.reshape(shape) * 0.125

So the factor stands where a softmax takes it along.

    batch, length, _ = x.shape  ->  those of the first tensor that has them

A graph for any sizes calculates sizes as it runs (sizes.py), in every layer anew.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from math import prod
from typing import Any

import numpy as np
from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto, TensorProto
from ms_ascend_ops.export.graphs.graph import CONSTANT, Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, graphs_of, name_of, outputs_of
from ms_ascend_ops.export.graphs.sizes import Size, Sizes, permutation
from ms_ascend_ops.export.graphs.slices import index_of, is_whole
from ms_ascend_ops.export.passes.products import FLOATS, fold_transposes, group_heads, scale_first
from ms_ascend_ops.export.passes.views import functionalize, write_apart
from ms_ascend_ops.export.reports.report import REMOVED, Entry

__all__ = ["fold_products", "simplify", "tidy"]

_MOST_BYTES = 2**24  # larger ones stay: each is a constant of its own in the file


def simplify(model: ModelProto) -> list[Entry]:
    """Simplify every graph of a model, before patterns are looked for. Returns what a report says of it."""
    return _apply(model, _CHANGES)


def fold_products(model: ModelProto) -> list[Entry]:
    """Let the products of matrices that are no part of an attention do what is around them (products.py)."""
    return _apply(model, (fold_transposes, group_heads))


def tidy(model: ModelProto) -> None:
    """Simplify what replacements have left."""
    _apply(model, (_join_reshapes, _share_sizes))


def _apply(model: ModelProto, changes: Iterable[Callable[[MindIRGraph], list[Entry]]]) -> list[Entry]:
    """Apply the changes in order; each sees the graphs as the one before has left them."""
    return [entry for change in changes for graph in graphs_of(model) for entry in change(graph)]


def _drop_unused(graph: MindIRGraph) -> list[Entry]:
    """Eliminate dead nodes: their constraints say nothing of sizes."""
    graph.put([])
    return []


def _leave_out(graph: MindIRGraph) -> list[Entry]:
    """Leave out what hands on what it gets; each would be a copy."""
    kept = outputs_of(graph)
    instead: dict[int, Node] = {}
    entries: list[Entry] = []
    for node in graph.graph.nodes:
        found = next(((what, same) for what, of in _NEUTRAL.items() if (same := of(node)) is not None), None)
        if found is not None and id(node) not in kept and not graph.may_be_written(found[1]):
            instead[id(node)] = found[1]
            entries.append(Entry(graph.name, found[0], "mindir", True, REMOVED))
    graph.redirect(instead)
    return entries


def _of_everything(node: Node) -> Node | None:
    """Return what a slice takes all of, as indexing with None and colons writes it."""
    index = index_of(node)
    shape = node.inputs[0].shape if index else None
    if index is None or shape is None or len(index) > len(shape):
        return None
    return node.inputs[0] if all(is_whole(part, dim) for part, dim in zip(index, shape, strict=False)) else None


def _of_transposes(node: Node) -> Node | None:
    """Return what two transposes of which the second undoes the first begin with."""
    order = permutation(node)
    before = permutation(node.inputs[0]) if order is not None else None
    if order is None or before is None or len(before) != len(order):
        return None
    if [before[axis] for axis in order] != list(range(len(order))):
        return None
    return node.inputs[0].inputs[0]


def _of_ones(node: Node) -> Node | None:
    """Return what is multiplied by the number 1, or divided by it."""
    if node.kind not in ("Muls", "Divs", "Mul", "Div", "RealDiv") or len(node.inputs) != 2:
        return None
    value, one = node.inputs
    same = value.shape is not None and (value.shape, value.dtype) == (node.shape, node.dtype)
    return value if same and value.dtype in FLOATS and _is_number(one) and np.array_equal(one.value, 1) else None


_NEUTRAL = {
    "slice of everything": _of_everything,
    "transpose and back": _of_transposes,
    "product with 1": _of_ones,
}


def _fold_slices(graph: MindIRGraph) -> list[Entry]:
    """Put constants where constants are sliced."""
    entries: list[Entry] = []
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        index = index_of(node)
        tensor = _tensor(node.inputs[0]) if index is not None else None
        if tensor is None or index is None or graph.may_be_written(node.inputs[0]):
            continue
        part = _part(tensor, index)
        if part is not None and part.nbytes <= _MOST_BYTES and node.shape in (None, part.shape):
            made.append(_constant(node, tensor, part))
            before = "x".join(map(str, tensor.dims))
            after = "x".join(map(str, part.shape))
            entries.append(Entry(graph.name, "slice of a constant", "mindir", True, f"{before} to {after}, a constant"))
    if made:
        graph.put(made)
    return entries


def _tensor(node: Node) -> TensorProto | None:
    """Return the one tensor that a constant is, with its values."""
    if node.kind != CONSTANT or not isinstance(node.origin, NodeProto) or len(node.origin.attribute) != 1:
        return None
    value = node.origin.attribute[0]
    if value.type != AttributeProto.TENSORS or len(value.tensors) != 1:
        return None
    tensor = value.tensors[0]
    size = prod(tensor.dims)
    return tensor if size > 0 and tensor.raw_data and len(tensor.raw_data) % size == 0 else None


def _part(tensor: TensorProto, index: tuple[Any, ...]) -> np.ndarray[Any, Any] | None:
    """Return the bytes of a part, as elements without a meaning."""
    itemsize = len(tensor.raw_data) // prod(tensor.dims)
    whole = np.frombuffer(tensor.raw_data, f"V{itemsize}").reshape(tuple(tensor.dims))
    try:
        part = np.ascontiguousarray(whole[index]).reshape(np.shape(whole[index]))
    except IndexError:
        return None
    return part if part.size > 0 else None


def _constant(node: Node, tensor: TensorProto, part: np.ndarray[Any, Any]) -> NodeProto:
    """Return the part under the name of the slice."""
    made = NodeProto(op_type="Constant", name=name_of(node), output=[name_of(node)])
    value = made.attribute.add(name="value", type=AttributeProto.TENSORS)
    value.tensors.add(dims=part.shape, data_type=tensor.data_type, name=tensor.name, raw_data=part.tobytes())
    return made


def _scale_behind_reshape(graph: MindIRGraph) -> list[Entry]:
    """Change the places of a product with a number that has no other use, and the reshape behind it."""
    users = graph.graph.users()
    # In front of a linear layer there is no softmax, but perhaps an activation, of which the factor is a part.
    rows = {id(i) for node in graph.graph.nodes if node.kind in ("MatMul", "Dense") for i in node.inputs}
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        product = node.inputs[0] if node.kind == "Reshape" and node.inputs and id(node) not in rows else None
        if product is None or product.kind not in ("Mul", "Muls") or users[id(product)] != 1:
            continue
        same_dtype = node.dtype and product.inputs[0].dtype == node.dtype
        if len(product.inputs) != 2 or not _is_number(product.inputs[1]) or not same_dtype:
            continue
        if graph.may_be_written(product.inputs[0]):
            continue
        reshape, scaled = NodeProto(), NodeProto()
        reshape.CopyFrom(node.origin)
        scaled.CopyFrom(product.origin)
        reshape.input[0] = name_of(product.inputs[0])
        reshape.name = reshape.output[0] = scaled.input[0] = graph.unused(f"{name_of(node)}_unscaled")
        scaled.name = scaled.output[0] = name_of(node)
        del scaled.attribute[:]
        scaled.attribute.extend(node.origin.attribute)
        made += [reshape, scaled]
    if made:
        graph.put(made)
    return []


def _is_number(node: Node) -> bool:
    value = node.value if node.kind == CONSTANT else None
    return isinstance(value, (int, float)) or (isinstance(value, np.ndarray) and value.shape == ())


def _join_reshapes(graph: MindIRGraph) -> list[Entry]:
    """Let a reshape of a reshape begin with what the first one got, and leave out those that change nothing.

    Of open sizes, where a target may have to be calculated; others cost nothing.
    """
    reshapes = [n for n in graph.graph.nodes if n.kind == "Reshape" and n.inputs and -1 in (n.shape or ())]
    for node in reshapes:
        before = node.inputs[0]
        if before.kind == "Reshape" and before.inputs and not graph.may_be_written(before.inputs[0]):
            node.inputs = (before.inputs[0], *node.inputs[1:])
            node.origin.input[0] = name_of(before.inputs[0])
    graph.put([])
    sizes = Sizes(graph.graph)
    kept = outputs_of(graph)
    instead: dict[int, Node] = {}
    for node in reshapes:
        shape, now = sizes.shape(node.inputs[0]), sizes.shape(node)
        if id(node) in kept or graph.may_be_written(node.inputs[0]):
            continue
        if shape is not None and now is not None and sizes.same(shape, now):
            instead[id(node)] = node.inputs[0]
    graph.redirect(instead)
    return []


def _share_sizes(graph: MindIRGraph) -> list[Entry]:
    """Let a graph take each size, and each tuple of sizes, from where it first has it: all are launches."""
    sizes = Sizes(graph.graph)
    first: dict[Hashable, Node] = {}
    instead: dict[int, Node] = {}
    for node in graph.graph.nodes:
        numbers = sizes.numbers(node) if node.kind != CONSTANT else None
        parts = numbers if isinstance(numbers, tuple) else (numbers,)
        if all(isinstance(part, Size) for part in parts):
            earlier = first.setdefault(numbers, node)
            if earlier is not node:
                instead[id(node)] = earlier
    graph.redirect(instead)
    return []


_CHANGES = (
    _drop_unused,
    write_apart,
    functionalize,
    _leave_out,
    _fold_slices,
    _scale_behind_reshape,
    scale_first,
    _share_sizes,
)
