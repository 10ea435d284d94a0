"""Reads the graphs of `torch.compile` as those that the patterns of `export/matching` are looked for in.

`export/graphs/torch_functions.py` says which of MindSpore's primitives a function or method of PyTorch is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ms_ascend_ops.definitions.sizes import known
from ms_ascend_ops.export.graphs.graph import INPUT, Graph, Node
from ms_ascend_ops.export.graphs.torch_functions import READERS, Reader
from ms_ascend_ops.torch.versions import default_epsilon

__all__ = ["changes_inputs", "place", "read"]

_CHANGES = frozenset({"setitem", "delitem", "iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul",
                      "iand", "ior", "ixor", "ilshift", "irshift"})  # fmt: skip


def read(graph: fx.Graph) -> Graph:
    """Read the graph of primitives; each node that is one of `graph` has it as its origin."""
    reader = _Reader()
    outputs = []
    for node in graph.nodes:
        if node.op == "output":
            outputs += [reader.known[source] for source in node.all_input_nodes]
            continue
        reader.add(node)
        if not node.users:  # for what it does, or for nothing: it keeps what it takes
            outputs.append(reader.known[node])
    return Graph(reader.nodes, outputs)


def changes_inputs(node: fx.Node) -> bool:
    """Tell whether a node may write to tensors that it is given."""
    if node.op in ("placeholder", "get_attr", "output"):
        return False
    if node.op == "call_module" or node.kwargs.get("inplace") or node.kwargs.get("out") is not None:
        return True
    if isinstance(node.target, torch._ops.OpOverload):
        return bool(node.target._schema.is_mutable)
    if isinstance(node.target, torch._ops.OpOverloadPacket):
        return any(getattr(node.target, name)._schema.is_mutable for name in node.target.overloads())
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return True
    name = _name(node)
    return name in _CHANGES or (name.endswith("_") and not name.endswith("__"))


def place(node: fx.Node) -> str:
    """Return the path of the module that the node belongs to."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    _, bracket, rest = path.rpartition("]")
    return (rest if bracket else path).lstrip(".") or "the network"


def _name(node: fx.Node) -> str:
    return str(node.target) if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


class _Reader(Reader):
    def __init__(self) -> None:
        super().__init__()
        self.known: dict[fx.Node, Node] = {}

    def add(self, source: fx.Node) -> None:
        """Read one node, with all before it read."""
        value = source.meta.get("example_value")
        made = None
        if source.op in ("call_function", "call_method") and not changes_inputs(source):
            build = READERS.get(_name(source))
            try:
                made = build(self, source) if build else None
            except (IndexError, KeyError, TypeError):  # arguments in another way than any of the known ones
                made = None
        if made is None:
            kind = INPUT if source.op in ("placeholder", "get_attr") else f"torch.{_name(source)}"
            made = Node(kind, tuple(self.known[i] for i in source.all_input_nodes))
        made.name, made.origin = source.name, source
        if isinstance(value, torch.Tensor):
            made.shape, made.dtype = known(value.shape), str(value.dtype).removeprefix("torch.")
        self.nodes.append(made)
        self.known[source] = made

    def is_value(self, argument: Any) -> bool:
        return isinstance(argument, fx.Node)

    def is_tensor(self, argument: Any) -> bool:
        return self.is_value(argument) and isinstance(argument.meta.get("example_value"), torch.Tensor)

    def node(self, argument: Any) -> Node:
        return self.known[argument]

    def default_epsilon(self, x: Node) -> float:
        return default_epsilon(getattr(torch, x.dtype or "float32"))
