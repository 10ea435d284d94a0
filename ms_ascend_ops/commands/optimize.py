"""`optimize`: fused operators in a MindIR file."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["optimize"]


@click.command()
@click.argument("mindir", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: beside MINDIR, as .fused.mindir.")
@click.option(
    "--level",
    type=click.Choice(["O0", "O1", "O2", "O3"]),
    default="O2",
    help="O0 nothing, O1 exact replacements, O2 also rounding elsewhere in half precision, O3 also several layers.",
)
@click.option("--report", "page", type=click.Path(path_type=Path), help="Write the report here, as a web page.")
@click.option(
    "--verify", is_flag=True, help="Run both files on random inputs and compare; needs kernels for all operators here."
)
def optimize(mindir: Path, output: Path | None, level: str, page: Path | None, verify: bool) -> None:
    """Find the places for fused operators in MINDIR, and write a file that has them there.

    The file is changed without MindSpore running anything. The table says what was replaced, and what was recognised
    but stays, with the reason. With --verify the exit code is 2, and no file is left, if the outputs differ too much.
    """
    from ms_ascend_ops.commands.errors import reported
    from ms_ascend_ops.export.engines.mindir_engine import optimize_mindir, verify_mindir
    from ms_ascend_ops.export.reports.page import write_page

    target = output or mindir.with_suffix(".fused.mindir")
    with reported():
        report = optimize_mindir(mindir, target, level=level)
        if verify:
            verify_mindir(mindir, target, report)
        if page:
            write_page(report, page, title=mindir.name)
    click.echo(str(report))
    if page:
        click.echo(f"The report is in {page}")
    if report.rolled_back:
        raise SystemExit(2)
    click.echo(f"{target}: {len(report.replaced)} places replaced, {len(report.skipped)} left")
    click.echo(f"Run it with: python -m ms_ascend_ops infer {target}")
