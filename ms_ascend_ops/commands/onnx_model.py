"""Takes ONNX files where a command wants a MindIR."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from ms_ascend_ops.commands.sizes import sizes_of

__all__ = ["SHAPE_HELP", "as_mindir", "shapes_by_name"]

SHAPE_HELP = "ONNX: shape of an input, e.g. 2,128 in the order of the inputs, or image=1,3,224,224."


@contextmanager
def as_mindir(model: Path, shapes: Sequence[str], command: str) -> Iterator[Path]:
    """Yield the MindIR of an ONNX file, for as long as the block runs; any other file as it is.

    Raises:
        MissingExtra: a package of the extra [onnx] is not installed.
    """
    if model.suffix != ".onnx":
        yield model
        return
    from ms_ascend_ops.commands.errors import need_extra

    need_extra(f"{command} model.onnx")
    from ms_ascend_ops.export.from_onnx.convert import convert_onnx

    with tempfile.TemporaryDirectory(prefix="ms_ascend_ops-") as folder:
        yield convert_onnx(model, Path(folder, model.stem), shapes=shapes_by_name(model, shapes))


def shapes_by_name(model: Path, shapes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return what `--shape` says, as `convert_onnx` wants it."""
    if not shapes:
        return {}
    from ms_ascend_ops.export.from_onnx.convert import input_names

    names = input_names(model)
    found: dict[str, tuple[int, ...]] = {}
    for position, text in enumerate(shapes):
        name, separator, sizes = text.rpartition("=")
        if not separator:
            if position >= len(names):
                raise click.UsageError(f"--shape: {model} has {len(names)} inputs, got {len(shapes)} shapes")
            name = names[position]
        if name in found:
            raise click.UsageError(f"--shape: there are two for {name}")
        found[name] = sizes_of(sizes, form="2,128 or NAME=2,128")
    return found
