"""Runs of fused operators as one node: a super kernel, whose list the kernel library launches by itself on a CPU.

MindSpore's executor takes 20 to 30 us from one operator to the next on a CPU, as long as a small kernel. Between the
operators of a run there may be what only says how a tensor is looked at (Reshape, ExpandDims, Transpose, Shape), casts
between types of floats, and what orders reads and writes of parameters (Load, Depend, UpdateState).

A graph is gone through once. An operator joins the open run if nothing outside of the run stands between the two;
otherwise it opens the next one. Nothing joins a run that is closed, so runs never need each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto, TensorProto
from ms_ascend_ops.export.files.retarget import read_fused, write_fused
from ms_ascend_ops.export.graphs.graph import CONSTANT, INPUT, PARAMETER, Node
from ms_ascend_ops.export.graphs.mindir_graph import MindIRGraph, graphs_of, name_of

from ms_ascend_ops import registry
from ms_ascend_ops.custom import SuperKernelPrimitive
from ms_ascend_ops.super_kernel import CAST, TRANSPOSE, VIEW, Step, Value, as_text

__all__ = ["group_kernels"]

_LEAST = 2  # kernels of a run
_MOST_RANK = 8

_OUTPUTS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16,
            "int8": TensorProto.INT8, "int32": TensorProto.INT32, "int64": TensorProto.INT64}  # fmt: skip

_FLOATS = ("float32", "float16", "bfloat16")

_Fused = tuple[registry.Signature, dict[str, Any]]


def group_kernels(model: ModelProto) -> int:
    """Put super kernels in the place of runs of fused operators, which must have the form of a CPU.

    Returns:
        How many there are now.
    """
    fused = {p.name: read_fused(p) for p in model.primitives if p.op_type == "Custom"}
    if not fused:
        return 0
    return sum(_Grouping(graph, fused).run() for graph in graphs_of(model))


@dataclass
class _Run:
    """Holds steps, and the nodes that are gone where the run stands; nodes by their id."""

    steps: list[Step] = field(default_factory=list)
    kernels: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)  # of the inputs
    tensors: dict[int, Value] = field(default_factory=dict)  # nodes that are a tensor of the run
    states: dict[int, Node] = field(default_factory=dict)  # orders of reads and writes that are inside
    tuples: set[int] = field(default_factory=set)  # what only states take
    behind: dict[int, Node] = field(default_factory=dict)  # parameters as they are behind a write: Depend, Load
    needs: set[int] = field(default_factory=set)  # nodes outside that need the run
    base: Node | None = None  # the order in front of it
    ordered: bool = False  # whether a kernel is behind it
    before: list[Node] = field(default_factory=list)  # reads that are in front of it
    written: set[int] = field(default_factory=set)  # parameters
    read: set[int] = field(default_factory=set)
    early: list[Node] = field(default_factory=list)  # reads of parameters that nobody writes: they need no order

    def __contains__(self, node: Node) -> bool:
        key = id(node)
        return key in self.tensors or key in self.states or key in self.tuples or key in self.behind


class _Grouping:
    """Groups the nodes of one graph into runs."""

    def __init__(self, graph: MindIRGraph, fused: Mapping[str, _Fused]) -> None:
        self.graph = graph
        self.fused = {
            id(node): fused[reference]
            for node in graph.graph.nodes
            if node.kind == "Custom" and (reference := node.origin.op_type.removeprefix("REF::")) in fused
        }
        self.users: dict[int, list[Node]] = {}
        for node in graph.graph.nodes:
            for source in node.inputs:
                self.users.setdefault(id(source), []).append(node)
        self.written = {
            id(_memory(node.inputs[position]))
            for node in graph.graph.nodes
            for position in self._writes(node)
            if position < len(node.inputs)
        }
        self.runs: list[_Run] = []
        self.now = _Run()

    def run(self) -> int:
        for node in self.graph.graph.nodes:
            if node.kind == CONSTANT or self._join(node):
                continue
            if id(node) in self.fused and self._takes(node):  # it may open the next run
                self._close()
                if self._join(node):
                    continue
            if any(source in self.now or id(source) in self.now.needs for source in node.inputs):
                self.now.needs.add(id(node))
        self._close()
        if self.runs:
            self._emit()
        return len(self.runs)

    def _close(self) -> None:
        if len(self.now.kernels) >= _LEAST:
            self.runs.append(self.now)
        self.now = _Run()

    def _writes(self, node: Node) -> Sequence[int]:
        """Return the inputs that a node may write."""
        if id(node) in self.fused:
            signature, attributes = self.fused[id(node)]
            return [i for i, tensor in enumerate(signature.given(attributes)) if tensor.name in signature.writes]
        if node.kind.startswith(("Assign", "Inplace")):
            return [0]
        return range(len(node.inputs)) if node.attributes.get("side_effect_mem") else []

    def _takes(self, node: Node) -> bool:
        """Tell whether a kernel can be a part of a run: its outputs are taken one by one."""
        signature, _ = self.fused[id(node)]
        count = len(signature.outputs)
        if count == 1:
            return True
        users = self.users.get(id(node), [])
        leaves = any(node is output for output in self.graph.graph.outputs)
        return not leaves and all(_index(user) in range(count) and user.inputs[0] is node for user in users)

    def _join(self, node: Node) -> bool:  # noqa: PLR0911
        """Take a node into the open run, if that can be."""
        if id(node) in self.fused:
            return self._takes(node) and self._join_kernel(node)
        if node.kind == "MakeTuple":
            return self._join_tuple(node)
        if len(node.inputs) < 2:
            return False
        if node.kind == "TupleGetItem":
            return id(node) in self.now.tensors
        if node.kind in ("Reshape", "ExpandDims", "Transpose"):
            value = self.now.tensors.get(id(node.inputs[0]))
            return value is not None and self._join_view(node, value) is not None
        if node.kind == "Cast":
            return self._join_cast(node)
        if node.kind == "UpdateState":
            return self._join_state(node)
        if node.kind == "Depend":
            return self._join_depend(node)
        return node.kind == "Load" and self._join_load(node)

    def _join_tuple(self, node: Node) -> bool:
        """Take a tuple that nobody has but orders."""
        inside = any(source in self.now for source in node.inputs)
        free = all(id(source) not in self.now.needs for source in node.inputs)
        users = self.users.get(id(node), [])
        only = all(user.kind in ("UpdateState", "Depend") and user.inputs[0] is not node for user in users)
        if inside and free and only:
            self.now.tuples.add(id(node))
        return inside and free and only

    def _join_kernel(self, node: Node) -> bool:
        run = self.now
        signature, attributes = self.fused[id(node)]
        given = signature.given(attributes)
        if len(node.inputs) < len(given) or any(id(source) in run.needs for source in node.inputs):
            return False
        writes = {given[i].name for i in self._writes(node)}
        sources = dict(zip([tensor.name for tensor in given], node.inputs, strict=False))
        for name, source in sources.items():
            memory = id(_memory(source))
            inside = id(source) in run.tensors or id(source) in run.behind
            if name in writes and (memory in run.read | run.written or id(source) in run.tensors):
                return False  # before the write somebody reads it, or it is written twice
            if name in writes and source.kind not in (PARAMETER, INPUT):
                return False
            if name not in writes and memory in run.written and not inside:
                return False  # what it was before the write
            if (source in run) and not inside:
                return False
        values = {one.name: attributes[one.name] for one in signature.attributes}
        inputs = [self._value(sources[one.name]) if one.name in sources else None for one in signature.inputs]
        run.written |= {id(_memory(sources[name])) for name in writes}
        run.read |= {id(_memory(source)) for name, source in sources.items() if name not in writes}
        run.steps.append(Step(signature.name, inputs, values, outputs=len(signature.outputs)))
        run.kernels.append(node)
        run.tensors[id(node)] = Value(len(run.steps) - 1)
        if len(signature.outputs) > 1:  # all of them, as one may stand behind the end of the run
            for user in self.users.get(id(node), []):
                run.tensors[id(user)] = Value(len(run.steps) - 1, _index(user) or 0)
        for source in node.inputs[len(given) :]:
            run.ordered = True
            self._in_front(source)
        return True

    def _value(self, source: Node) -> Value:
        """Return the tensor of the run that a node is; a view from outside becomes a step where it is used."""
        known = self.now.tensors.get(id(source))
        if known is not None:
            return known
        source = self.now.behind.get(id(source), source)
        if (
            source.kind in ("Reshape", "ExpandDims")
            and len(source.inputs) > 1
            and len(self.users.get(id(source), [])) == 1
        ):
            made = self._join_view(source, self._value(source.inputs[0]))
            if made is not None:
                return made
        number = self.now.numbers.setdefault(id(source), len(self.now.inputs))
        if number == len(self.now.inputs):
            self.now.inputs.append(source)
        return Value(-1, number)

    def _join_view(self, node: Node, value: Value) -> Value | None:
        """Look at a tensor of the run in another way: the value that this gives, or None where it cannot be written."""
        source = node.inputs[0]
        if node.kind == "Transpose":
            order = node.inputs[1].value
            if not isinstance(order, tuple) or not _is_order(order):
                return None
            dims: list[Any] | None = [axis % len(order) for axis in order]
        elif node.kind == "ExpandDims":
            dims = self._expanded(source, node.inputs[1].value)
        else:
            dims = self._dims(node.inputs[1])
        if dims is None or len(dims) > _MOST_RANK or sum(isinstance(d, int) and d == -1 for d in dims) > 1:
            return None
        kind = TRANSPOSE if node.kind == "Transpose" else VIEW
        sizes = [d if isinstance(d, int) else (self._value(d[0]), d[1]) for d in dims]
        self.now.steps.append(Step(kind, [value], dims=sizes))
        self.now.tensors[id(node)] = Value(len(self.now.steps) - 1)
        return self.now.tensors[id(node)]

    def _join_cast(self, node: Node) -> bool:
        """Take a conversion of a tensor of the run."""
        source = node.inputs[0]
        value = self.now.tensors.get(id(source))
        if value is None or source.dtype not in _FLOATS or node.dtype not in _FLOATS:
            return False
        self.now.steps.append(Step(CAST, [value], dtype=node.dtype))
        self.now.tensors[id(node)] = Value(len(self.now.steps) - 1)
        return True

    def _expanded(self, source: Node, axis: Any) -> list[Any] | None:
        if source.shape is None or not isinstance(axis, int) or isinstance(axis, bool):
            return None
        rank = len(source.shape) + 1
        if not -rank <= axis < rank:
            return None
        dims: list[Any] = [size if size >= 0 else (source, place) for place, size in enumerate(source.shape)]
        if any(not isinstance(dim, int) for dim in dims) and not self._known(source):
            return None
        dims.insert(axis % rank, 1)
        return dims

    def _dims(self, node: Node) -> list[Any] | None:
        """Return the target of a Reshape: numbers, and dims of values that the run can have."""
        if node.kind == CONSTANT:
            values = node.value.tolist() if isinstance(node.value, np.ndarray) and node.value.ndim == 1 else node.value
            whole = isinstance(values, (tuple, list)) and all(type(v) is int and v >= -1 for v in values)
            return list(values) if whole else None
        if node.kind == "Shape":
            source = node.inputs[0]
            if source.shape is None or not self._known(source):
                return None
            return [size if size >= 0 else (source, axis) for axis, size in enumerate(source.shape)]
        if node.kind != "MakeTuple":
            return None
        dims = []
        for part in node.inputs:
            if part.kind == CONSTANT and type(part.value) is int and part.value >= -1:
                dims.append(part.value)
                continue
            of = self._dims(part.inputs[0]) if part.kind == "TupleGetItem" and part.inputs[0].kind == "Shape" else None
            index = _index(part)
            if of is None or index is None or not -len(of) <= index < len(of):
                return None
            dims.append(of[index])
        return dims

    def _known(self, source: Node) -> bool:
        """Tell whether the run can have a tensor, for its sizes."""
        inside = id(source) in self.now.tensors or id(source) in self.now.behind
        return inside or (source not in self.now and id(source) not in self.now.needs)

    def _in_front(self, source: Node) -> None:
        """Order the run after `source`, unless it is ordered already: the orders are a chain, so the last one does."""
        if source not in self.now:
            self.now.base = source

    def _join_state(self, node: Node) -> bool:
        run = self.now
        if any(id(source) in run.needs for source in node.inputs) or not any(s in run for s in node.inputs):
            return False
        state, *others = node.inputs
        self._in_front(state)
        for other in others:
            for read in other.inputs if other.kind == "MakeTuple" else [other]:
                if read not in run and id(read) not in {id(one) for one in run.before}:
                    run.before.append(read)
        run.states[id(node)] = node
        return True

    def _join_depend(self, node: Node) -> bool:
        run = self.now
        value, after = node.inputs[0], node.inputs[1]
        if after not in run:
            return False
        if after.kind == "MakeTuple" and not all(source in run for source in after.inputs):
            return False
        if id(value) in run.tensors:
            run.tensors[id(node)] = run.tensors[id(value)]
        elif value.kind in (PARAMETER, INPUT) and id(value) in run.written:
            run.behind[id(node)] = value
        else:
            return False
        return True

    def _join_load(self, node: Node) -> bool:
        run = self.now
        value, state = node.inputs[0], node.inputs[1]
        if id(state) in run.needs:
            return False
        if id(value) in run.behind:
            run.behind[id(node)] = run.behind[id(value)]
            return True
        if value.kind == PARAMETER and id(value) not in self.written and id(state) in run.states:
            run.early.append(node)  # not a part of the run, but it need not wait for it either
            return True
        return False

    def _emit(self) -> None:
        """Put all runs into the graph."""
        demanded = self._demanded()
        made: list[NodeProto] = []
        renamed: dict[str, str] = {}
        for number, run in enumerate(self.runs):
            made += self._nodes(run, number, demanded, renamed)
        inside = {key for run in self.runs for key in (*run.tensors, *run.states)}
        inside |= {key for run in self.runs for key in (*run.behind, *run.tuples) if key not in demanded}
        gone = {name_of(node) for node in self.graph.graph.nodes if id(node) in inside}
        kept = [proto for proto in self.graph.proto.node if proto.output[0] not in gone]
        for proto in [*kept, *made]:
            for place, name in enumerate(proto.input):
                if name in renamed:
                    proto.input[place] = renamed[name]
        # Copy before the field is emptied.
        kept = [NodeProto.FromString(proto.SerializeToString()) for proto in kept]
        del self.graph.proto.node[:]
        self.graph.proto.node.extend(kept)
        self.graph.put(made)

    def _demanded(self) -> set[int]:
        """Return the nodes that somebody outside of their run needs."""
        of = {key: run for run in self.runs for key in (*run.tensors, *run.states, *run.tuples, *run.behind)}
        early = {id(node) for run in self.runs for node in run.early}
        demanded: set[int] = set()
        seen: set[int] = set()
        stack: list[tuple[Node, _Run | None]] = [(node, None) for node in self.graph.graph.outputs]
        stack += [(node, None) for node in self.graph.graph.nodes if node.kind == "UpdateState" and id(node) not in of]
        while stack:
            node, run = stack.pop()
            own = of.get(id(node))
            if own is not None and own is run:
                continue
            if own is not None and id(node) not in demanded:
                demanded.add(id(node))
                if id(node) in own.behind or id(node) in own.tuples:  # it stays as it is
                    stack += [(source, None) for source in node.inputs]
            key = id(own) if own is not None else id(node)
            if key in seen:
                continue
            seen.add(key)
            if own is None:
                stack += [(source, None) for source in (node.inputs[:1] if id(node) in early else node.inputs)]
            else:
                outside = [*own.inputs, *own.before, *([own.base] if own.base is not None else [])]
                stack += [(source, own) for source in outside]
        return demanded

    def _nodes(self, run: _Run, number: int, demanded: set[int], renamed: dict[str, str]) -> list[NodeProto]:
        graph = self.graph
        by_id = {id(node): node for node in graph.graph.nodes}
        results = [key for key in run.tensors if key in demanded and not self._is_tuple(by_id[key])]
        results = results or [id(run.kernels[-1])]  # one that is there for what it writes
        text = as_text(len(run.inputs), run.steps, [run.tensors[key] for key in results])
        last = run.kernels[-1]
        name = graph.unused(f"{graph.proto.name}:super_kernel_{number}")
        reference = f"Custom:super_kernel:{len(graph.model.primitives)}"
        primitive = graph.model.primitives.add(name=reference, instance_name="")
        write_fused(primitive, SuperKernelPrimitive(text, bool(run.written)))
        node = NodeProto(
            op_type=f"REF::{reference}", input=[name_of(one) for one in run.inputs], output=[name], name=name,
            domain=f"{last.origin.domain.rpartition('/')[0]}/Custom-super_kernel{number}",
            node_attr=last.origin.node_attr,
        )  # fmt: skip
        shape = node.attribute.add(name="shape", type=AttributeProto.TUPLE)
        shape.seq_info.is_dyn_len = False
        for key in results:
            described = shape.values.add(type=AttributeProto.TENSORS).tensors.add()
            described.CopyFrom(self._described(by_id[key]))
        made = self._order(run, node)
        state = made[-1].output[0] if made else name_of(run.base) if run.base is not None else ""
        if run.ordered:
            node.input.append(state)
        made += [node, *graph.items(node, {place: by_id[key] for place, key in enumerate(results)})]
        for early in run.early:
            early.origin.input[1] = name_of(run.base) if run.base is not None else early.origin.input[1]
        states = [one for key, one in run.states.items() if key in demanded]
        if states:
            after = NodeProto()
            after.CopyFrom(states[-1].origin)
            after.input[:] = [state, node.output[0]]
            renamed.update({name_of(one): name_of(states[-1]) for one in states[:-1]})
            made.append(after)
        return made

    def _order(self, run: _Run, node: NodeProto) -> list[NodeProto]:
        """Return what lets a run come behind the reads that are in front of it."""
        if not run.before or run.base is None:
            return []
        graph = self.graph
        reads = NodeProto(
            op_type=f"REF::{graph.by_type('MakeTuple')}",
            input=[name_of(one) for one in run.before],
            output=[graph.unused(f"{node.name}:reads")],
        )
        state = NodeProto(
            op_type=f"REF::{graph.by_type('UpdateState')}",
            input=[name_of(run.base), reads.output[0]],
            output=[graph.unused(f"{node.name}:before")],
        )
        for one in (reads, state):
            one.name, one.domain = one.output[0], node.domain
        return [reads, state]

    def _is_tuple(self, node: Node) -> bool:
        return id(node) in self.fused and len(self.fused[id(node)][0].outputs) > 1

    def _described(self, node: Node) -> TensorProto:
        for attribute in node.origin.attribute:
            if attribute.name == "shape" and len(attribute.tensors) == 1:
                return attribute.tensors[0]
        return TensorProto(dims=[], data_type=_OUTPUTS.get(node.dtype, TensorProto.FLOAT))


def _memory(node: Node) -> Node:
    """Return the parameter, the input or the node in whose memory a tensor lies."""
    while node.kind in ("Load", "Depend", "Reshape", "ExpandDims", "Cast") and node.inputs:
        node = node.inputs[0]
    return node


def _index(node: Node) -> int | None:
    """Return which item of a tuple a node is, if it is one and that is known."""
    if node.kind != "TupleGetItem" or len(node.inputs) < 2 or type(node.inputs[1].value) is not int:
        return None
    return int(node.inputs[1].value)


def _is_order(order: tuple[Any, ...]) -> bool:
    if not all(type(axis) is int and -len(order) <= axis < len(order) for axis in order):
        return False
    return sorted(axis % len(order) for axis in order) == list(range(len(order)))
