"""Reads an ONNX graph as those that the patterns of `export/matching` are looked for in.

A row of `_READERS` says which of MindSpore's primitives a node of ONNX is, and how its arguments lie. What has no row
stays a node that no pattern knows. Every value of the ONNX graph is a node here, with its name as the origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, numpy_helper

from ms_ascend_ops import registry
from ms_ascend_ops.export.graphs.graph import INPUT, PARAMETER, Graph, Node, constant
from ms_ascend_ops.export.matching.rotary import repeats
from ms_ascend_ops.onnx.files import constants_of
from ms_ascend_ops.onnx.schemas import DOMAIN, attributes_of

__all__ = ["Vector", "captured", "read", "shape_of"]

# Constants of up to so many elements are read; larger ones are parameters.
_MOST_READ = 64
# Tables of a rotary embedding may be a constant, of up to so many elements.
_MOST_TABLE = 1 << 24
_MIN_TABLE_RANK = 2


class Vector:
    """Marks a node that stands for a constant of a graph in the shape of a vector."""

    def __init__(self, name: str) -> None:
        self.name = name


def read(graph: GraphProto, opset: int) -> Graph:
    """Read the graph of primitives. `opset` is the version of ONNX's own operators."""
    reader = _Reader(graph, opset)
    for node in graph.node:
        reader.add(node)
    return Graph(reader.nodes, [reader.value(output.name) for output in graph.output] + reader.kept)


def captured(node: NodeProto) -> Iterator[str]:
    """Yield names that the graphs in a node take from outside."""
    for attribute in node.attribute:
        graphs = [attribute.g] if attribute.type == AttributeProto.GRAPH else list(attribute.graphs)
        for graph in graphs:
            own = {value.name for value in (*graph.input, *graph.initializer)}
            for inner in graph.node:
                yield from (name for name in (*inner.input, *captured(inner)) if name and name not in own)
                own.update(inner.output)
            yield from (value.name for value in graph.output if value.name not in own)


def shape_of(value: onnx.ValueInfoProto) -> tuple[tuple[int, ...] | None, tuple[str, ...], str]:
    """Return the shape of a value, with -1 for open dims, the names of those, and the dtype."""
    tensor = value.type.tensor_type
    dtype = _dtype(tensor.elem_type)
    if not tensor.HasField("shape"):
        return None, (), dtype
    dims = tensor.shape.dim
    sizes = tuple(dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else -1 for dim in dims)
    return sizes, tuple(dim.dim_param for dim in dims), dtype


def _dtype(number: int) -> str:
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(number).name)
    except (KeyError, TypeError, ValueError):
        return ""


class _Reader:
    def __init__(self, graph: GraphProto, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Node] = []
        self.kept: list[Node] = []  # what graphs in nodes take
        self._known: dict[str, Node] = {}
        self._infos = {value.name: value for value in (*graph.input, *graph.value_info, *graph.output)}
        self._initializers = constants_of(graph)
        for tensor in self._initializers.values():
            self._known[tensor.name] = self._constant(tensor)
        for value in graph.input:
            if value.name not in self._known:
                self._known[value.name] = self._described(Node(INPUT), value.name)

    # ---- values

    def value(self, name: str) -> Node:
        """Return the node of a value, also of one that the graph does not make."""
        if name not in self._known:
            self._known[name] = self._described(Node(INPUT), name)
        return self._known[name]

    def inner(self, kind: str, *inputs: Node, **about: Any) -> Node:
        """Make a node that ONNX does not have, between two that it has."""
        node = Node(kind, inputs, **about)
        self.nodes.append(node)
        return node

    def shaped(self, name: str) -> Node:
        """Make a node that has shape and dtype of a value, and is no part of the graph."""
        node = Node("")
        if name in self._infos:
            node.shape, node.symbols, node.dtype = shape_of(self._infos[name])
        return node

    def _described(self, node: Node, name: str) -> Node:
        node.name = node.origin = name
        if name in self._infos:
            node.shape, node.symbols, node.dtype = shape_of(self._infos[name])
        if node.kind in (INPUT, PARAMETER):
            self.nodes.append(node)
        return node

    def _constant(self, tensor: onnx.TensorProto) -> Node:
        shape, count = tuple(tensor.dims), int(np.prod(tensor.dims, dtype=object)) if tensor.dims else 1
        node = Node(PARAMETER, name=tensor.name, origin=tensor.name, shape=shape, dtype=_dtype(tensor.data_type))
        readable = node.dtype and tensor.data_location != onnx.TensorProto.EXTERNAL
        if readable and 0 <= count <= _MOST_READ:
            node.kind, node.value = "constant", numpy_helper.to_array(tensor)
        elif readable and len(shape) >= _MIN_TABLE_RANK and count <= _MOST_TABLE and not shape[-1] % 2:
            # Which half of a table of angles repeats the other.
            node.attributes["repeats"] = repeats(numpy_helper.to_array(tensor))
        self.nodes.append(node)
        return node

    def numbers(self, name: str) -> Any:
        """Return the value of a constant as Python has it: a number, or a tuple of numbers. None: it is none."""
        node = self.value(name) if name else None
        if node is None or node.kind != "constant" or not isinstance(node.value, np.ndarray):
            return None
        return node.value.item() if node.value.ndim == 0 else tuple(node.value.reshape(-1).tolist())

    def vector(self, name: str) -> Node:
        """Return a constant of shape (c, 1, ...), as a Reshape of the vector in it; any other value as it is."""
        node = self.value(name)
        shape = node.shape or ()
        channels = [size for size in shape if size != 1]
        if name not in self._initializers or len(shape) < _MIN_TABLE_RANK or len(channels) != 1:
            return node
        vector = Node(PARAMETER, name=name, origin=Vector(name), shape=(channels[0],), dtype=node.dtype)
        self.nodes.append(vector)
        return self.inner("Reshape", vector, constant(None), shape=shape, dtype=node.dtype)

    # ---- nodes

    def add(self, source: NodeProto) -> None:
        """Read one node, with all before it read."""
        made = None
        build = _READERS.get(source.op_type) if source.domain in ("", "ai.onnx", "com.microsoft") else None
        if source.domain == DOMAIN:
            build = _own
        try:
            made = build(self, source) if build else None
        except (IndexError, KeyError, TypeError, ValueError, AttributeError):  # other arguments than the known ones
            made = None
        if isinstance(made, Node):
            made = [made]
        if made is None or len(made) < sum(1 for name in source.output if name):
            inputs = [self.value(name) for name in (*source.input, *captured(source)) if name]
            self.kept += [self.value(name) for name in captured(source)]
            whole = Node(f"onnx.{source.op_type}", tuple(inputs))
            if len(source.output) == 1:
                made = [whole]
            else:
                self.nodes.append(whole)
                made = [Node("TupleGetItem", (whole, constant(i))) for i in range(len(source.output))]
        for node, name in zip(made, source.output, strict=False):
            if name:
                shape, dtype = node.shape, node.dtype
                self._described(node, name)
                node.shape, node.dtype = node.shape if node.shape is not None else shape, node.dtype or dtype
                if node.kind not in (INPUT, PARAMETER):
                    self.nodes.append(node)
                self._known[name] = node


def _attributes(source: NodeProto) -> dict[str, Any]:
    values = {a.name: onnx.helper.get_attribute_value(a) for a in source.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


_Read = Callable[[_Reader, NodeProto], "Node | list[Node] | None"]


def _same(kind: str, count: int = 1) -> _Read:
    def build(reader: _Reader, source: NodeProto) -> Node:
        return Node(kind, tuple(reader.value(source.input[i]) for i in range(count)))

    return build


def _channelwise(kind: str) -> _Read:
    """Read a sum or a product, where a constant may be one number for each channel."""

    def build(reader: _Reader, source: NodeProto) -> Node:
        one, other = source.input
        if len(reader.value(one).shape or ()) < len(reader.value(other).shape or ()):
            one, other = other, one
        return Node(kind, (reader.value(one), reader.vector(other)))

    return build


def _own(reader: _Reader, source: NodeProto) -> list[Node]:
    """Read an operator of this package that is in the graph already."""
    signature = registry.signature(source.op_type)
    given = [*source.input, *[""] * (len(signature.inputs) - len(source.input))]
    presence = {f"has_{t.name}": bool(n) for t, n in zip(signature.inputs, given, strict=True) if t.optional}
    attributes = {"reg_op_name": signature.entry, **attributes_of(source), **presence}
    inputs = tuple(reader.value(name) for name in given if name)
    if len(signature.cann_outputs) == 1:
        return [Node("Custom", inputs, attributes=attributes)]
    whole = reader.inner("Custom", *inputs, attributes=attributes)
    return [Node("TupleGetItem", (whole, constant(i))) for i in range(len(source.output))]


def _cast(reader: _Reader, source: NodeProto) -> Node:
    return Node("Cast", (reader.value(source.input[0]),), dtype=_dtype(_attributes(source)["to"]))


def _reduction(kind: str) -> _Read:
    def build(reader: _Reader, source: NodeProto) -> Node | None:
        given = _attributes(source)
        axes = given.get("axes") or (reader.numbers(source.input[1]) if len(source.input) > 1 else None)
        if axes is None:
            return None
        return Node(
            kind, (reader.value(source.input[0]), constant(tuple(axes)), constant(bool(given.get("keepdims", 1))))
        )

    return build


def _softmax(reader: _Reader, source: NodeProto) -> Node | None:
    if reader.opset < 13:  # it flattens
        return None
    return Node("Softmax", (reader.value(source.input[0]), constant(_attributes(source).get("axis", -1))))


def _first(reader: _Reader, kind: str, *inputs: Node) -> Node:
    """Return the first result of a primitive with several."""
    return Node("TupleGetItem", (reader.inner(kind, *inputs), constant(0)))


def _only_first(source: NodeProto) -> bool:
    return not any(source.output[1:])


def _layer_norm(reader: _Reader, source: NodeProto) -> Node | None:
    given, x = _attributes(source), reader.value(source.input[0])
    if len(source.input) < 3 or not source.input[2] or not _only_first(source) or x.shape is None:
        return None
    axis, rank = given.get("axis", -1), len(x.shape)
    shape = x.shape[axis + rank if axis < 0 else axis :]
    gamma, beta = (reader.value(name) for name in source.input[1:3])
    return _first(reader, "LayerNormExt", x, constant(shape), gamma, beta, constant(given.get("epsilon", 1e-5)))


def _rms_norm(reader: _Reader, source: NodeProto) -> Node | None:
    given, x = _attributes(source), reader.value(source.input[0])
    axis = given.get("axis", -1)
    if not _only_first(source) or (axis != -1 and (x.shape is None or axis != len(x.shape) - 1)):
        return None
    return _first(reader, "RmsNorm", x, reader.value(source.input[1]), constant(given.get("epsilon", 1e-5)))


def _group_norm(reader: _Reader, source: NodeProto) -> Node | None:
    given = _attributes(source)
    if reader.opset < 21:  # gamma and beta of a group, not of a channel
        return None
    x, gamma, beta = (reader.value(name) for name in source.input)
    epsilon = constant(given.get("epsilon", 1e-5))
    return _first(reader, "GroupNorm", x, constant(given["num_groups"]), gamma, beta, epsilon)


def _instance_norm(reader: _Reader, source: NodeProto) -> Node | None:
    """Read an InstanceNorm without gamma and beta, as exporters write a GroupNorm: (x - mean) / sqrt(variance +
    epsilon).
    """
    x, gamma, beta = (reader.value(name) for name in source.input)
    if gamma.kind != "constant" or beta.kind != "constant" or (gamma.value != 1).any() or (beta.value != 0).any():
        return None
    rank, about = len(x.shape or ()), {"shape": x.shape, "dtype": x.dtype}
    axes, keep = constant(-1 if rank == 3 else tuple(range(2, rank))), constant(True)
    few = {"shape": (*(x.shape or ())[:2], *[1] * (rank - 2)), "dtype": x.dtype}
    centred = reader.inner("Sub", x, reader.inner("ReduceMean", x, axes, keep, **few), **about)
    variance = reader.inner("ReduceMean", reader.inner("Square", centred, **about), axes, keep, **few)
    epsilon = constant(float(_attributes(source).get("epsilon", 1e-5)))
    return Node("Mul", (centred, reader.inner("Rsqrt", reader.inner("Add", variance, epsilon, **few), **few)))


def _gelu(reader: _Reader, source: NodeProto) -> Node:
    approximate = _attributes(source).get("approximate", "none")
    return Node("GeluExt", (reader.value(source.input[0]), constant(approximate)))


def _split(reader: _Reader, source: NodeProto) -> list[Node]:
    given, x = _attributes(source), reader.value(source.input[0])
    axis, count = given.get("axis", 0), len(source.output)
    sizes = given.get("split") or (reader.numbers(source.input[1]) if len(source.input) > 1 else None)
    if sizes is not None and len(set(sizes)) > 1:
        whole = reader.inner("SplitWithSize", x, constant(tuple(sizes)), constant(axis))
    else:
        whole = reader.inner("Split", x, constant(axis), constant(count))
    return [Node("TupleGetItem", (whole, constant(i))) for i in range(count)]


def _slice(reader: _Reader, source: NodeProto) -> Node | None:
    x = reader.value(source.input[0])
    given = [reader.numbers(name) for name in source.input[1:]]
    starts, stops = given[:2]
    axes = given[2] if len(given) > 2 and given[2] is not None else tuple(range(len(starts)))
    steps = given[3] if len(given) > 3 and given[3] is not None else (1,) * len(starts)
    if any(part is None or len(part) != 1 for part in (starts, stops, axes, steps)):
        return None
    return Node("SliceExt", (x, *(constant(part[0]) for part in (axes, starts, stops, steps))))


def _concat(reader: _Reader, source: NodeProto) -> Node:
    parts = reader.inner("MakeTuple", *(reader.value(name) for name in source.input))
    return Node("Concat", (parts, constant(_attributes(source)["axis"])))


def _unsqueeze(reader: _Reader, source: NodeProto) -> Node:
    axes = _attributes(source).get("axes") or reader.numbers(source.input[1])
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    x = reader.value(source.input[0])
    if len(axes) != 1:
        return Node("Reshape", (x, constant(None)))
    return Node("ExpandDims", (x, constant(axes[0])))


def _transposed_heads(reader: _Reader, x: Node, output: str) -> Node | None:
    """Return what has its last two axes swapped where batch and heads are joined for that, and parted again.

    So PyTorch's exporter writes the keys of an attention: (b, h, s, d) -> (b h, s, d) -> (b h, d, s) -> (b, h, d, s);
    where heads were repeated, from (b, h / r, r, s, d).
    """
    if x.kind != "Transpose" or x.inputs[1].value != (0, 2, 1) or x.inputs[0].kind != "Reshape":
        return None
    heads = x.inputs[0].inputs[0]
    before, after = _sizes(heads), _sizes(reader.shaped(output))
    joined = _sizes(x.inputs[0])
    if len(after) != 4 or len(before) < 4 or joined[1:] != before[-2:] or None in before:
        return None
    repeated = [size for size in before[1:-2] if isinstance(size, int)]
    if len(before) == 5 and before[0] == after[0] and len(repeated) == 2 and repeated[0] * repeated[1] == after[1]:
        shape, symbols = reader.shaped(output).shape or (), reader.shaped(output).symbols
        transposed = [0, 1, 3, 2]
        names = tuple(symbols[i] for i in transposed) if symbols else ()
        sizes = tuple(shape[i] for i in transposed)
        heads = reader.inner("Reshape", heads, constant(None), shape=sizes, symbols=names, dtype=heads.dtype)
        before = _sizes(heads)
    return heads if after == (*before[:2], before[3], before[2]) else None


def _sizes(node: Node) -> tuple[int | str | None, ...]:
    """Return the dims, with names in the place of open ones; None where one has no name."""
    names = node.symbols or ("",) * len(node.shape or ())
    return tuple(n if n >= 0 else name or None for n, name in zip(node.shape or (), names, strict=True))


def _reshape(reader: _Reader, source: NodeProto) -> Node:
    x = reader.value(source.input[0])
    target = reader.numbers(source.input[1]) if source.op_type == "Reshape" else None
    if isinstance(target, tuple) and 0 in target:
        target = None if x.shape is None else tuple(x.shape[i] if n == 0 else n for i, n in enumerate(target))
        target = None if target is None or target.count(-1) > 1 else target
    if (heads := _transposed_heads(reader, x, source.output[0])) is not None:
        return Node("Transpose", (heads, constant((0, 1, 3, 2))))
    return Node("Reshape", (x, constant(target)))


def _transpose(reader: _Reader, source: NodeProto) -> Node:
    x = reader.value(source.input[0])
    order = _attributes(source).get("perm") or range(len(x.shape or ()))[::-1]
    return Node("Transpose", (x, constant(tuple(order))))


def _expand(kind: str) -> _Read:
    def build(reader: _Reader, source: NodeProto) -> Node:
        return Node(kind, (reader.value(source.input[0]), constant(reader.numbers(source.input[1]))))

    return build


def _matmul(reader: _Reader, source: NodeProto) -> Node:
    a, b = (reader.value(name) for name in source.input)
    return Node("BatchMatMul", (a, b, constant(False), constant(False)))


def _fused_matmul(reader: _Reader, source: NodeProto) -> Node | None:
    """Read ONNX Runtime's product with a factor."""
    given = _attributes(source)
    if given.get("transBatchA", 0) or given.get("transBatchB", 0):
        return None
    a, b = (reader.value(name) for name in source.input)
    flags = [constant(bool(given.get(name, 0))) for name in ("transA", "transB")]
    result = reader.shaped(source.output[0])
    about = {"shape": result.shape, "symbols": result.symbols, "dtype": result.dtype}
    product = reader.inner("BatchMatMul", a, b, *flags, **about)
    return Node("Mul", (product, constant(float(given.get("alpha", 1.0)))))


def _quick_gelu(reader: _Reader, source: NodeProto) -> Node | None:
    """Read ONNX Runtime's x * sigmoid(alpha * x), which it makes of a SiLU, too."""
    if _attributes(source).get("alpha", 1.702) != 1.0:
        return None
    return Node("SiLU", (reader.value(source.input[0]),))


def _gemm(reader: _Reader, source: NodeProto) -> Node | None:
    given = _attributes(source)
    if given.get("alpha", 1.0) != 1.0 or given.get("beta", 1.0) != 1.0:
        return None
    a, b, *bias = (reader.value(name) for name in source.input if name)
    flags = [constant(bool(given.get(name, 0))) for name in ("transA", "transB")]
    if not bias:
        return Node("MatMul", (a, b, *flags))
    result = reader.shaped(source.output[0])
    return Node("Add", (reader.inner("MatMul", a, b, *flags, shape=result.shape, dtype=result.dtype), bias[0]))


def _where(reader: _Reader, source: NodeProto) -> Node:
    condition, one, other = (reader.value(name) for name in source.input)
    if condition.kind == "onnx.IsNaN" and condition.inputs[0] is other and reader.numbers(source.input[1]) == 0:
        # PyTorch's attention: a row of scores that is masked as a whole gives zeros, as the operators have it.
        return Node("Contiguous", (other,))
    return Node("Select", (condition, one, other))


def _dropout(reader: _Reader, source: NodeProto) -> Node | None:
    if not _only_first(source) or (len(source.input) > 2 and reader.numbers(source.input[2]) is not False):
        return None
    return Node("Contiguous", (reader.value(source.input[0]),))


_READERS: dict[str, _Read] = {
    "Add": _channelwise("Add"),
    "Mul": _channelwise("Mul"),
    **dict.fromkeys(("Sub",), _same("Sub", 2)),
    "Div": _same("Div", 2),
    "Pow": _same("Pow", 2),
    **{name: _same(kind) for name, kind in (
        ("Sqrt", "Sqrt"), ("Neg", "Neg"), ("Exp", "Exp"), ("Tanh", "Tanh"), ("Erf", "Erf"), ("Sigmoid", "Sigmoid"),
        ("Reciprocal", "Reciprocal"), ("Cos", "Cos"), ("Sin", "Sin"), ("Relu", "ReLU"), ("Swish", "SiLU"),
        ("Identity", "Contiguous"),
    )},
    "ReduceMean": _reduction("ReduceMean"),
    "ReduceSum": _reduction("ReduceSum"),
    "Cast": _cast,
    "Gelu": _gelu,
    "Softmax": _softmax,
    "LayerNormalization": _layer_norm,
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), _rms_norm),
    "GroupNormalization": _group_norm,
    "InstanceNormalization": _instance_norm,
    "Split": _split,
    "Slice": _slice,
    "Concat": _concat,
    "Unsqueeze": _unsqueeze,
    **dict.fromkeys(("Reshape", "Squeeze", "Flatten"), _reshape),
    "Transpose": _transpose,
    "Expand": _expand("BroadcastTo"),
    "Tile": _expand("Tile"),
    "MatMul": _matmul,
    "Gemm": _gemm,
    "FusedMatMul": _fused_matmul,
    "QuickGelu": _quick_gelu,
    "Where": _where,
    "Dropout": _dropout,
}  # fmt: skip
