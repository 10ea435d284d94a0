"""Reads the graphs of a MindIR file as `Graph`, and puts fused operators into the file."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from mindspore.train.mind_ir_pb2 import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    PrimitiveProto,
    TensorProto,
)
from ms_ascend_ops.export.files.model import graphs
from ms_ascend_ops.export.files.retarget import write_fused
from ms_ascend_ops.export.graphs.graph import CONSTANT, INPUT, PARAMETER, Graph, Node
from ms_ascend_ops.export.graphs.mindir_nodes import (
    attributes_of,
    constant,
    read_nodes,
    used_by_several,
    uses,
    values_of,
)
from ms_ascend_ops.export.graphs.writes import Writes
from ms_ascend_ops.export.matching.find import Found, Place
from ms_ascend_ops.export.matching.rows import Mask
from ms_ascend_ops.export.passes.packing import PACKED_OPS, Packed

from ms_ascend_ops import registry
from ms_ascend_ops.custom import FusedPrimitive
from ms_ascend_ops.definitions.inference import infer_shapes, infer_types

__all__ = ["MindIRGraph", "graphs_of", "name_of", "outputs_of"]

_NAMES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}

# So many nodes around a place are looked at for the name of its layer.
_NEAR = 300

# Nodes that keep their inputs alive though their output is unused.
_SIDE_EFFECTS = frozenset({"UpdateState", "Assign", "AssignAdd", "AssignSub", "Print"})


def _layer(parameter: Node) -> str:
    return str(parameter.name.rpartition(".")[0] or parameter.name)


def name_of(node: Node) -> str:
    """Return what a value is called in the file."""
    return str(node.origin.output[0] if isinstance(node.origin, NodeProto) else node.origin or node.name)


def outputs_of(graph: MindIRGraph) -> set[int]:
    """Return what leaves a graph, by id: MindSpore takes no parameter for that."""
    kept: set[int] = set()
    for output in graph.graph.outputs:
        node = output
        kept.add(id(node))
        while node.kind == "Depend" and node.inputs:
            node = node.inputs[0]
            kept.add(id(node))
    return kept


def graphs_of(model: ModelProto) -> list[MindIRGraph]:
    """Return the main graph and those that it calls, each for itself: what one uses of another is an input to it."""
    file = _File(model)
    outside = {n.output[0]: constant(n) for proto in graphs(model) for n in proto.node if n.op_type == "Constant"}
    made = []
    for proto in graphs(model):
        made.append(MindIRGraph(proto, file, outside))
        outside.update(
            {name: Node(INPUT, (), name, n.shape, n.dtype) for name, n in made[-1].nodes.items() if n.kind != CONSTANT}
        )
    return made


class _File:
    """Hold what the graphs of a MindIR have in common."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.primitives = {p.name: p for p in model.primitives}
        self.attributes = {p.name: attributes_of(p) for p in model.primitives}
        self.shared = used_by_several(graphs(model))
        self.writes = Writes(model)
        self.names = {name for proto in graphs(model) for name in values_of(proto)}


class MindIRGraph:
    """Holds one graph of a MindIR, and what is needed to change it."""

    def __init__(self, proto: GraphProto, file: _File, outside: Mapping[str, Node]) -> None:
        self.proto, self.model, self._file = proto, file.model, file
        self._fused: dict[tuple[Any, ...], tuple[str, FusedPrimitive]] = {}
        self._flags: dict[bool, NodeProto] = {}
        self._masks: dict[tuple[str, Mask], str] = {}
        self.nodes, order = read_nodes(proto, file.primitives, file.attributes, outside)
        shared = [self.nodes[name] for name in file.shared if name in self.nodes]
        self.graph = Graph(order, [self.nodes[o.name] for o in proto.output] + shared)

    @property
    def name(self) -> str:
        """Return the name of the graph without the numbers that MindSpore puts around it."""
        return str(self.proto.name).strip("_0123456789").removesuffix("_construct") or str(self.proto.name)

    def may_be_written(self, node: Node) -> bool:
        """Tell whether the output of a node may be written while the graph runs (writes.py): its readers stay then."""
        return name_of(node) in self._file.writes

    def is_ever_written(self, node: Node) -> bool:
        """Tell whether the output of a node may be written at all, before it is read or behind that."""
        return self._file.writes.at_all(name_of(node))

    def writers_of(self, node: Node) -> frozenset[str] | None:
        """Return the nodes, by name, that may write the memory in which a node's output lies; None: unknown."""
        return self._file.writes.writers(name_of(node))

    def is_new(self, node: Node) -> bool:
        """Tell whether the output of a node lies in memory of its own."""
        return self._file.writes.is_own(name_of(node))

    def unused(self, name: str) -> str:
        """Return a name that no value of the file has, and mark it as taken."""
        while name in self._file.names:
            name += "_"
        self._file.names.add(name)
        return name

    def flag(self, value: bool) -> NodeProto:
        """Add a constant True or False."""
        made = self._flags.get(value)
        if made is None:
            name = self.unused(f"{self.proto.name}:{value}")
            made = self._flags[value] = NodeProto(op_type="Constant", name=name, output=[name])
            made.attribute.add(name="value", type=AttributeProto.BOOL, i=int(value))
        return made

    def constant(self, value: float) -> NodeProto:
        """Add a constant number: an int as such, a float as a tensor without axes."""
        name = self.unused(f"{self.proto.name}:number")
        made = NodeProto(op_type="Constant", name=name, output=[name])
        if isinstance(value, int):
            made.attribute.add(name="value", i=value, type=AttributeProto.INT64)
        else:
            tensor = made.attribute.add(name="value", type=AttributeProto.TENSORS).tensors.add()
            tensor.data_type, tensor.name, tensor.raw_data = TensorProto.FLOAT, name, np.float32(value).tobytes()
        return made

    def _filled(self, value: float, shape: tuple[int, ...]) -> NodeProto:
        """Add a constant tensor of one number."""
        made = self.constant(float(value))
        tensor = made.attribute[0].tensors[0]
        tensor.dims.extend(shape)
        tensor.raw_data = np.full(shape, value, np.float32).tobytes()
        return made

    def numbers(self, values: Iterable[int]) -> NodeProto:
        """Add a constant tuple of numbers."""
        name = self.unused(f"{self.proto.name}:numbers")
        made = NodeProto(op_type="Constant", name=name, output=[name])
        value = made.attribute.add(name="value", type=AttributeProto.TUPLE)
        for number in values:
            value.values.add(type=AttributeProto.INT64).ints.append(number)
        return made

    def place_of(self, found: Found | Place) -> str:
        """Return where something is, for the reader: the layer whose vectors it takes, or the last layer before it."""
        if isinstance(found, Found):
            for node in found.inputs:
                while node.kind in ("Load", "Cast", "Reshape") and node.inputs:
                    node = node.inputs[0]  # noqa: PLW2901
                if node.kind == PARAMETER and len(node.shape or ()) <= 1:
                    return _layer(node)
        stack: list[Node] = [found.root]
        seen: set[int] = set()
        while stack and len(seen) < _NEAR:  # level by level: what is nearest comes first
            node = stack.pop(0)
            if id(node) in seen or node.kind == "UpdateState":
                continue
            seen.add(id(node))
            if node.kind == PARAMETER:
                return f"after {_layer(node)}"
            # The weights of a layer come before what it is computed from.
            loaded = [i.inputs[0] if i.kind == "Load" else i for i in node.inputs]
            stack = [*(i for i in loaded if i.kind == PARAMETER), *stack, *node.inputs]
        return str(found.root.name.rpartition("_construct_")[2] or found.root.name)

    def replace(self, found: Iterable[Found], packed: Mapping[int, Packed] | None = None) -> None:
        """Put the fused operators in, and eliminate dead nodes."""
        made: list[NodeProto] = []
        for number, item in enumerate(found):
            join = (packed or {}).get(id(item))
            made += self._packed_nodes(item, join, number) if join else self._nodes_for(item, number)
        self.put(made)

    def redirect(self, instead: Mapping[int, Node]) -> None:
        """Let those that use a node, given by its id, use another one, and eliminate dead nodes."""
        if not instead:
            return
        last: dict[int, Node] = {}  # what is used instead may not be used itself
        for node in self.graph.nodes:
            inputs = tuple(last.get(id(taken), taken) for taken in node.inputs)
            for place, now in enumerate(inputs):
                if now is not node.inputs[place]:
                    self._use(node.origin, place, now)
            node.inputs = inputs
            if id(node) in instead:
                now = instead[id(node)]
                last[id(node)] = last.get(id(now), now)
        self.put([])

    @staticmethod
    def _use(proto: NodeProto, place: int, value: Node) -> None:
        """Let a node take another value; behind its inputs is the function that it calls."""
        if place < len(proto.input):
            proto.input[place] = name_of(value)
        else:
            proto.op_type = f"REF::{name_of(value)}"

    def put(self, made: Iterable[NodeProto], without: Container[str] = ()) -> None:
        """Put nodes in, each in the place of the one that had its output, and eliminate dead nodes.

        `without`: outputs of nodes with side effects that are dead, too.
        """
        protos = {node.output[0]: node for node in self.proto.node if node.output[0] not in without}
        protos |= {node.output[0]: node for node in made}
        ordered = self._ordered(protos)
        del self.proto.node[:]
        self.proto.node.extend(ordered)

    def _nodes_for(self, found: Found, number: int) -> list[NodeProto]:
        fused = found.fused
        described = self.described(fused.op, fused.attributes, *fused.taken())
        inputs, made = [name_of(i) for i in found.inputs], []
        for place, via in found.moved.items():
            moved = NodeProto()
            moved.CopyFrom(via.origin)
            moved.input[0] = inputs[place]
            inputs[place] = moved.name = moved.output[0] = self.unused(f"{via.origin.name}_moved")
            made.append(moved)
        like = found.root.origin
        for place in fused.lifts():
            axis, value = self.constant(0), fused.inputs[place]
            lifted = self._node("ExpandDims", [inputs[place], axis.name], (1, *(value.shape or ())), like, value.dtype)
            inputs[place] = lifted.name
            made += [axis, lifted]
        for place, mask in fused.masks.items():
            inputs[place], nodes = self._mask(found.inputs[place], mask, like)
            made += nodes
        for filler in fused.filled:
            made.append(self._filled(filler, (fused.inputs[0].shape or (1,))[-fused.filled_axes :]))
            inputs.append(made[-1].name)
        made += self.operator(fused.op, fused.attributes, inputs, described, found.outputs, like, number)
        return [*made, *self._lowered(made[-1])] if fused.lifted else made

    def _lowered(self, item: NodeProto) -> list[NodeProto]:
        """Let the first output of an operator have its name without the leading axis of one element."""
        axis, described, name = self.numbers([0]), item.attribute[0].tensors[0], item.output[0]
        lowered = self._node("Squeeze", [f"{name}_lifted", axis.name], described.dims, item)
        lowered.attribute[0].CopyFrom(item.attribute[0])
        described.dims[:] = [1, *described.dims]
        item.output[0] = item.name = lowered.input[0] = self.unused(lowered.input[0])
        lowered.output[0] = lowered.name = name
        return [axis, lowered]

    def _mask(self, value: Node, mask: Mask, like: NodeProto) -> tuple[str, list[NodeProto]]:
        """Return the name of the mask that a value becomes, and the nodes that make it where they are not there yet."""
        key, made = (name_of(value), mask), []
        if key not in self._masks:
            name, shape = name_of(value), value.shape or ()
            if mask.negative:
                made.append(self._node("Neg", [name], shape, like, value.dtype))
                name = made[-1].name
            if mask.hidden is not None:
                numbers = [self.constant(number) for number in ((-np.inf, 0.0) if mask.hidden else (0.0, -np.inf))]
                made += [*numbers, self._node("Select", [name, *(n.name for n in numbers)], shape, like)]
                name = made[-1].name
            while len(shape) < mask.rank:
                shape = (1, *shape)
                axis = self.constant(0)
                made += [axis, self._node("ExpandDims", [name, axis.name], shape, like, mask.dtype(value.dtype))]
                name = made[-1].name
            self._masks[key] = name
        return self._masks[key], made

    def _node(
        self, kind: str, inputs: Sequence[str], shape: Sequence[int], like: NodeProto, dtype: str = "float32"
    ) -> NodeProto:
        """Make a node of MindSpore's, in the place in the code of `like`."""
        name = self.unused(f"{self.proto.name}:{kind}")
        made = NodeProto(
            op_type=f"REF::{self.by_type(kind, function=True)}",
            input=inputs,
            output=[name],
            name=name,
            domain=f"{like.domain.rpartition('/')[0]}/{kind}-{name}",
            node_attr=like.node_attr,
        )
        described = made.attribute.add(name="shape", type=AttributeProto.TENSORS)
        described.tensors.append(TensorProto(dims=shape, data_type=_NAMES[dtype]))
        return made

    def operator(
        self,
        op: str,
        attributes: Mapping[str, Any],
        inputs: Sequence[str],
        described: Sequence[TensorProto],
        outputs: Mapping[int, Node],
        like: NodeProto,
        number: int,
    ) -> list[NodeProto]:
        """Make a fused operator, its outputs under the names of what they replace, in the place in the code of
        `like`.
        """
        name = self.unused(f"{self.proto.name}:{op}_{number}") if len(described) > 1 else outputs[0].origin.output[0]
        kind, tensors = self._primitive(op, attributes, inputs)
        made = NodeProto(
            op_type=f"REF::{kind}",
            input=tensors,
            output=[name],
            name=name,
            domain=f"{like.domain.rpartition('/')[0]}/Custom-{op}{number}",
            node_attr=like.node_attr,
        )
        shape = made.attribute.add(name="shape")
        if len(described) == 1:
            shape.type = AttributeProto.TENSORS
            shape.tensors.append(described[0])
            return [made]
        shape.type = AttributeProto.TUPLE
        shape.seq_info.is_dyn_len = False
        for tensor in described:
            shape.values.add(type=AttributeProto.TENSORS).tensors.append(tensor)
        return [made, *self.items(made, outputs)]

    def _packed_nodes(self, found: Found, join: Packed, number: int) -> list[NodeProto]:
        """Make the operator right behind the joined product, and then the reshape that each of the two had."""
        op, attributes = PACKED_OPS[found.fused.op]
        attributes = registry.signature(op).check_attributes({**attributes, **found.fused.attributes})
        root, product = found.root.origin, join.product
        name = self.unused(f"{self.proto.name}:{op}_{number}") if join.reshape else root.output[0]
        kind, tensors = self._primitive(op, attributes, [product.origin.output[0]])
        made = NodeProto(
            op_type=f"REF::{kind}",
            input=tensors,
            output=[name],
            name=name,
            domain=f"{root.domain.rpartition('/')[0]}/Custom-{op}{number}",
            node_attr=root.node_attr,
        )
        described = made.attribute.add(name="shape", type=AttributeProto.TENSORS)
        described.tensors.append(TensorProto(dims=product.shape, data_type=_NAMES[product.dtype]))
        if join.reshape is None:
            return [made]
        reshape = NodeProto()
        reshape.CopyFrom(join.reshape.origin)
        reshape.input[0] = name
        reshape.output[0] = reshape.name = root.output[0]
        return [made, reshape]

    def items(self, tuple_node: NodeProto, values: Mapping[int, Node]) -> Iterable[NodeProto]:
        """Make TupleGetItem nodes under the names of the values that they replace."""
        getter = self.by_type("TupleGetItem")
        for index, value in values.items():
            position = NodeProto(op_type="Constant", name=self.unused(f"{tuple_node.name}_index_{index}"))
            position.output.append(position.name)
            position.attribute.add(name="value", i=index, type=AttributeProto.INT64)
            yield position
            old = value.origin
            item = NodeProto(
                op_type=f"REF::{getter}",
                input=[tuple_node.output[0], position.name],
                output=old.output,
                name=old.name,
                domain=f"{old.domain.rpartition('/')[0]}/TupleGetItem-{old.name}",
                node_attr=old.node_attr,
            )
            item.attribute.extend(a for a in old.attribute if a.name == "shape")
            yield item

    def depend(self, value: Node, kept: Node, others: Iterable[Node]) -> list[NodeProto]:
        """Make nodes that give `kept` the name of `value`, after `others` have been computed."""
        old = value.origin
        name = self.unused(f"{old.output[0]}_after")
        after = NodeProto(
            op_type=f"REF::{self.by_type('MakeTuple')}",
            input=[name_of(i) for i in [kept, *others]],
            output=[name],
            name=name,
            domain=old.domain,
        )
        made = NodeProto(
            op_type=f"REF::{self.by_type('Depend')}",
            input=[name_of(kept), after.output[0]],
            output=old.output,
            name=old.name,
            domain=old.domain,
            node_attr=old.node_attr,
        )
        made.attribute.extend(a for a in old.attribute if a.name == "shape")
        return [after, made]

    @staticmethod
    def described(
        op: str, attributes: Mapping[str, Any], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]
    ) -> list[TensorProto]:
        """Return what an operator gives for inputs of these shapes and dtypes.

        Raises:
            TypeError: it has no kernel for the dtypes.
            ValueError: it does not take the shapes.
        """
        signature = registry.signature(op)
        absent = [None] * (len(signature.inputs) - len(shapes))
        sizes = infer_shapes(signature, [*shapes, *absent], signature.check_attributes(attributes))
        names = infer_types(signature, [*dtypes, *absent])
        return [TensorProto(dims=s, data_type=_NAMES[n]) for s, n in zip(sizes, names, strict=True)]

    def _primitive(self, op: str, attributes: Mapping[str, Any], inputs: Sequence[str]) -> tuple[str, list[str]]:
        """Return the name of the Custom primitive with these attributes, as MindSpore itself writes it, and
        what it takes.

        Optional inputs behind those that are given are absent: on an NPU others take their places.
        """
        signature = registry.signature(op)
        absent = {f"has_{tensor.name}": False for tensor in signature.inputs[len(inputs) :] if tensor.optional}
        attributes = signature.check_attributes(attributes) | absent
        key = (op, *attributes.items())
        if key not in self._fused:
            live = FusedPrimitive(signature, dict(attributes), None)
            primitive = self.model.primitives.add(
                name=f"Custom:{op}:{len(self.model.primitives)}", op_type="Custom", prim_type=1, instance_name=""
            )
            write_fused(primitive, live)
            self._fused[key] = primitive.name, live
        name, live = self._fused[key]
        given = dict(zip((tensor.name for tensor in signature.inputs), inputs, strict=False))
        return name, [given[tensor] for tensor in live.takes]

    def by_type(self, op_type: str, *, function: bool = False) -> str:
        """Return the name of a primitive without attributes.

        `function`: its arguments are all inputs, as MindSpore has it.
        """
        kind = PrimitiveProto.PRIMITIVE_FUNCTION if function else PrimitiveProto.PRIMITIVE
        for primitive in self.model.primitives:
            if primitive.op_type == op_type and primitive.prim_type == kind and not primitive.attribute:
                return str(primitive.name)
        name = f"{op_type}:{len(self.model.primitives)}"
        self.model.primitives.add(name=name, op_type=op_type, prim_type=kind, instance_name="")
        return name

    def _ordered(self, protos: Mapping[str, NodeProto]) -> list[NodeProto]:
        """Return the nodes that are needed, each after its inputs, otherwise in the order in which they were."""
        kinds = {p.name: p.op_type for p in self.model.primitives}
        roots = [o.name for o in self.proto.output] + sorted(self._file.shared & set(protos))
        roots += [n for n, p in protos.items() if kinds.get(p.op_type.removeprefix("REF::"), "") in _SIDE_EFFECTS]
        done: dict[str, NodeProto] = {}
        begun: set[str] = set()
        needed = _reachable(roots, protos)
        for start in protos:
            stack = [start] if start in needed else []
            while stack:
                name = stack[-1]
                missing = [i for i in uses(protos[name]) if i in protos and i not in done] if name not in done else []
                if missing and name in begun:
                    raise ValueError(f"optimize_mindir: in the graph {self.proto.name} {name} needs itself")
                if missing:
                    begun.add(name)
                    stack.extend(missing)
                    continue
                stack.pop()
                done.setdefault(name, protos[name])
        return list(done.values())


def _reachable(roots: Iterable[str], protos: Mapping[str, NodeProto]) -> set[str]:
    seen: set[str] = set()
    stack = [name for name in roots if name in protos]
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(i for i in uses(protos[name]) if i in protos)
    return seen
