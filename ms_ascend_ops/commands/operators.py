"""`operators`: the table of operators."""

from __future__ import annotations

from pathlib import Path

import click

from ms_ascend_ops.commands.errors import reported
from ms_ascend_ops.operator_table import markdown, replace_table

__all__ = ["operators"]


@click.command()
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Renew the table in this file."
)
@click.option(
    "--check", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Fail if it is not up to date."
)
def operators(write: Path | None, check: Path | None) -> None:
    """Print the table of operators in Markdown, as in docs/operators.md; or renew it in a file."""
    with reported():
        if check and replace_table(check.read_text(encoding="utf-8")) != check.read_text(encoding="utf-8"):
            raise ValueError(
                f"{check}: the table of operators is not up to date. "
                f"Run `python -m ms_ascend_ops operators --write {check}`."
            )
        if write:
            write.write_text(replace_table(write.read_text(encoding="utf-8")), encoding="utf-8")
        if not write and not check:
            click.echo(markdown(), nl=False)
