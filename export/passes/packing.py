"""Joins two linear layers of one input whose results gate each other to one product of matrices in a MindIR (level O3).

    silu(x @ gate.T) * (x @ up.T)  ->  swiglu(x @ [gate; up].T)

The weights become one parameter of the file, of twice the rows; the network that the file came from keeps its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mindspore.train.mind_ir_pb2 import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from ms_ascend_ops.export.files.model import graphs
from ms_ascend_ops.export.graphs.graph import CONSTANT, PARAMETER, Graph, Node
from ms_ascend_ops.export.matching.find import Found

__all__ = ["PACKED_OPS", "Linear", "Packed", "Uses", "join", "linear_layer", "pack", "set_dim"]

# The first operator takes gate and up, the second one tensor that holds both, with its attributes.
PACKED_OPS = {
    "silu_mul": ("swiglu", {"axis": -1, "interleaved": False}),
    "gelu_mul": ("geglu", {"axis": -1, "activate_left": True}),
}


@dataclass(frozen=True, eq=False)
class Linear:
    """Describes [reshape of] a product with a transposed weight that the graph holds as a parameter."""

    product: Node
    load: Node
    weight: TensorProto
    reshape: Node | None


@dataclass(frozen=True, eq=False)
class Packed:
    """Describes a place where gate and up come from one product now."""

    product: Node
    reshape: Node | None
    note: str


class Uses:
    """Says which nodes use what, in all graphs of a file."""

    def __init__(self, model: ModelProto) -> None:
        kinds = {p.name: p.op_type for p in model.primitives}
        self.by: dict[str, list[tuple[str, str]]] = defaultdict(list)  # name: kind and name of each user
        self.outputs: Counter[str] = Counter()
        for graph in graphs(model):
            self.outputs.update(output.name for output in graph.output)
            for node in graph.node:
                for name in node.input:
                    kind = kinds.get(node.op_type.removeprefix("REF::"), node.op_type)
                    self.by[name].append((kind, node.output[0]))

    def only(self, name: str, user: str) -> bool:
        """Tell whether this is the one use of a value, besides those that keep the order of side effects."""
        others = [(kind, by) for kind, by in self.by[name] if by != user]
        return not self.outputs[name] and all(self._is_order(kind, by) for kind, by in others)

    def _is_order(self, kind: str, name: str) -> bool:
        tuples = kind in ("MakeTuple", "make_tuple") and not self.outputs[name]
        return kind == "UpdateState" or (tuples and all(k == "UpdateState" for k, _ in self.by[name]))


def pack(model: ModelProto, proto: GraphProto, graph: Graph, found: Iterable[Found]) -> dict[int, Packed]:
    """Join the layers in front of those places where that can be done; by the id of the place.

    The protobuf holds the joined weight and product afterwards; the place itself is still to be replaced.
    """
    uses = Uses(model)
    parameters = {p.name: p for p in proto.parameter}
    users = graph.users()
    packed = {}
    for item in found:
        if item.fused.op not in PACKED_OPS:
            continue
        layers = [linear_layer(node, parameters, uses, users) for node in item.inputs]
        gate, up = (_with_its_reshape(layer, item.moved.get(place)) for place, layer in enumerate(layers))
        if gate is None or up is None or not _alike(gate, up):
            continue
        join(proto, (gate, up))
        del parameters[gate.weight.name], parameters[up.weight.name]
        packed[id(item)] = Packed(gate.product, gate.reshape, "gate and up by one product, with one weight in the file")
    return packed


def _with_its_reshape(layer: Linear | None, moved: Node | None) -> Linear | None:
    """Return the layer with the reshape that stood behind its activation."""
    if moved is None or layer is None:
        return layer
    return replace(layer, reshape=moved) if moved.kind == "Reshape" and layer.reshape is None else None


def linear_layer(node: Node, parameters: dict[str, TensorProto], uses: Uses, users: Counter[int]) -> Linear | None:
    """Return the layer whose result a node is, if its weight has no other use and its result has one user."""
    reshape = None
    if node.kind == "Reshape":
        reshape, node = node, node.inputs[0]
    if node.kind != "MatMul" or [i.value for i in node.inputs[2:]] not in ([], [False, True]):
        return None
    if len(node.inputs) == 2 and (node.attributes.get("transpose_a"), node.attributes.get("transpose_b")) != (0, 1):
        return None
    load = node.inputs[1]
    if load.kind != "Load" or load.inputs[0].kind != PARAMETER or any(users[id(n)] != 1 for n in (node, reshape) if n):
        return None
    weight = parameters.get(load.inputs[0].origin)
    if weight is None or not weight.raw_data or len(weight.dims) != 2:  # in a file of its own, or joined already
        return None
    if not uses.only(load.name, node.name) or [by for _, by in uses.by[weight.name]] != [load.name]:
        return None
    return Linear(node, load, weight, reshape)


def _alike(a: Linear, b: Linear) -> bool:
    """Tell whether one product can give both: of the same input, into as many features, reshaped in the same way."""
    same = a.product.inputs[0] is b.product.inputs[0] and a.product is not b.product
    weights = list(a.weight.dims) == list(b.weight.dims) and a.weight.data_type == b.weight.data_type
    whole = len(a.weight.raw_data) == len(b.weight.raw_data) and a.weight.quant_params == b.weight.quant_params
    if (a.reshape is None) != (b.reshape is None):
        return False
    if a.reshape is not None and b.reshape is not None:
        target, other = a.reshape.inputs[1], b.reshape.inputs[1]
        equal = target.kind == other.kind == CONSTANT and target.value == other.value
        if target is not other and not equal:
            return False
        # The features stay the last axis.
        if not a.reshape.shape or a.reshape.shape[-1] != a.weight.dims[0]:
            return False
    return same and weights and whole


def join(proto: GraphProto, layers: Sequence[Linear]) -> None:
    """Put the joined weight and the first layer's product into the protobuf. The weight has the names of all."""
    columns = layers[0].weight.dims[1]
    rows = sum(layer.weight.dims[0] for layer in layers)
    prefix, _, _ = layers[0].weight.name.rpartition(":")
    name = "+".join(layer.weight.name.rpartition(":")[2] for layer in layers)
    joined = TensorProto()
    joined.CopyFrom(layers[0].weight)
    joined.name = f"{prefix}:{name}" if prefix else name
    joined.ref_key = name
    joined.dims[:] = [rows, columns]
    joined.raw_data = b"".join(layer.weight.raw_data for layer in layers)
    gone = {layer.weight.name for layer in layers}
    kept = [p for p in proto.parameter if p.name not in gone]
    del proto.parameter[:]
    proto.parameter.extend([*kept, joined])
    for layer in layers:
        layer.load.origin.input[0] = joined.name
        set_dim(layer.load.origin, 0, rows)
    set_dim(layers[0].product.origin, -1, rows)


def set_dim(node: NodeProto, axis: int, size: int) -> None:
    """Change one dim of the described output of a node."""
    for attribute in node.attribute:
        if attribute.name == "shape" and attribute.type in (AttributeProto.TENSORS, AttributeProto.TENSOR):
            for tensor in attribute.tensors:
                tensor.dims[axis] = size
