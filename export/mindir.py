"""Writing a network as MindIR, and running such a file wherever this package is installed.

A MindIR names the kernel library by its absolute path on the machine that wrote it. `load` puts the path of the library
of this installation in its place, in memory: the file stays as it is. A MindIR is input from outside: what it may run
is decided here, before MindSpore sees it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import mindspore as ms
import numpy as np
from google.protobuf.message import DecodeError
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import AttributeProto, GraphProto, ModelProto, TensorProto
from ms_ascend_ops.export.modes import evaluating

from ms_ascend_ops import registry
from ms_ascend_ops.library import library_path

__all__ = ["InputSpec", "MindIRNetwork", "export_mindir", "load"]

# Primitives that run Python code.
_RUNS_CODE = frozenset({"PyExecute", "PyFunc", "PyInterpret", "PythonOp"})

_DTYPES = {
    "FLOAT": ms.float32,
    "FLOAT16": ms.float16,
    "BFLOAT16": ms.bfloat16,
    "DOUBLE": ms.float64,
    "FLOAT64": ms.float64,
    "BOOL": ms.bool_,
    "INT8": ms.int8,
    "INT16": ms.int16,
    "INT32": ms.int32,
    "INT64": ms.int64,
    "UINT8": ms.uint8,
    "UINT16": ms.uint16,
    "UINT32": ms.uint32,
    "UINT64": ms.uint64,
}


def export_mindir(
    net: nn.Cell,
    *inputs: Tensor,
    path: str | os.PathLike[str],
    dynamic: Mapping[int, Sequence[int]] | None = None,
) -> Path:
    """Write `net`, in evaluation mode, as a MindIR file.

    The file appears under its name when it is complete, or not at all. Above 1 GB of parameters these are in a folder
    beside it, `<name>_variables.<random>`, which has to travel with the file.

    Args:
        net: the network, with or without fused operators.
        inputs: one tensor per input of `construct`; only shape and dtype count. `Tensor(shape=[None, 8], dtype=...)`
            has an unknown first dimension.
        path: where to write. `.mindir` is appended if it is missing.
        dynamic: axes of unknown size, by the position of the input: `{0: (0, 1)}` for batch and sequence of the first.

    Returns:
        The absolute path of the file.

    Raises:
        TypeError: `net` is not a Cell, or an input is not a Tensor.
        ValueError: `dynamic` names an input or an axis that does not exist, or the folder of `path` does not exist.
    """
    if not isinstance(net, nn.Cell):
        raise TypeError(f"export_mindir: net must be a mindspore.nn.Cell, got {type(net).__name__}")
    for index, value in enumerate(inputs):
        if not isinstance(value, Tensor):
            raise TypeError(f"export_mindir: input {index} must be a Tensor, got {type(value).__name__}")
    target = Path(path).absolute()
    if target.suffix != ".mindir":
        target = target.with_name(f"{target.name}.mindir")
    if not target.parent.is_dir():
        raise ValueError(f"export_mindir: path must be in a folder that exists, got {target}")
    tensors = _with_unknown_axes(inputs, dynamic or {})

    syntax_level = ms.get_context("jit_syntax_level")
    with tempfile.TemporaryDirectory(prefix=".export-", dir=target.parent) as folder:
        try:
            with evaluating(net):
                ms.export(net, *tensors, file_name=str(Path(folder, "model")), file_format="MINDIR")
        finally:
            ms.set_context(jit_syntax_level=syntax_level)  # ms.export leaves its own behind when it fails
        split = Path(folder, "model_graph.mindir")
        model = _parse(split if split.exists() else Path(folder, "model.mindir"), "export_mindir")
        obsolete = _variables_of(target)
        if split.exists():
            # A name of its own: until the graph is replaced, an older one goes on finding its older parameters.
            variables = f"{target.stem}_variables.{secrets.token_hex(4)}"
            for parameter in model.graph.parameter:
                name = PurePosixPath(parameter.external_data.location).name
                parameter.external_data.location = f"{variables}/{name}"
            os.rename(Path(folder, "model_variables"), target.with_name(variables))
        complete = Path(folder, "complete.mindir")  # MindSpore's own file could be read by nobody else
        complete.write_bytes(model.SerializeToString())
        os.replace(complete, target)
    for variables in obsolete:
        shutil.rmtree(target.with_name(variables), ignore_errors=True)
    return target


@dataclass(frozen=True)
class InputSpec:
    """One input of a loaded network. A dimension of -1 takes any size."""

    name: str
    shape: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        sizes = ", ".join("any" if size < 0 else str(size) for size in self.shape)
        return f"{self.name}: {str(self.dtype).lower()} ({sizes})"


class MindIRNetwork:
    """A network that was loaded from a MindIR: call it with one tensor or NumPy array for each of `inputs`."""

    def __init__(self, graph: Any, inputs: tuple[InputSpec, ...]) -> None:
        self.inputs = inputs
        self._cell = nn.GraphCell(graph)
        if any(size < 0 for spec in inputs for size in spec.shape):
            # Without this MindSpore compiles the graph anew for every shape that it meets.
            self._cell.set_inputs(
                *(Tensor(shape=[None if s < 0 else s for s in i.shape], dtype=i.dtype) for i in inputs)
            )

    def __call__(self, *values: Tensor | np.ndarray[Any, Any]) -> Any:
        if len(values) != len(self.inputs):
            known = "; ".join(map(str, self.inputs))
            raise TypeError(f"MindIRNetwork: it takes {len(self.inputs)} inputs ({known}), got {len(values)}")
        return self._cell(*(_checked_input(value, spec) for value, spec in zip(values, self.inputs, strict=True)))


def load(path: str | os.PathLike[str]) -> MindIRNetwork:
    """Load a MindIR file, with the kernel library of this installation wherever the file was written.

    Args:
        path: a file that `export_mindir` or `mindspore.export` wrote. It is not changed.

    Returns:
        A callable network.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is no MindIR, it is cut short, or it names a library other than this package's, an operator that
            this package does not have, or a primitive that runs code.
        RuntimeError: the kernel library of this installation is missing or has another version.
    """
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"load: there is no file {source}")
    model = _parse(source, "load")
    _relocate(model, source)
    inputs = tuple(_input_spec(value) for value in model.graph.input)
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as folder:
        _link_variables(model, source, Path(folder))
        file = Path(folder, "model.mindir")
        file.write_bytes(model.SerializeToString())
        return MindIRNetwork(ms.load(str(file)), inputs)


def _with_unknown_axes(inputs: Sequence[Tensor], dynamic: Mapping[int, Sequence[int]]) -> list[Tensor]:
    tensors = list(inputs)
    for index, axes in dynamic.items():
        if not 0 <= index < len(inputs):
            raise ValueError(f"export_mindir: dynamic must name one of {len(inputs)} inputs by position, got {index}")
        shape: list[int | None] = [None if size < 0 else size for size in inputs[index].shape]
        for axis in axes:
            if not -len(shape) <= axis < len(shape):
                raise ValueError(f"export_mindir: dynamic[{index}] must name axes of {len(shape)}, got {axis}")
            shape[axis] = None
        tensors[index] = Tensor(shape=shape, dtype=inputs[index].dtype)
    return tensors


def _parse(path: Path, caller: str) -> ModelProto:
    """Read the protobuf and check that it is whole."""
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise ValueError(f"{caller}: {path} is not a MindIR file, or it is cut short ({error})") from error
    # mind_ir_version is written last
    if not model.graph.node or not model.graph.output or not model.HasField("mind_ir_version"):
        raise ValueError(f"{caller}: {path} is not a MindIR file, or it is cut short (it holds no whole graph)")
    known = {p.name for p in model.primitives} | {g.name for g in model.functions} | {model.graph.name}
    for graph in (model.graph, *model.functions):
        for node in graph.node:
            if node.op_type.startswith("REF::") and node.op_type.removeprefix("REF::") not in known:
                raise ValueError(f"{caller}: {path} is cut short (it has no {node.op_type.removeprefix('REF::')})")
    for parameter in model.graph.parameter:
        if not parameter.HasField("external_data") and not _is_whole(parameter):
            raise ValueError(f"{caller}: {path} is cut short (the data of parameter {parameter.ref_key} is not whole)")
    return model


def _is_whole(parameter: TensorProto) -> bool:
    dtype = _DTYPES.get(TensorProto.DataType.Name(parameter.data_type))
    if dtype is None or parameter.compression_type != TensorProto.NO_COMPRESSION:
        return True
    size = int(np.prod(parameter.dims, dtype=np.int64))
    return bool(len(parameter.raw_data) == size * Tensor(0, dtype).itemsize)


def _relocate(model: ModelProto, source: Path) -> None:
    """Point every fused operator to the library of this installation, and refuse everything else that brings code."""
    entries = {s.entry for name in registry.names() for s in registry.op_spec(name).signatures}
    for op_type, attributes in _operators(model):
        if op_type in _RUNS_CODE:
            raise ValueError(f"load: {source} is refused: it holds a {op_type}, which runs Python code")
        if op_type == "Custom":
            _relocate_custom({a.name: a for a in attributes}, source, entries)
            continue
        for text in _texts(attributes):
            if ".so" in PurePosixPath(text.partition(":")[0]).suffixes:
                raise ValueError(f"load: {source} is refused: a {op_type} names the library {text}")


def _relocate_custom(attributes: Mapping[str, AttributeProto], source: Path, entries: set[str]) -> None:
    def text(name: str) -> str:
        return str(attributes[name].s.decode(errors="replace")) if name in attributes else ""

    if text("func_type") != "aot" or text("imply_path"):
        kind = text("func_type") or "unnamed"
        raise ValueError(f"load: {source} is refused: it holds a Custom of kind {kind} ({text('imply_path')})")
    stored, _, entry = text("func_name").rpartition(":")
    installed = library_path()
    if PurePosixPath(stored).name != PurePosixPath(installed).name:
        raise ValueError(
            f"load: {source} is refused: it names the library {stored or text('func_name')}, and only "
            f"{PurePosixPath(installed).name} of this installation may run"
        )
    if entry not in entries:
        raise ValueError(
            f"load: {source} needs the operator {entry}, which this version of ms_ascend_ops does not have "
            f"(it has {', '.join(sorted(entries))})"
        )
    function = f"{installed}:{entry}"
    for name, value in {"func_name": function, "uniq_name": f"Custom__{function}"}.items():
        if name in attributes:
            attributes[name].s = value.encode()


def _operators(model: ModelProto) -> Iterator[tuple[str, list[AttributeProto]]]:
    """Every primitive with its attributes, also those that an older MindIR holds in the nodes themselves."""
    for primitive in model.primitives:
        yield primitive.op_type, list(primitive.attribute)
    for graph in _graphs(model):
        yield "graph", [AttributeProto(s=graph.bprop_filepath.encode()), *graph.attribute]
        for node in graph.node:
            kind = node.op_type.removeprefix("REF::").partition(":")[0]
            attributes = [*node.attribute, *node.node_attr, *node.primal_attr]
            yield ("a node" if node.op_type.startswith("REF::") else kind), attributes


def _graphs(model: ModelProto) -> Iterator[GraphProto]:
    yield model.graph
    yield from model.functions


def _texts(attributes: Sequence[AttributeProto]) -> Iterator[str]:
    for attribute in attributes:
        for text in (attribute.s, *attribute.strings):
            yield text.decode(errors="replace")
        if attribute.values:
            yield from _texts(attribute.values)


def _input_spec(value: Any) -> InputSpec:
    tensor = value.tensor[0] if len(value.tensor) == 1 else None
    name = value.name.rpartition(":")[2]
    if tensor is None:
        raise ValueError(f"load: input {name} is not one tensor, which is not supported")
    return InputSpec(name, tuple(tensor.dims), _DTYPES[TensorProto.DataType.Name(tensor.data_type)])


def _checked_input(value: Tensor | np.ndarray[Any, Any], spec: InputSpec) -> Tensor:
    tensor = Tensor(value) if isinstance(value, np.ndarray) else value
    if not isinstance(tensor, Tensor):
        raise TypeError(f"MindIRNetwork: {spec.name} must be a Tensor or a NumPy array, got {type(value).__name__}")
    if tensor.dtype != spec.dtype:
        raise TypeError(f"MindIRNetwork: input must be {spec}, got {str(tensor.dtype).lower()}")
    sizes = list(zip(spec.shape, tensor.shape, strict=False))
    if len(tensor.shape) != len(spec.shape) or any(size not in (-1, got) for size, got in sizes):
        raise ValueError(f"MindIRNetwork: input must be {spec}, got {tuple(tensor.shape)}")
    return tensor


def _variables_of(path: Path) -> set[str]:
    """The folders with the parameters of an earlier export to the same path."""
    if not path.is_file():
        return set()
    model = ModelProto()
    try:
        model.ParseFromString(path.read_bytes())
    except DecodeError:
        return set()
    prefix = f"{path.stem}_variables."
    folders = {PurePosixPath(p.external_data.location).parent.name for p in model.graph.parameter}
    return {folder for folder in folders if folder.startswith(prefix)}


def _link_variables(model: ModelProto, source: Path, folder: Path) -> None:
    """Make parameters in files of their own reachable from `folder`. MindSpore refuses a symbolic link."""
    for location in {p.external_data.location for p in model.graph.parameter if p.HasField("external_data")}:
        relative = PurePosixPath(location)
        if relative.is_absolute() or ".." in relative.parts:
            raise ValueError(f"load: {source} is refused: its parameters are in {location}, outside of its folder")
        file = source.parent / relative
        if not file.is_file():
            raise FileNotFoundError(f"load: the parameters of {source} are missing: {file}")
        (folder / relative).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, folder / relative)
        except OSError:  # another file system
            shutil.copyfile(file, folder / relative)
