"""Writes a network as MindIR.

A MindIR names the kernel library by its absolute path on the machine that wrote it. That is of no concern here: `load`
puts the one of its own machine in its place.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import mindspore as ms
from google.protobuf.message import DecodeError
from mindspore import Tensor, nn
from mindspore.train.mind_ir_pb2 import ModelProto
from ms_ascend_ops.export.files.model import read_model, write_file
from ms_ascend_ops.export.graphs.modes import evaluating

from ms_ascend_ops.scratch import failed_graphs_apart

__all__ = ["export_mindir"]


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
            with evaluating(net), failed_graphs_apart():
                ms.export(net, *tensors, file_name=str(Path(folder, "model")), file_format="MINDIR")
        finally:
            ms.set_context(jit_syntax_level=syntax_level)  # ms.export leaves its own behind when it fails
        split = Path(folder, "model_graph.mindir")
        model = read_model(split if split.exists() else Path(folder, "model.mindir"), "export_mindir")
        obsolete = _variables_of(target)
        if split.exists():
            # Use a new name: until the graph is replaced, an older one still finds its older parameters.
            variables = f"{target.stem}_variables.{secrets.token_hex(4)}"
            for parameter in model.graph.parameter:
                name = PurePosixPath(parameter.external_data.location).name
                parameter.external_data.location = f"{variables}/{name}"
            os.rename(Path(folder, "model_variables"), target.with_name(variables))
        write_file(target, model.SerializeToString())  # MindSpore's own file is readable by its owner only
    for variables in obsolete:
        shutil.rmtree(target.with_name(variables), ignore_errors=True)
    return target


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


def _variables_of(path: Path) -> set[str]:
    """Return the folders with the parameters of an earlier export to the same path."""
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
