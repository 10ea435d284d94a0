"""Defines `optimize`: fused operators in a MindIR or ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ms_ascend_ops.commands.errors import gone_if_interrupted, need_extra, reported
from ms_ascend_ops.commands.group import ExistingPath

if TYPE_CHECKING:
    from ms_ascend_ops.export.reports.report import Report

__all__ = ["optimize"]


@click.command()
@click.argument("network", type=ExistingPath(dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: beside NETWORK, as .fused.mindir.")
@click.option(
    "--level",
    type=click.Choice(["O0", "O1", "O2", "O3"]),
    default="O2",
    help="O0 nothing, O1 exact replacements, O2 also rounding elsewhere in half precision, O3 also several layers.",
)
@click.option("--join-products", is_flag=True, hidden=True)  # of release 0.2
@click.option("--report", "page", type=click.Path(path_type=Path), help="Write the report here, as a web page.")
@click.option(
    "--verify", is_flag=True, help="Run both files on random inputs and compare; needs kernels for all operators here."
)
@click.option(
    "--atc", is_flag=True, help="ONNX: write a file that CANN's atc reads. It names the domain of every node."
)
def optimize(
    network: Path, output: Path | None, level: str, join_products: bool, page: Path | None, verify: bool, atc: bool
) -> None:
    """Find the places for fused operators in NETWORK, and write a file that has them there.

    NETWORK is a MindIR, or a file `.onnx`, for which the extra [onnx] is needed. It is not changed, and no Python of it
    is needed. The table says what was replaced, and what was recognised but stays, with the reason. With --verify the
    exit code is 2, and no file is left, if the outputs differ too much, or NETWORK does not run on this machine. An
    ONNX file is verified wherever ONNX Runtime is installed.
    """
    from ms_ascend_ops.export.reports.page import write_page

    if join_products:
        click.echo("--join-products has no effect: `load` joins products on a CPU; it goes with release 0.3", err=True)
    is_onnx = network.suffix == ".onnx"
    target = output or network.with_suffix(f".fused{network.suffix if is_onnx else '.mindir'}")
    if is_onnx:
        need_extra("optimize model.onnx")
    elif atc:
        raise click.UsageError(f"--atc is for ONNX files, got {network}")
    with reported():
        if is_onnx:
            report = _optimize_onnx(network, target, level, verify, atc)
        else:
            report = _optimize_mindir(network, target, level, verify)
        if page:
            write_page(report, page, title=network.name)
    click.echo(str(report))
    if page:
        click.echo(f"The report is in {page}")
    if report.rolled_back:
        raise SystemExit(2)
    count = len(report.replaced)
    click.echo(f"{target}: {count} place{'' if count == 1 else 's'} replaced, {len(report.skipped)} left")
    if atc:
        click.echo(f"Compile it with: atc --framework=5 --model={target} --soc_version=... (docs/onnx.md)")
    elif is_onnx:
        click.echo("ONNX Runtime runs it with options.register_custom_ops_library(ms_ascend_ops.onnx.library_path())")
    else:
        click.echo(f"Run it with: python -m ms_ascend_ops infer {target}")


def _optimize_mindir(network: Path, target: Path, level: str, verify: bool) -> Report:
    from ms_ascend_ops.export.engines.mindir_engine import optimize_mindir, verify_mindir

    report = optimize_mindir(network, target, level=level)
    if verify:
        with gone_if_interrupted(target):
            verify_mindir(network, target, report)
    return report


def _optimize_onnx(network: Path, target: Path, level: str, verify: bool, atc: bool) -> Report:
    from ms_ascend_ops.onnx import optimize as optimize_onnx

    with gone_if_interrupted(target):
        return optimize_onnx(network, target, level=level, verify=verify or None, atc=atc)
