"""Defines `convert`: an ONNX file as MindIR."""

from __future__ import annotations

from pathlib import Path

import click

from ms_ascend_ops.commands.group import ExistingPath
from ms_ascend_ops.commands.onnx_model import SHAPE_HELP

__all__ = ["convert"]


@click.command()
@click.argument("model", type=ExistingPath(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: beside MODEL, as .mindir.")
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]SIZES", help=SHAPE_HELP)
def convert(model: Path, output: Path | None, shapes: tuple[str, ...]) -> None:
    """Write MODEL, an ONNX file, as a MindIR of MindSpore's own operators. It needs the extra [onnx].

    The MindIR is for the sizes given; an input whose sizes the file leaves open needs a --shape. A node that has no
    form here is named, and nothing is written.
    """
    from ms_ascend_ops.commands.errors import need_extra, reported
    from ms_ascend_ops.commands.onnx_model import shapes_by_name

    need_extra("convert")
    from ms_ascend_ops.export.from_onnx.convert import convert_onnx

    with reported():
        path = convert_onnx(model, output or model.with_suffix(".mindir"), shapes=shapes_by_name(model, shapes))
    click.echo(f"{path}\nPut fused operators into it with: python -m ms_ascend_ops optimize {path}")
