"""Which values of a file lie in memory that somebody writes while the graph runs.

    y = x @ p.swapaxes(0, 1)
    p += x

MindSpore orders the write behind the transpose, the node that reads `p`. A product that read `p` itself would not be in
that order. So what reads such memory stays where it is, unless what it reads needs the only writer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from mindspore.train.mind_ir_pb2 import AttributeProto, ModelProto, NodeProto, PrimitiveProto
from ms_ascend_ops.export.model import graphs

__all__ = ["Writes"]

# Their first input is what they write; another one that writes may write all of its inputs.
_IN_PLACE = ("Assign", "Inplace")

# What they give may be the memory of what they get.
_SAME_MEMORY = frozenset(
    ("Load", "Depend", "Reshape", "ExpandDims", "Squeeze", "Flatten", "FlattenExt", "Cast", "Identity", "StopGradient",
     "TupleGetItem", "TensorMove")
)  # fmt: skip
_TUPLES = ("MakeTuple", "make_tuple")
_MONADS = (AttributeProto.UMONAD, AttributeProto.IOMONAD)  # which stand for the order, and are no values


class Writes:
    """What of a model may be written while it runs, and be read before that."""

    def __init__(self, model: ModelProto) -> None:
        kinds = {f"REF::{p.name}": p for p in model.primitives}
        gives: dict[str, list[str]] = defaultdict(list)  # a value to those that may be the same memory
        takes: dict[str, list[str]] = defaultdict(list)
        users: dict[str, list[str]] = defaultdict(list)  # a value to all that need it
        unclear: set[str] = set()  # what comes from another graph
        writers: list[tuple[NodeProto, list[str]]] = []
        for proto in graphs(model):
            if proto is not model.graph:
                unclear.update(value.name for value in proto.input if value.attr_info.type not in _MONADS)
            for node in proto.node:
                for name in node.input:
                    users[name] += node.output
                primitive = kinds.get(node.op_type)
                if primitive is None:
                    unclear.update(node.output if node.op_type != "Constant" else ())
                    continue
                targets = _targets(node, primitive)
                if targets:
                    writers.append((node, targets))
                for name in [*_passed_on(node, primitive.op_type), *targets]:
                    for output in node.output:
                        gives[name].append(output)
                        takes[output].append(name)
        memory = [_reached(_reached(targets, takes), gives) for _, targets in writers]
        self._any = any(names & unclear for names in memory)  # or whatever another graph may have handed in
        self._names = _reached(unclear, gives) if writers else set()
        of_main = {node.output[0] for node in model.graph.node}
        for (node, _), names in zip(writers, memory, strict=True):
            alone = sum(not names.isdisjoint(targets) for _, targets in writers) == 1
            # What needs the only writer is read after it.
            self._names |= names - _reached(node.output, users) if alone and node.output[0] in of_main else names

    def __contains__(self, name: str) -> bool:
        """Whether who reads the value of this name has to do it before a write, as far as anybody can tell."""
        return self._any or name in self._names


def _targets(node: NodeProto, primitive: PrimitiveProto) -> list[str]:
    """What a node may write."""
    if primitive.op_type.startswith(_IN_PLACE):
        return list(node.input[:1])
    writes = any(a.name == "side_effect_mem" and a.i for a in primitive.attribute)
    return list(node.input) if writes else []


def _passed_on(node: NodeProto, kind: str) -> list[str]:
    """What a node may give again as it lies."""
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
