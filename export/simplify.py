"""What makes a MindIR simpler before patterns are looked for, and changes no bit of what it calculates.

    mask[:128, :128]  ->  a constant

The part of a causal mask or of a table that a length needs: MindSpore slices at every call, on a CPU element by
element.

    keys[:, :, None]  ->  keys.expand_dims(2)

MindSpore writes a new axis as an axis and a slice of everything, which is a copy, on a CPU a slow one: those of the
keys and values that grouped heads share took a quarter of a prefill.

    (scores * 0.125).reshape(shape)  ->  scores.reshape(shape) * 0.125

So the factor stands where a softmax takes it along.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto, TensorProto
from ms_ascend_ops.export.graph import CONSTANT, Node
from ms_ascend_ops.export.mindir_graph import MindIRGraph, decode_constant, graphs_of, name_of, names_used_by_several
from ms_ascend_ops.export.model import graphs
from ms_ascend_ops.export.report import Entry

__all__ = ["simplify"]

_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
_MOST_BYTES = 2**24  # larger ones stay: each is a constant of its own in the file


def simplify(model: ModelProto) -> list[Entry]:
    """Simplify every graph of a model. Returns what a report says of it."""
    decoded = graphs_of(model)
    entries = [entry for graph in decoded for entry in _drop_whole_slices(graph)]
    entries += [entry for graph in decoded for entry in _fold_slices(graph)]
    shared = names_used_by_several(graphs(model))
    for graph in decoded:
        graph.shared = shared  # without the tables that graphs had in common before they were sliced
        _scale_behind_reshape(graph)
    return entries


def _drop_whole_slices(graph: MindIRGraph) -> list[Entry]:
    """Leave out slices that take everything, as indexing with None and colons writes them: each is a copy."""
    kept = {id(node) for node in graph.graph.outputs}
    instead: dict[int, Node] = {}
    entries: list[Entry] = []
    for node in graph.graph.nodes:
        taken = [instead.get(id(i), i) for i in node.inputs]
        for place, (before, now) in enumerate(zip(node.inputs, taken, strict=True)):
            if before is not now:
                node.origin.input[place] = name_of(now)
        node.inputs = tuple(taken)
        if _takes_everything(node) and id(node) not in kept:
            instead[id(node)] = node.inputs[0]
            entries.append(Entry(graph.name, "slice of everything", "mindir", True, "left out"))
    if instead:
        graph.put([])
    return entries


def _takes_everything(node: Node) -> bool:
    if node.kind != "StridedSlice" or len(node.inputs) < 4 or node.inputs[0].shape is None:
        return False
    index, shape = _index(node), node.inputs[0].shape
    return (
        index is not None
        and len(index) <= len(shape)
        and all(isinstance(i, slice) and _is_whole(i, dim) for i, dim in zip(index, shape, strict=False))
    )


def _is_whole(part: slice, dim: int) -> bool:
    """Of an axis with so many elements; -1: nobody knows how many."""
    return part.start in (None, 0) and part.step == 1 and (part.stop is None or 0 <= dim <= part.stop)


def _fold_slices(graph: MindIRGraph) -> list[Entry]:
    """Put constants where constants are sliced."""
    entries: list[Entry] = []
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        tensor = _tensor(node.inputs[0]) if node.kind == "StridedSlice" and len(node.inputs) >= 4 else None
        index = _index(node) if tensor is not None else None
        if tensor is None or index is None:
            continue
        part = _part(tensor, index)
        if part is not None and part.nbytes <= _MOST_BYTES and node.shape in (None, part.shape):
            made.append(_constant(node, tensor, part))
            before = "x".join(map(str, tensor.dims))
            after = "x".join(map(str, part.shape))
            entries.append(Entry(graph.name, "slice of a constant", "mindir", True, f"{before} to {after}, a constant"))
    if made:
        graph.put(made)
    for constant in made:  # the factor of a product may be one of them
        vars(graph.nodes[constant.output[0]]).update(vars(decode_constant(constant)))
    return entries


def _tensor(node: Node) -> TensorProto | None:
    """The one tensor that a constant is, with its values."""
    if node.kind != CONSTANT or not isinstance(node.origin, NodeProto) or len(node.origin.attribute) != 1:
        return None
    value = node.origin.attribute[0]
    if value.type != AttributeProto.TENSORS or len(value.tensors) != 1:
        return None
    tensor = value.tensors[0]
    size = prod(tensor.dims)
    return tensor if size > 0 and tensor.raw_data and len(tensor.raw_data) % size == 0 else None


def _index(node: Node) -> tuple[Any, ...] | None:
    """What a StridedSlice takes, as NumPy writes it; None: that is not known, or it adds axes or leaves some out."""
    numbers = [_numbers(i) for i in node.inputs[1:4]]
    masks = dict(zip(_MASKS, (i.value for i in node.inputs[4:9]), strict=False))
    masks = {name: masks.get(name, node.attributes.get(name, 0)) for name in _MASKS}
    # Indexing in Python makes no slices with an ellipsis or new axes; MindSpore's elements of those on a CPU are others
    # than NumPy's.
    if not all(isinstance(m, int) for m in masks.values()) or masks["ellipsis_mask"] or masks["new_axis_mask"]:
        return None
    if not numbers[0] or len({len(n) for n in numbers}) != 1 or 0 in numbers[2]:
        return None
    index: list[Any] = []
    for axis, (first, last, step) in enumerate(zip(*numbers, strict=True)):
        from_first, to_last = masks["begin_mask"] >> axis & 1, masks["end_mask"] >> axis & 1
        if masks["shrink_axis_mask"] >> axis & 1:
            if from_first:  # MindSpore takes the first element then, on a CPU
                return None
            index.append(first)
        else:
            index.append(slice(None if from_first else first, None if to_last else last, step))
    return tuple(index)


def _numbers(node: Node) -> tuple[int, ...]:
    """A tuple of numbers that a constant is; or nothing."""
    value = node.value if node.kind == CONSTANT else None
    return value if isinstance(value, tuple) and all(isinstance(n, int) for n in value) else ()


def _part(tensor: TensorProto, index: tuple[Any, ...]) -> np.ndarray[Any, Any] | None:
    """The bytes of a part, as elements without a meaning."""
    itemsize = len(tensor.raw_data) // prod(tensor.dims)
    whole = np.frombuffer(tensor.raw_data, f"V{itemsize}").reshape(tuple(tensor.dims))
    try:
        part = np.ascontiguousarray(whole[index]).reshape(np.shape(whole[index]))
    except IndexError:
        return None
    return part if part.size > 0 else None


def _constant(node: Node, tensor: TensorProto, part: np.ndarray[Any, Any]) -> NodeProto:
    """The part under the name of the slice."""
    made = NodeProto(op_type="Constant", name=name_of(node), output=[name_of(node)])
    value = made.attribute.add(name="value", type=AttributeProto.TENSORS)
    value.tensors.add(dims=part.shape, data_type=tensor.data_type, name=tensor.name, raw_data=part.tobytes())
    return made


def _scale_behind_reshape(graph: MindIRGraph) -> None:
    """Change the places of a product with a number, which nobody else uses, and the reshape behind it."""
    users = graph.graph.users()
    made: list[NodeProto] = []
    for node in graph.graph.nodes:
        product = node.inputs[0] if node.kind == "Reshape" and node.inputs else None
        if product is None or product.kind not in ("Mul", "Muls") or users[id(product)] != 1:
            continue
        same_dtype = node.dtype and product.inputs[0].dtype == node.dtype
        if len(product.inputs) != 2 or not _is_number(product.inputs[1]) or not same_dtype:
            continue
        reshape, scaled = NodeProto(), NodeProto()
        reshape.CopyFrom(node.origin)
        scaled.CopyFrom(product.origin)
        reshape.input[0] = name_of(product.inputs[0])
        reshape.name = reshape.output[0] = scaled.input[0] = f"{name_of(node)}_unscaled"
        scaled.name = scaled.output[0] = name_of(node)
        del scaled.attribute[:]
        scaled.attribute.extend(node.origin.attribute)
        made += [reshape, scaled]
    if made:
        graph.put(made)


def _is_number(node: Node) -> bool:
    return node.kind == CONSTANT and (node.value is not None and np.shape(node.value) == ())
