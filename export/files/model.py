"""Reads MindIR files from outside, walks through them, and writes them."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import mindspore as ms
from google.protobuf.message import DecodeError
from mindspore import Tensor
from mindspore.train.mind_ir_pb2 import AttributeProto, GraphProto, ModelProto, TensorProto

__all__ = ["DTYPES", "graphs", "operators", "parameter_files", "read_model", "texts", "write_file"]

# A protobuf has at most so many bytes. Larger networks keep their parameters in separate files.
MOST_BYTES = 2**31 - 1

_OF_TENSORS = tuple(AttributeProto.AttributeType.Value(name) for name in ("TENSOR", "TENSORS"))

# By number: a damaged file may hold one that has no name.
DTYPES = {
    TensorProto.FLOAT: ms.float32,
    TensorProto.FLOAT16: ms.float16,
    TensorProto.BFLOAT16: ms.bfloat16,
    TensorProto.DOUBLE: ms.float64,
    TensorProto.FLOAT64: ms.float64,
    TensorProto.BOOL: ms.bool_,
    TensorProto.INT8: ms.int8,
    TensorProto.INT16: ms.int16,
    TensorProto.INT32: ms.int32,
    TensorProto.INT64: ms.int64,
    TensorProto.UINT8: ms.uint8,
    TensorProto.UINT16: ms.uint16,
    TensorProto.UINT32: ms.uint32,
    TensorProto.UINT64: ms.uint64,
}


def read_model(path: Path, caller: str, label: str | None = None) -> ModelProto:
    """Read a MindIR and check that it is whole. `caller` and `label` say in messages what was read, and by what.

    Raises:
        ValueError: it is no MindIR, or it is cut short.
    """
    label = label or str(path)
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{caller}: {label} is not a MindIR file: it has {size} bytes, more than a protobuf can have")
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"{caller}: {label} is not a MindIR file, or it is cut short ({error})") from error
    if fault := _fault(model):
        raise ValueError(f"{caller}: {label} is not a MindIR file, or it is cut short or damaged ({fault})")
    return model


def write_file(path: Path, content: bytes) -> None:
    """Write a file that appears under its name when it is complete, or not at all."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """Yield the graph of a model, and its functions."""
    yield model.graph
    yield from model.functions


def operators(model: ModelProto) -> Iterator[tuple[str, list[AttributeProto]]]:
    """Yield every primitive with its attributes, also those that an older MindIR holds in the nodes themselves."""
    for primitive in model.primitives:
        yield primitive.op_type, list(primitive.attribute)
    for graph in graphs(model):
        yield "graph", [AttributeProto(s=graph.bprop_filepath.encode()), *graph.attribute]
        for node in graph.node:
            kind = node.op_type.removeprefix("REF::").partition(":")[0]
            attributes = [*node.attribute, *node.node_attr, *node.primal_attr]
            yield ("a node" if node.op_type.startswith("REF::") else kind), attributes


def texts(attributes: Sequence[AttributeProto]) -> Iterator[str]:
    """Yield every string in the attributes."""
    for attribute in attributes:
        for text in (attribute.s, *attribute.strings):
            yield text.decode(errors="replace")
        if attribute.values:
            yield from texts(attribute.values)


def parameter_files(model: ModelProto, source: Path, caller: str, label: str | None = None) -> dict[str, Path]:
    """Return the files that hold the parameters of a large network, by their location as the MindIR `source` names it.

    Raises:
        ValueError: one is outside of the folder of `source`, or shorter than the MindIR says.
        FileNotFoundError: one is missing.
    """
    label = label or str(source)
    folder = source.parent.resolve()
    files: dict[str, Path] = {}
    for parameter in model.graph.parameter:
        if not parameter.HasField("external_data"):
            continue
        data = parameter.external_data
        relative = PurePosixPath(data.location)
        if relative.is_absolute() or ".." in relative.parts or "\0" in data.location:
            raise ValueError(
                f"{caller}: {label} is refused: its parameters are in {data.location}, outside of its folder"
            )
        file = (folder / relative).resolve()
        if not file.is_relative_to(folder):
            raise ValueError(f"{caller}: {label} is refused: its parameters are in {file}, outside of its folder")
        if not file.is_file():
            raise FileNotFoundError(f"{caller}: the parameters of {label} are missing: {file}")
        if not 0 <= data.offset <= data.offset + data.length <= file.stat().st_size or data.length < 0:
            raise ValueError(f"{caller}: the parameters of {label} are cut short: {file}")
        files[data.location] = file
    return files


def _fault(model: ModelProto) -> str:
    """Return what is missing or inconsistent, if anything. MindSpore takes all of this for granted, and may abort."""
    if not model.IsInitialized():
        return f"it has no {', '.join(model.FindInitializationErrors()[:3])}"
    # mind_ir_version is written last
    if not model.graph.output or not model.HasField("mind_ir_version") or not (model.graph.node or _hands_on(model)):
        return "it holds no whole graph"
    if not _is_text(model):
        return "a name in it is no text"
    for kind, attributes in operators(model):
        if not all(map(_is_consistent, attributes)):
            return f"an attribute of a {kind} lacks its value"
    known = {p.name for p in model.primitives} | {g.name for g in model.functions} | {model.graph.name}
    known |= {name for graph in graphs(model) for node in graph.node for name in node.output}  # a function as a value
    for graph in graphs(model):
        for node in graph.node:
            if not node.output:
                return f"the node {node.name} has no output"
            if node.op_type == "Constant" and not node.attribute:
                return f"the constant {node.name} has no value"
            if node.op_type.startswith("REF::") and node.op_type.removeprefix("REF::") not in known:
                return f"it has no {node.op_type.removeprefix('REF::')}"
    for parameter in model.graph.parameter:
        if not parameter.HasField("external_data") and not _is_whole(parameter):
            return f"the data of parameter {parameter.ref_key} is not whole"
    return _negative_dims(model)


def _hands_on(model: ModelProto) -> bool:
    """Tell whether all outputs are inputs or parameters: MindSpore folds `zeros + x` into x, and writes no node."""
    given = {value.name for value in (*model.graph.input, *model.graph.parameter)}
    return all(output.name in given for output in model.graph.output)


def _negative_dims(model: ModelProto) -> str:
    """Return a tensor that has impossible dims, if there is one.

    What a node describes may have dims that are unknown.
    """
    nodes = [(f"the constant {n.name}", n.attribute) for g in graphs(model) for n in g.node if n.op_type == "Constant"]
    attributes = [(f"an attribute of a {p.op_type}", p.attribute) for p in model.primitives]
    held = [(name, tensor) for name, values in [*nodes, *attributes] for tensor in _tensors(values)]
    held += [(f"parameter {p.ref_key}", p) for graph in graphs(model) for p in graph.parameter]
    for name, tensor in held:
        if any(dim < 0 for dim in tensor.dims):
            return f"{name} has the dims {tuple(tensor.dims)}"
    return ""


def _tensors(attributes: Sequence[AttributeProto]) -> Iterator[TensorProto]:
    """Yield every tensor in the attributes."""
    for attribute in attributes:
        yield from attribute.tensors
        yield from _tensors(attribute.values)


def _is_text(model: ModelProto) -> bool:
    """Tell whether what is used as text can be: protobuf hands out bytes that are no UTF-8 as they are."""
    names = [model.model_version, *(text for p in model.primitives for text in (p.name, p.op_type))]
    for graph in graphs(model):
        names += [graph.name, graph.bprop_filepath]
        names += [text for value in (*graph.input, *graph.output) for text in (value.name,)]
        for parameter in graph.parameter:
            names += [parameter.name, parameter.ref_key, parameter.external_data.location]
        for node in graph.node:
            names += [node.name, node.op_type, *node.input, *node.output]
    return all(isinstance(name, str) for name in names) and all(
        isinstance(a.name, str) for _, attributes in operators(model) for a in attributes
    )


def _is_consistent(attribute: AttributeProto) -> bool:
    """Tell whether an attribute has what its type says."""
    if attribute.type in _OF_TENSORS and not attribute.tensors:
        return False
    return all(map(_is_consistent, attribute.values))


def _is_whole(parameter: TensorProto) -> bool:
    dtype = DTYPES.get(parameter.data_type)
    if dtype is None or parameter.compression_type != TensorProto.NO_COMPRESSION:
        return True
    return bool(len(parameter.raw_data) == math.prod(parameter.dims) * Tensor(0, dtype).itemsize)
