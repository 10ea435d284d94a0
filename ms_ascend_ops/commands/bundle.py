"""Defines `bundle`: a MindIR with all that belongs to it in one file."""

from __future__ import annotations

from pathlib import Path

import click

from ms_ascend_ops.commands.group import ExistingPath
from ms_ascend_ops.commands.onnx_model import SHAPE_HELP, as_mindir

__all__ = ["bundle"]


@click.command()
@click.argument("mindir", type=ExistingPath(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: beside the MindIR, as .msbundle.")
@click.option("--shape", "shapes", multiple=True, metavar="[NAME=]SIZES", help=SHAPE_HELP)
@click.option("--chip", help="The only chip it may run on, e.g. ascend910b; default: any.")
def bundle(mindir: Path, output: Path | None, shapes: tuple[str, ...], chip: str | None) -> None:
    """Pack MINDIR, its parameters and a manifest into one file that `load` and `infer` take on any machine.

    The manifest has the versions of this package, MindSpore and CANN, the operators that the network needs, and the
    SHA-256 of every file. Loading checks all of it. MINDIR may be an ONNX file, too, as for `convert`.
    """
    from ms_ascend_ops.commands.errors import reported
    from ms_ascend_ops.export.files.bundle import bundle as pack
    from ms_ascend_ops.export.files.bundle import read_manifest

    if shapes and mindir.suffix != ".onnx":
        raise click.UsageError(f"--shape is for ONNX files, got {mindir}")
    with reported(), as_mindir(mindir, shapes, "bundle") as file:
        path = pack(file, output or mindir.with_suffix(".msbundle"), chip)
    manifest = read_manifest(path)
    operators = ", ".join(f"{name} (version {version})" for name, version in manifest["operators"].items())
    size = sum(file["bytes"] for file in manifest["files"].values())
    click.echo(f"{path}: {len(manifest['files'])} files, {size / 2**20:.1f} MiB; operators: {operators or 'none'}")
    click.echo(f"Run it with: python -m ms_ascend_ops infer {path} --input x.npy")
