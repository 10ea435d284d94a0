"""Analyses aliases: which values of a file lie in memory that is written while the graph runs.

    y = x @ p.swapaxes(0, 1)
    p += x

MindSpore orders the write behind the transpose, the node that reads `p`. A product that read `p` itself would not be in
that order. So what reads such memory stays where it is, unless what it reads needs the only writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto, PrimitiveProto
from ms_ascend_ops.export.files.model import graphs

__all__ = ["Writes"]

# The values, parameters, inputs and results of nodes, in whose memory one may lie. None: unknown.
_Memory = frozenset[str] | None
_MOST = 64  # of these
_MOST_WRITERS = 512  # of which anybody asks what comes after each

# Their first input is what they write; another one that writes may write all of its inputs.
_IN_PLACE = ("Assign", "Inplace")

# Their results may be the memory of their inputs.
_SAME_MEMORY = frozenset(
    ("Load", "Depend", "Reshape", "ExpandDims", "Squeeze", "Flatten", "FlattenExt", "Cast", "Identity", "StopGradient",
     "TupleGetItem", "TensorMove")
)  # fmt: skip
_TUPLES = ("MakeTuple", "make_tuple")
_MONADS = (AttributeProto.UMONAD, AttributeProto.IOMONAD)  # which stand for the order, and are no values


class Writes:
    """Find what of a model may be written while it runs, and be read before that."""

    def __init__(self, model: ModelProto) -> None:
        kinds = {f"REF::{p.name}": p for p in model.primitives}
        self._memory: dict[str, _Memory] = {}  # where each value lies
        self._users: dict[str, list[str]] = defaultdict(list)  # a value to those that need it
        self._writers: dict[str, list[str]] = defaultdict(list)  # what writes the memory of a value
        self._after: dict[str, set[str]] = {}  # what needs a writer
        self._any = False  # of any memory something may be written
        for proto in graphs(model):
            for value in proto.input:
                own = proto is model.graph or value.attr_info.type in _MONADS  # others are handed in
                self._memory[value.name] = frozenset([value.name]) if own else None
            self._memory.update((p.name, frozenset([p.name])) for p in proto.parameter)
            for node in proto.node:
                self._add(node, kinds.get(node.op_type))
        self._main = {name for node in model.graph.node for name in node.output}

    def __contains__(self, name: str) -> bool:
        """Tell whether who reads the value of this name has to do it before a write, as far as anybody can tell."""
        if not self._writers and not self._any:
            return False
        memory = self._memory.get(name)
        if self._any or memory is None:
            return True
        return any(of in self._writers and not self._is_after(name, self._writers[of]) for of in memory)

    def at_all(self, name: str) -> bool:
        """Tell whether the memory of this value may be written at all, whatever needs the writer."""
        memory = self._memory.get(name)
        unknown = memory is None and bool(self._writers)
        return self._any or unknown or any(of in self._writers for of in memory or ())

    def writers(self, name: str) -> frozenset[str] | None:
        """Return what may write the memory of this value; None: unknown."""
        memory = self._memory.get(name)
        return None if self._any or memory is None else frozenset(w for of in memory for w in self._writers.get(of, ()))

    def is_own(self, name: str) -> bool:
        """Tell whether a value lies in memory that it shares with nothing that it is made of."""
        return self._memory.get(name) == frozenset([name])

    def _add(self, node: NodeProto, primitive: PrimitiveProto | None) -> None:
        for name in node.input:
            self._users[name] += node.output
        own: _Memory = frozenset(node.output[:1])
        if primitive is None:  # a constant, or the call of another graph
            self._memory.update((name, own if node.op_type == "Constant" else None) for name in node.output)
            return
        targets = _targets(node, primitive)
        passed = [*_passed_on(node, primitive.op_type), *targets]
        memory = self._of_all(passed) if passed else own
        self._memory.update((name, memory) for name in node.output)
        if targets:
            written = self._of_all(targets)
            self._any = self._any or written is None
            for of in written or ():
                self._writers[of] += node.output[:1]

    def _of_all(self, names: Iterable[str]) -> _Memory:
        """Return the memory of several values; None: unknown, or that of many."""
        found: set[str] = set()
        for name in names:
            memory = self._memory.get(name)
            if memory is None:
                return None
            found |= memory
            if len(found) > _MOST:
                return None
        return frozenset(found)

    def _is_after(self, name: str, writers: Sequence[str]) -> bool:
        """Tell whether the value needs the only writer: then it is read after it, whatever the order."""
        if len(writers) != 1 or writers[0] not in self._main or len(self._writers) > _MOST_WRITERS:
            return False
        if writers[0] not in self._after:
            self._after[writers[0]] = _reached(writers, self._users)
        return name in self._after[writers[0]]


def _targets(node: NodeProto, primitive: PrimitiveProto) -> list[str]:
    """Return what a node may write."""
    if primitive.op_type.startswith(_IN_PLACE):
        return list(node.input[:1])
    if primitive.op_type.endswith("View"):  # has a place in the order of writes, and is none
        return []
    writes = any(a.name == "side_effect_mem" and a.i for a in primitive.attribute)
    return list(node.input) if writes else []


def _passed_on(node: NodeProto, kind: str) -> list[str]:
    """Return what a node may give again as it lies."""
    if kind in _TUPLES:
        return list(node.input)
    return list(node.input[:1]) if kind in _SAME_MEMORY or kind.endswith("View") else []


def _reached(names: Iterable[str], edges: Mapping[str, list[str]]) -> set[str]:
    seen: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(edges.get(name, ()))
    return seen
