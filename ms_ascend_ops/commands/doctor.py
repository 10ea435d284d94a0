"""Defines `doctor`: whether the parts of an installation fit together, on one screen."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import asdict

import click

__all__ = ["doctor"]

_WIDTH, _INDENT = 80, 26
_MARKS = {"ok": ("ok", "green"), "warning": ("!!", "yellow"), "error": ("XX", "red"), "absent": ("--", None)}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For machines: a list of parts with status, found and remedy.")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Check that MindSpore, NumPy, the libraries, CANN, driver and environment fit together.

    Says for each part what is there, and what to do if that does not fit. Exit code 0: everything that this machine
    needs is in order; 1: something is not.
    """
    from ms_ascend_ops.doctor import examine

    checks = []
    for check in examine():
        checks.append(check)
        if as_json:
            continue
        mark, color = _MARKS[check.status]
        lines = [line for text in check.found.splitlines() for line in _wrapped(text)] or [""]
        click.echo(f"{click.style(mark, fg=color)}  {check.part:<{_INDENT - 5}} {lines[0]}")
        for line in lines[1:]:
            click.echo(" " * _INDENT + line)
        for number, line in enumerate(check.remedy.splitlines()):
            first = " " * _INDENT + ("   " if number else "-> ")
            click.echo(
                textwrap.fill(
                    line,
                    _WIDTH,
                    initial_indent=first,
                    subsequent_indent=" " * (_INDENT + 3),
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            )
    errors = [check for check in checks if check.status == "error"]
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=2))
    elif errors:
        click.echo(f"\n{len(errors)} to put right: {', '.join(check.part for check in errors)}")
    else:
        click.echo("\nEverything that this machine needs is in order.")
    ctx.exit(1 if errors else 0)


def _wrapped(text: str) -> list[str]:
    """Wrap a paragraph. Of a row of a table, further lines stand below its second column."""
    first = re.match(r"\S.*?  +", text)
    return textwrap.wrap(text, _WIDTH - _INDENT, subsequent_indent=" " * (len(first[0]) if first else 0))
