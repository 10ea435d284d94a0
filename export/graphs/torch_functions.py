"""Maps the functions and methods of PyTorch to MindSpore's primitives, by their names.

A row of `READERS` says which primitive a call is, and how its arguments lie. What has no row is a node that no pattern
knows. PyTorch's own graphs are read so, and the calls of MindNLP's mindtorch, which has the same names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from ms_ascend_ops.export.graphs.graph import Node, constant

__all__ = ["DEFAULT_EPSILON", "READERS", "Reader", "Source"]

# PyTorch's RMSNorm, from 2.7 on, takes this for an eps of None in every dtype: that of float32, in which it adds up
# squares.
DEFAULT_EPSILON = 2.0**-23


class Source(Protocol):
    """Describes a call: what, and with which arguments."""

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Reader(ABC):
    """Makes nodes of calls, one after the other. What a value is depends on who made the graph."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    @abstractmethod
    def is_value(self, argument: Any) -> bool:
        """Tell whether an argument is a value of the graph."""

    @abstractmethod
    def is_tensor(self, argument: Any) -> bool:
        """Tell whether an argument is a tensor of the graph."""

    @abstractmethod
    def node(self, argument: Any) -> Node:
        """Find the node of a value of the graph."""

    def default_epsilon(self, x: Node) -> float:
        """Return the eps of an RMSNorm of x that has none."""
        return DEFAULT_EPSILON

    def inner(self, kind: str, *inputs: Node, **about: Any) -> Node:
        """Make a node that PyTorch does not have, between two that it has."""
        node = Node(kind, inputs, **about)
        self.nodes.append(node)
        return node

    def value(self, argument: Any) -> Node:
        """Return an argument: a value of the graph, or a constant."""
        return self.node(argument) if self.is_value(argument) else constant(argument)

    def arguments(self, source: Source, *names: str, **defaults: Any) -> dict[str, Any]:
        """Return the arguments by name: these, then those with a default. Raises TypeError if there are others."""
        order = (*names, *defaults)
        if len(source.args) > len(order) or not set(source.kwargs) <= set(order):
            raise TypeError(f"{source.target}: other arguments")
        given = {**defaults, **dict(zip(order, source.args, strict=False)), **source.kwargs}
        return {name: given[name] for name in order}


_Read = Callable[[Reader, Source], "Node | None"]


def _unary(kind: str) -> _Read:
    return lambda reader, source: Node(kind, (reader.value(reader.arguments(source, "input")["input"]),))


def _binary(kind: str) -> _Read:
    def build(reader: Reader, source: Source) -> Node | None:
        found = reader.arguments(source, "input", "other", alpha=1, rounding_mode=None)
        if found["alpha"] != 1 or found["rounding_mode"] is not None:
            return None
        return Node(kind, (reader.value(found["input"]), reader.value(found["other"])))

    return build


def _power(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", "exponent")
    return Node("Pow", (reader.value(found["input"]), reader.value(found["exponent"])))


def _reduction(kind: str) -> _Read:
    def build(reader: Reader, source: Source) -> Node | None:
        found = reader.arguments(source, "input", "dim", keepdim=False, dtype=None)
        if found["dtype"] is not None:
            return None
        axes = found["dim"]
        axes = tuple(axes) if isinstance(axes, (tuple, list)) else axes
        return Node(kind, (reader.value(found["input"]), constant(axes), constant(found["keepdim"])))

    return build


def _variance(reader: Reader, source: Source) -> Node | None:
    if "unbiased" in source.kwargs or (len(source.args) > 2 and isinstance(source.args[2], bool)):
        found = reader.arguments(source, "input", "dim", unbiased=True, keepdim=False)
        correction = int(found["unbiased"])
    else:
        found = reader.arguments(source, "input", "dim", correction=1, keepdim=False)
        correction = found["correction"]
    inputs = found["dim"], correction, found["keepdim"]
    return Node("Var", (reader.value(found["input"]), *map(constant, inputs)))


def _cast(reader: Reader, source: Source) -> Node:
    """Read any conversion: the dtype is that of the result."""
    return Node("Cast", (reader.value(source.args[0]),))


def _gelu(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", approximate="none")
    return Node("GeluExt", (reader.value(found["input"]), constant(found["approximate"])))


def _silu(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", inplace=False)
    return Node("SiLU", (reader.value(found["input"]),))


def _relu(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", inplace=False)
    return Node("ReLU", (reader.value(found["input"]),))


def _softmax(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", "dim", _stacklevel=3, dtype=None)
    x, dtype = reader.value(found["input"]), found["dtype"]
    if dtype is not None and x.dtype != str(dtype).removeprefix("torch."):
        x = reader.inner("Cast", x, shape=x.shape, dtype=str(dtype).removeprefix("torch."))
    return Node("Softmax", (x, constant(found["dim"])))


def _first(reader: Reader, kind: str, *inputs: Node) -> Node:
    """Return the first result of a primitive with several."""
    return Node("TupleGetItem", (reader.inner(kind, *inputs), constant(0)))


def _layer_norm(reader: Reader, source: Source) -> Node | None:
    found = reader.arguments(source, "input", "normalized_shape", weight=None, bias=None, eps=1e-5)
    if (found["weight"] is None) is not (found["bias"] is None):
        return None
    x, gamma, beta = (reader.value(found[name]) for name in ("input", "weight", "bias"))
    return _first(
        reader, "LayerNormExt", x, constant(tuple(found["normalized_shape"])), gamma, beta, constant(found["eps"])
    )


def _rms_norm(reader: Reader, source: Source) -> Node | None:
    found = reader.arguments(source, "input", "normalized_shape", weight=None, eps=None)
    if found["weight"] is None or len(found["normalized_shape"]) != 1:
        return None
    x = reader.value(found["input"])
    epsilon = reader.default_epsilon(x) if found["eps"] is None else found["eps"]
    return _first(reader, "RmsNorm", x, reader.value(found["weight"]), constant(epsilon))


def _group_norm(reader: Reader, source: Source) -> Node | None:
    found = reader.arguments(source, "input", "num_groups", weight=None, bias=None, eps=1e-5)
    if found["weight"] is None or found["bias"] is None:
        return None
    x, gamma, beta = (reader.value(found[name]) for name in ("input", "weight", "bias"))
    return _first(reader, "GroupNorm", x, constant(found["num_groups"]), gamma, beta, constant(found["eps"]))


def _chunk(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", "chunks", dim=0)
    return Node("Chunk", (reader.value(found["input"]), constant(found["chunks"]), constant(found["dim"])))


def _split(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "tensor", "split_size_or_sections", dim=0)
    sizes = found["split_size_or_sections"]
    sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else sizes
    return Node("SplitWithSize", (reader.value(found["tensor"]), constant(sizes), constant(found["dim"])))


def _item(reader: Reader, source: Source) -> Node | None:
    x, index = source.args
    if reader.is_tensor(x):
        if any(True for _ in _values(reader, index)):  # of the graph: another size each time
            return None
        return Node("getitem", (reader.value(x),), attributes={"index": index})
    return Node("TupleGetItem", (reader.value(x), constant(index)))


def _values(reader: Reader, index: Any) -> Iterator[Any]:
    if reader.is_value(index):
        yield index
    elif isinstance(index, slice):
        yield from _values(reader, (index.start, index.stop, index.step))
    elif isinstance(index, (tuple, list)):
        for part in index:
            yield from _values(reader, part)


def _joined(kind: str) -> _Read:
    def build(reader: Reader, source: Source) -> Node:
        found = reader.arguments(source, "tensors", dim=0)
        parts = reader.inner("MakeTuple", *(reader.value(part) for part in found["tensors"]))
        return Node(kind, (parts, constant(found["dim"])))

    return build


def _unbind(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", dim=0)
    return Node("Unstack", (reader.value(found["input"]), constant(found["dim"])))


def _reshape(reader: Reader, source: Source) -> Node:
    return Node("Reshape", (reader.value(source.args[0]), constant(None)))


def _unsqueeze(reader: Reader, source: Source) -> Node:
    found = reader.arguments(source, "input", "dim")
    return Node("ExpandDims", (reader.value(found["input"]), constant(found["dim"])))


def _repeat_interleave(reader: Reader, source: Source) -> Node | None:
    found = reader.arguments(source, "input", "repeats", dim=None)
    if not isinstance(found["repeats"], int) or found["dim"] is None:
        return None
    return Node(
        "RepeatInterleaveInt", (reader.value(found["input"]), constant(found["repeats"]), constant(found["dim"]))
    )


def _dropout(reader: Reader, source: Source) -> Node | None:
    found = reader.arguments(source, "input", p=0.5, training=True, inplace=False)
    if found["training"] or found["inplace"]:
        return None
    return Node("Contiguous", (reader.value(found["input"]),))


def _itself(reader: Reader, source: Source) -> Node:
    return Node("Contiguous", (reader.value(source.args[0]),))


READERS: dict[str, _Read] = {
    "add": _binary("Add"),
    **dict.fromkeys(("sub", "subtract"), _binary("Sub")),
    **dict.fromkeys(("mul", "multiply"), _binary("Mul")),
    **dict.fromkeys(("div", "divide", "truediv", "true_divide"), _binary("Div")),
    "pow": _power,
    **{name: _unary(kind) for name, kind in (
        ("square", "Square"), ("rsqrt", "Rsqrt"), ("sqrt", "Sqrt"), ("neg", "Neg"), ("negative", "Neg"), ("exp", "Exp"),
        ("tanh", "Tanh"), ("erf", "Erf"), ("sigmoid", "Sigmoid"), ("cos", "Cos"), ("sin", "Sin"),
        ("reciprocal", "Reciprocal"),
    )},
    "mean": _reduction("ReduceMean"),
    "sum": _reduction("ReduceSum"),
    "var": _variance,
    **dict.fromkeys(("to", "type", "type_as", "float", "half", "bfloat16"), _cast),
    "gelu": _gelu,
    "silu": _silu,
    "relu": _relu,
    "softmax": _softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "group_norm": _group_norm,
    "chunk": _chunk,
    "split": _split,
    "getitem": _item,
    **dict.fromkeys(("cat", "concat", "concatenate"), _joined("Concat")),
    "stack": _joined("Stack"),
    "unbind": _unbind,
    **dict.fromkeys(("view", "reshape", "flatten", "unflatten"), _reshape),
    "unsqueeze": _unsqueeze,
    "repeat_interleave": _repeat_interleave,
    "dropout": _dropout,
    "contiguous": _itself,
}  # fmt: skip
