"""Hold what an ONNX graph has left to compute when all sizes are known: nodes, constants, types of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.reference
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, TypeProto, helper, numpy_helper

__all__ = ["Array", "Graph", "known"]

Array = np.ndarray[Any, Any]

# Constants of more elements are not computed when the model is converted: they would have to be in the file.
_MOST_ELEMENTS = 1 << 24

# Results of constants of more elements are not computed in the network either: some files would take all memory.
_MOST_OF_A_RESULT = 1 << 28

_MOST_OF_AN_INPUT = 1 << 31

# Computing constants may take so many elements of results in all; a product counts its factors, too.
_MOST_WORK = 1 << 32

# ONNX's own reference is slow for each element of these, or for the size of its smallest input.
_SLOW = {
    *("Attention", "AveragePool", "Col2Im", "Conv", "ConvInteger", "ConvTranspose", "DFT", "DeformConv", "Einsum"),
    *("GRU", "GatherND", "Gemm", "GridSample", "LRN", "LSTM", "LpPool", "MatMul", "MatMulInteger", "MaxPool"),
    *("MaxUnpool", "NonMaxSuppression", "QLinearConv", "QLinearMatMul", "RNN", "Resize", "ReverseSequence", "RoiAlign"),
    *("STFT", "ScatterElements", "ScatterND", "TfIdfVectorizer", "Upsample"),
}

# Their results are at most as large as their input has elements and axes; their values alone tell how large.
_SMALLER = {"Compress", "NonZero", "Unique"}

# Sizes of an output may follow from the values of a constant, such as a shape, but not from those of weights.
_MOST_OF_SIZES = 1024

# Results of these are unknown before the model runs.
_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


@dataclass
class Graph:
    """Holds nodes in the order in which they can run."""

    inputs: dict[str, tuple[int, tuple[int, ...]]]  # ONNX's number of the dtype, and the shape
    outputs: list[str]
    opset: int
    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    types: dict[str, TypeProto] = field(default_factory=dict)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a value, if it is known."""
        if name in self.constants:
            return self.constants[name].shape
        tensor = self.types[name].tensor_type if name in self.types else None
        if tensor is None or not tensor.HasField("shape"):
            return None
        sizes = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
        return None if -1 in sizes else sizes

    def dtype(self, name: str) -> int | None:
        """Return ONNX's number of a value's dtype, if it is known."""
        if name in self.constants:
            return helper.np_dtype_to_tensor_dtype(self.constants[name].dtype)
        return self.types[name].tensor_type.elem_type if name in self.types else None


def known(model: ModelProto, shapes: Mapping[str, Sequence[int]], caller: str) -> Graph:
    """Return the graph of `model` for inputs of these shapes; those that the model says itself need none.

    Raises:
        ValueError: an input has open sizes and no shape, a shape contradicts the model, or names no input.
    """
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    graph = Graph(_inputs(model.graph, shapes, caller), [value.name for value in model.graph.output], opset)
    for name, (number, shape) in graph.inputs.items():
        graph.types[name] = helper.make_tensor_type_proto(number, shape)
    _Fold(graph, model).add(model.graph)
    return graph


def _inputs(
    graph: GraphProto, shapes: Mapping[str, Sequence[int]], caller: str
) -> dict[str, tuple[int, tuple[int, ...]]]:
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    if others := sorted(set(shapes) - {value.name for value in inputs}):
        raise ValueError(f"{caller}: the model has no input {others[0]}, only {', '.join(v.name for v in inputs)}")
    found = {}
    for value in inputs:
        if value.type.WhichOneof("value") != "tensor_type":
            raise ValueError(f"{caller}: input {value.name} must be a tensor")
        tensor = value.type.tensor_type
        sizes = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
        given = shapes.get(value.name)
        if given is None:
            if not tensor.HasField("shape") or any(isinstance(size, str) for size in sizes):
                text = ", ".join(map(str, sizes))
                raise ValueError(f"{caller}: input {value.name} has open sizes ({text}); say its shape")
            given = [int(size) for size in sizes]
        if tensor.HasField("shape") and (
            len(given) != len(sizes) or any(isinstance(s, int) and s != g for s, g in zip(sizes, given, strict=True))
        ):
            text = ", ".join(map(str, sizes))
            raise ValueError(f"{caller}: input {value.name} must be of shape ({text}), got {tuple(given)}")
        if math.prod(given) > _MOST_OF_AN_INPUT:
            raise ValueError(f"{caller}: input {value.name} must have at most 2**31 elements, got {tuple(given)}")
        if any(size < 1 for size in given):
            raise ValueError(f"{caller}: sizes of input {value.name} must be at least 1, got {tuple(given)}")
        found[value.name] = (tensor.elem_type, tuple(given))
    return found


class _Fold:
    """Goes through the nodes once: computes what is known already, and infers the types of other values."""

    def __init__(self, graph: Graph, model: ModelProto) -> None:
        self.graph = graph
        self.opsets = list(model.opset_import)
        self.versions = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in self.opsets}
        self.ir_version = model.ir_version
        self.work = 0

    def add(self, graph: GraphProto) -> None:
        if graph.sparse_initializer:
            raise ValueError(f"sparse tensors ({graph.sparse_initializer[0].values.name}) are not supported")
        for tensor in graph.initializer:
            self.graph.constants[tensor.name] = numpy_helper.to_array(tensor)
        for node in graph.node:
            self._node(node)

    def _node(self, node: NodeProto) -> None:
        constants = self.graph.constants
        if node.op_type == "Shape" and (shape := self.graph.shape(node.input[0])) is not None:
            attributes = {a.name: a.i for a in node.attribute}
            constants[node.output[0]] = np.array(
                shape[attributes.get("start", 0) : attributes.get("end", len(shape))], np.int64
            )
        elif node.op_type == "Size" and (shape := self.graph.shape(node.input[0])) is not None:
            constants[node.output[0]] = np.array(np.prod(shape), np.int64)
        elif node.op_type == "If" and node.input[0] in constants:
            self._branch(node, "then_branch" if constants[node.input[0]].item() else "else_branch")
        elif not self._compute(node):
            self._infer(node)
            self.graph.nodes.append(node)

    def _branch(self, node: NodeProto, name: str) -> None:
        """Read the nodes of a branch, which see the values outside of it."""
        branch = next(a.g for a in node.attribute if a.name == name)
        self.add(branch)
        for inner, outer in zip(branch.output, node.output, strict=True):
            self._node(helper.make_node("Identity", [inner.name], [outer]))

    def _compute(self, node: NodeProto) -> bool:
        """Compute a node of constants, if it is one."""
        constants = self.graph.constants
        if (
            any(name and name not in constants for name in node.input)
            or node.op_type in _RANDOM
            or node.domain not in ("", "ai.onnx")
            or any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in node.attribute)
        ):
            return False
        if not self._is_affordable(node):
            return False
        names = [name for name in dict.fromkeys(node.input) if name]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(constants[name].dtype), None)
            for name in names
        ]
        kept = [name for name in node.output if name]
        outputs = [onnx.ValueInfoProto(name=name) for name in kept]
        alone = helper.make_model(
            helper.make_graph([node], "alone", inputs, outputs), opset_imports=self.opsets, ir_version=self.ir_version
        )
        try:
            results = onnx.reference.ReferenceEvaluator(alone).run(None, {name: constants[name] for name in names})
        except Exception:
            return False
        constants.update(zip(kept, (np.asarray(result) for result in results), strict=True))
        return True

    def _is_affordable(self, node: NodeProto) -> bool:
        """Tell whether a node of constants is computed, by the sizes of its results."""
        given = [self.graph.constants[name].size for name in node.input if name]
        if node.op_type in _SMALLER:
            elements = sum(given)
        else:
            types = self._inferred(node) or {}
            tensors = [types[name].tensor_type if name in types else None for name in node.output if name]
            sizes = [_elements(tensor) for tensor in tensors]
            if None in sizes:
                return False
            elements = sum(size for size in sizes if size is not None)
        if elements > _MOST_OF_A_RESULT:
            raise ValueError(
                f"{node.op_type} ({node.name or node.output[0]}): a result of {elements} elements is too large, at most"
                f" {_MOST_OF_A_RESULT} are computed of constants"
            )
        work = 64 * elements * max(1, min(given, default=1)) if node.op_type in _SLOW else elements
        if elements > _MOST_ELEMENTS or self.work + work > _MOST_WORK:
            return False
        self.work += work
        return True

    def _infer(self, node: NodeProto) -> None:
        self.graph.types.update(self._inferred(node) or {})
        if node.op_type == "Resize" and (sizes := _sizes_by_scales(self.graph, node)) is not None:
            number = self.graph.dtype(node.input[0])
            assert number is not None
            self.graph.types[node.output[0]] = helper.make_tensor_type_proto(number, sizes)
        if node.op_type == "GroupNormalization" and node.input[0] in self.graph.types:
            # It is a formula in ONNX, whose sizes are not inferred.
            self.graph.types[node.output[0]] = self.graph.types[node.input[0]]

    def _inferred(self, node: NodeProto) -> dict[str, TypeProto] | None:
        """Return the types of a node's outputs, or None."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        if not onnx.defs.has(node.op_type, domain) or domain not in self.versions:
            return None
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions[domain], domain)
        except onnx.defs.SchemaError:
            return None
        types, data = {}, {}
        for name in filter(None, node.input):
            if name in self.graph.constants:
                array = self.graph.constants[name]
                types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                if array.size <= _MOST_OF_SIZES:
                    data[name] = numpy_helper.from_array(array, name)
            elif name in self.graph.types:
                types[name] = self.graph.types[name]
            else:
                return None
        try:
            return onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self.opsets, ir_version=self.ir_version
            )
        except Exception:
            return None


def _sizes_by_scales(graph: Graph, node: NodeProto) -> list[int] | None:
    """Compute the sizes of a Resize in float32, as ONNX Runtime does: ONNX infers 12 pixels for 5 * 2.6, not 13."""
    given = 1 if graph.opset < 11 else 2
    shape = graph.shape(node.input[0])
    scales = graph.constants.get(node.input[given]) if given < len(node.input) else None
    if shape is None or scales is None or scales.size != len(shape):
        return None
    products = np.array(shape, np.float32) * scales.reshape(-1).astype(np.float32)
    return [int(size) for size in np.floor(products)]


def _elements(tensor: TypeProto.Tensor | None) -> int | None:
    """Return how many elements a tensor has, if its type says so."""
    if tensor is None or not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return math.prod(int(dim.dim_value) for dim in tensor.shape.dim)
