"""Defines `operators`: the list of operators, and their table."""

from __future__ import annotations

from pathlib import Path

import click

from ms_ascend_ops.commands.errors import reported
from ms_ascend_ops.operator_table import listing, markdown, replace_table

__all__ = ["operators"]


@click.command()
@click.option("--markdown", "as_table", is_flag=True, help="Arguments, shapes, dtypes and gradients, too, in Markdown.")
@click.option(
    "--write", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Renew that table in this file."
)
@click.option(
    "--check", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Fail if it is not up to date."
)
def operators(as_table: bool, write: Path | None, check: Path | None) -> None:
    """List the operators; as a table, with all that docs/operators.md has of them; or renew that table in a file."""
    with reported():
        if check and replace_table(check.read_text(encoding="utf-8")) != check.read_text(encoding="utf-8"):
            raise ValueError(
                f"{check}: the table of operators is not up to date. "
                f"Run `python -m ms_ascend_ops operators --write {check}`."
            )
        if write:
            write.write_text(replace_table(write.read_text(encoding="utf-8")), encoding="utf-8")
        if not write and not check:
            click.echo(
                markdown() if as_table else f"{listing()}\n\nWith arguments, shapes and dtypes: --markdown",
                nl=not as_table,
            )
