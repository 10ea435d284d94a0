"""Runs a MindIR, or a bundle of one, wherever this package is installed.

A file is input from outside. What it may run is decided here, before MindSpore sees it; the file stays as it is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.files.bundle import check_mindspore, is_bundle, is_later, unpack, written_later
from ms_ascend_ops.export.files.model import DTYPES, parameter_files, read_model
from ms_ascend_ops.export.files.retarget import retarget

from ms_ascend_ops.mindspore_versions import device_target

__all__ = ["InputSpec", "MindIRNetwork", "load", "load_changed"]


@dataclass(frozen=True)
class InputSpec:
    """Describes one input of a loaded network, or one output. A dimension of -1 takes any size.

    Args:
        name: that of the parameter of the graph.
        shape: its sizes.
        dtype: a dtype of MindSpore.
    """

    name: str
    shape: tuple[int, ...]
    dtype: Any

    def __str__(self) -> str:
        sizes = ", ".join("any" if size < 0 else str(size) for size in self.shape)
        return f"{self.name}: {str(self.dtype).lower()} ({sizes})"


class MindIRNetwork:
    """Runs a network that was loaded from a MindIR: call it with one tensor or NumPy array for each of `inputs`.

    `outputs` describes what comes, without the tuples around it; None: the file does not tell.

    Args:
        graph: what MindSpore loaded.
        inputs: what a call takes.
        outputs: what it returns.
        written_later: what to say where the first call fails, as MindSpore then lacks a primitive or a kernel of it.
    """

    def __init__(
        self,
        graph: Any,
        inputs: tuple[InputSpec, ...],
        outputs: tuple[InputSpec, ...] | None = None,
        written_later: str = "",
    ) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self._written_later = written_later
        self._cell = nn.GraphCell(graph)
        if any(size < 0 for spec in inputs for size in spec.shape):
            # Without this MindSpore compiles the graph again for every shape that it gets.
            self._cell.set_inputs(
                *(Tensor(shape=[None if s < 0 else s for s in i.shape], dtype=i.dtype) for i in inputs)
            )

    def __call__(self, *values: Tensor | np.ndarray[Any, Any]) -> Any:
        if len(values) != len(self.inputs):
            known = "; ".join(map(str, self.inputs))
            raise TypeError(f"the network takes {len(self.inputs)} inputs ({known}), got {len(values)}")
        tensors = [_checked_input(value, spec) for value, spec in zip(values, self.inputs, strict=True)]
        try:
            result = self._cell(*tensors)
        except (RuntimeError, TypeError, ValueError) as error:
            if not self._written_later:
                raise
            raise RuntimeError(f"the network does not run ({_reason(error)}): {self._written_later}") from error
        self._written_later = ""
        return result


def load(path: str | os.PathLike[str], *, super_kernels: bool = True) -> MindIRNetwork:
    """Load a MindIR file or a bundle, with the kernels of this installation wherever the file was written.

    Fused operators get the form of this machine's `device_target`: a MindIR that was exported on a CPU runs on an
    Ascend NPU, and back.

    Args:
        path: a file that `export_mindir`, `bundle` or `mindspore.export` wrote. It is not changed.
        super_kernels: on a CPU, launch operators of this package that follow each other by one call, as one node of the
            graph. The results are the same. With or without, a CPU computes products with weights next to operators by
            `matmul` of this package, whose sums may be rounded otherwise than MindSpore's.

    Returns:
        A callable network.

    Raises:
        TypeError: `path` is neither a str nor a path.
        FileNotFoundError: there is no such file, or the parameters beside it are missing.
        ValueError: it is no MindIR and no bundle, it is cut short or was changed, or it names a library other than this
            package's, an operator that this package does not have in this version, or a primitive that runs code.
        RuntimeError: the kernel library of this installation is missing or has another version, or the file is for
            another chip or a later MindSpore than any that was tried.
    """
    from ms_ascend_ops.export.passes.run_products import join_products  # noqa: PLC0415
    from ms_ascend_ops.export.passes.super_kernels import group_kernels  # noqa: PLC0415

    def change(model: ModelProto) -> None:
        if device_target() == "CPU":
            join_products(model)
            if super_kernels:
                group_kernels(model)

    return load_changed(path, change)


def load_changed(path: str | os.PathLike[str], change: Callable[[ModelProto], object]) -> MindIRNetwork:
    """Do as `load`, with a network that `change` has altered in memory."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"load: path must be a str or a path, got {type(path).__name__}")
    source = Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"load: there is no file {source}")
    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as folder:
        label = str(source)
        if is_bundle(source):
            source = unpack(source, Path(folder, "bundle"))
        model = read_model(source, "load", label)
        version = model.model_version
        check_mindspore(version, label)
        later = [written_later(version, label)] if is_later(version) else []
        retarget(model, label)
        change(model)
        inputs = tuple(_input_spec(value, label) for value in model.graph.input)
        _link_parameters(model, source, Path(folder), label)
        file = Path(folder, "model.mindir")
        file.write_bytes(model.SerializeToString())
        try:
            graph = ms.load(str(file))
        except RuntimeError as error:
            raise ValueError(": ".join([f"load: MindSpore cannot read {label} ({_reason(error)})", *later])) from error
        return MindIRNetwork(graph, inputs, _output_specs(model.graph.output), *later)


def _reason(error: Exception) -> str:
    """Return the first line of what MindSpore says that is no heading."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line.strip("-") and not line.startswith("- ")), "no reason given")


def _input_spec(value: Any, label: str) -> InputSpec:
    tensor = value.tensor[0] if len(value.tensor) == 1 else None
    name = value.name.rpartition(":")[2]
    dtype = None if tensor is None else DTYPES.get(tensor.data_type)
    if tensor is None or dtype is None:
        raise ValueError(f"load: {label}: input {name} is not one tensor of real numbers, which is not supported")
    return InputSpec(name, tuple(tensor.dims), dtype)


def _output_specs(values: Any) -> tuple[InputSpec, ...] | None:
    """Describe the outputs. Names of the file are those of nodes: `output_0` and so on are used instead."""
    tensors: list[Any] = []
    for value in values:
        if not _collect(value.tensor, value.attr_info.values, tensors):
            return None
    dtypes = [DTYPES.get(tensor.data_type) for tensor in tensors]
    if None in dtypes or any(size < -1 for tensor in tensors for size in tensor.dims):  # -2: of any number of sizes
        return None
    return tuple(
        InputSpec(f"output_{index}", tuple(tensor.dims), dtype)
        for index, (tensor, dtype) in enumerate(zip(tensors, dtypes, strict=True))
    )


def _collect(held: Any, nested: Any, tensors: list[Any]) -> bool:
    """Append the tensors of an output, those in its tuples, too. False: it has none."""
    tensors.extend(held)
    return bool(held or nested) and all(_collect(value.tensors, value.values, tensors) for value in nested)


def _checked_input(value: Tensor | np.ndarray[Any, Any], spec: InputSpec) -> Tensor:
    # MindSpore 2.7 refuses arrays at odd addresses.
    tensor = Tensor(np.require(value, requirements="A")) if isinstance(value, np.ndarray) else value
    if not isinstance(tensor, Tensor):
        raise TypeError(f"the network: {spec.name} must be a Tensor or a NumPy array, got {type(value).__name__}")
    if tensor.dtype != spec.dtype:
        raise TypeError(f"the network: input must be {spec}, got {str(tensor.dtype).lower()}")
    sizes = list(zip(spec.shape, tensor.shape, strict=False))
    if len(tensor.shape) != len(spec.shape) or any(size not in (-1, got) for size, got in sizes):
        raise ValueError(f"the network: input must be {spec}, got {tuple(tensor.shape)}")
    return tensor


def _link_parameters(model: ModelProto, source: Path, folder: Path, label: str) -> None:
    """Make parameters in files of their own reachable from `folder`. MindSpore refuses a symbolic link."""
    for location, file in parameter_files(model, source, "load", label).items():
        (folder / location).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(file, folder / location)
        except OSError:  # another file system
            shutil.copyfile(file, folder / location)
