"""Reads and writes ONNX files, which are input from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor

from ms_ascend_ops.onnx.schemas import ORT_DOMAIN

__all__ = [
    "DAMAGE",
    "ONNX_DOMAIN",
    "check_model",
    "constants_of",
    "damaged",
    "lacks_shape",
    "name_domain",
    "read_model",
    "write_model",
]

ONNX_DOMAIN = "ai.onnx"

# Files of protobuf have at most so many bytes; larger ones keep their tensors beside them.
_MOST_BYTES = 2**31 - 1

# From this version of the format on, tensors of a graph need not be among its inputs.
_TENSORS_APART = 4

# A damaged file may raise these in `onnx` and here.
DAMAGE = (
    onnx.checker.ValidationError,
    onnx.shape_inference.InferenceError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    OverflowError,
    RuntimeError,
    TypeError,
    ValueError,
)


def read_model(path: Path, caller: str) -> tuple[ModelProto, bool]:
    """Read a model with its tensors, checked; return whether some of these lie in files beside it, too.

    Raises:
        ValueError: it is no ONNX file, it is damaged, or a file beside it is missing.
    """
    try:
        model = onnx.load(path, load_external_data=False)
        apart = [t for t in _tensors(model) if t.data_location == TensorProto.EXTERNAL]
        beside = any(t.data_location == TensorProto.EXTERNAL for t in model.graph.initializer)
        _move_simplified(model, "", ORT_DOMAIN)
        for tensor in apart:  # relative to the model, and not outside of its folder: `onnx` sees to that
            load_external_data_for_tensor(tensor, str(path.absolute().parent))
        if model.ByteSize() <= _MOST_BYTES:
            _infer_output_types(model)
            with _shapes_for_checker(model):
                onnx.checker.check_model(model)
        else:
            onnx.checker.check_model(str(path))
        if model.ir_version < _TENSORS_APART:  # there all tensors are inputs, and none may be given
            _tensors_apart(model)
        if model.functions:
            model = onnx.inliner.inline_local_functions(model)
        _constants_as_initializers(model)
    except (DecodeError, OSError, *DAMAGE) as error:
        raise damaged(caller, path, error) from error
    return model, beside


def _infer_output_types(model: ModelProto) -> None:
    """Infer output types. An output may have nothing but its name, from which ONNX Runtime infers the type."""
    bare = [value for value in model.graph.output if not value.type.WhichOneof("value")]
    if bare:
        inferred = onnx.shape_inference.infer_shapes(model).graph
        values = (*inferred.input, *inferred.value_info, *inferred.output)
        types = {value.name: value.type for value in values if value.type.WhichOneof("value")}
        for value in bare:
            if value.name in types:
                value.type.CopyFrom(types[value.name])


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors of a file: of the graph, of graphs in nodes, in attributes, in functions."""
    graphs: list[GraphProto | FunctionProto] = [model.graph, *model.functions]
    while graphs:
        graph = graphs.pop()
        if isinstance(graph, GraphProto):
            yield from graph.initializer
            for sparse in graph.sparse_initializer:
                yield from (sparse.values, sparse.indices)
        for attribute in (a for node in graph.node for a in node.attribute):
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            graphs += [attribute.g, *attribute.graphs]


def _constants_as_initializers(model: ModelProto) -> None:
    """Make constants that are nodes, as PyTorch's older exporter writes all of them, tensors of the graph."""
    results = {value.name for value in model.graph.output}
    kept = []
    for node in model.graph.node:
        tensor = _constant(node) if node.op_type == "Constant" and node.domain in ("", ONNX_DOMAIN) else None
        if tensor is None or node.output[0] in results:
            kept.append(node)
            continue
        tensor.name = node.output[0]
        model.graph.initializer.append(tensor)
    if len(kept) < len(model.graph.node):
        del model.graph.node[:]
        model.graph.node.extend(kept)


def _constant(node: NodeProto) -> TensorProto | None:
    """Return the tensor of a constant; None of one that holds texts or a sparse tensor."""
    (attribute,) = node.attribute
    if attribute.name == "value":
        tensor: TensorProto = attribute.t
        return tensor
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if attribute.name not in kinds:
        return None
    return numpy_helper.from_array(np.asarray(helper.get_attribute_value(attribute), kinds[attribute.name]))


def damaged(caller: str, path: Path, error: Exception) -> ValueError:
    """Return what `caller` raises of a file that it cannot work with."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return ValueError(f"{caller}: {path} is no ONNX file, or a damaged one: {lines[0]}")


def _move_simplified(model: ModelProto, source: str, target: str) -> None:
    """ONNX Runtime has one operator of its own in ONNX's domain, where ONNX's checker does not want it."""
    for node in model.graph.node:
        if node.op_type == "SimplifiedLayerNormalization" and node.domain == source:
            node.domain = target
            if target and all(o.domain != target for o in model.opset_import):
                model.opset_import.append(helper.make_opsetid(target, 1))


def check_model(model: ModelProto) -> None:
    """Raise what ONNX's checker finds; it takes no models that are larger than a file can be."""
    if model.ByteSize() <= _MOST_BYTES:
        with _shapes_for_checker(model) as all_known:
            onnx.checker.check_model(model, full_check=all_known)


@contextmanager
def _shapes_for_checker(model: ModelProto) -> Iterator[bool]:
    """Give inputs and outputs without a shape that of a scalar within the block: the checker wants one, ONNX
    Runtime does not.

    Whether there are none of them.
    """
    missing = [value for value in (*model.graph.input, *model.graph.output) if lacks_shape(value)]
    for value in missing:
        value.type.tensor_type.shape.SetInParent()
    try:
        yield not missing
    finally:
        for value in missing:
            value.type.tensor_type.ClearField("shape")


def lacks_shape(value: ValueInfoProto) -> bool:
    """Tell whether a tensor may be of any rank."""
    return value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")


def constants_of(graph: GraphProto) -> dict[str, TensorProto]:
    """Return the tensors of a graph by name, without those that are also inputs: another may be given in a run."""
    inputs = {value.name for value in graph.input}
    return {tensor.name: tensor for tensor in graph.initializer if tensor.name not in inputs}


def _tensors_apart(model: ModelProto) -> None:
    tensors = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in tensors]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    model.ir_version = _TENSORS_APART


def write_model(model: ModelProto, target: Path, beside: bool) -> None:
    """Write a model, with its tensors in a file `beside` it if that is True, or if one file cannot hold them."""
    _move_simplified(model, ORT_DOMAIN, "")
    if beside or model.ByteSize() > _MOST_BYTES:
        location = f"{target.name}.data"
        (target.absolute().parent / location).unlink(missing_ok=True)
        onnx.save_model(model, target, save_as_external_data=True, location=location)
        return
    onnx.save_model(model, target)


def name_domain(model: ModelProto) -> None:
    """Give ONNX's own domain its name, in the model's imports and in every node, those of subgraphs included."""
    for opset in model.opset_import:
        opset.domain = opset.domain or ONNX_DOMAIN
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            node.domain = node.domain or ONNX_DOMAIN
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
