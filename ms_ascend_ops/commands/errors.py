"""Shows errors of the package as a command does: the message and an exit code, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ms_ascend_ops import extras
from ms_ascend_ops.commands.group import plain

__all__ = ["MissingExtra", "gone_if_interrupted", "need_extra", "reported"]


class MissingExtra(click.ClickException):
    """Reports that a command needs packages that are not installed."""

    exit_code = 2


def need_extra(command: str) -> None:
    """Require the extra of a command; call it in the first line.

    Raises:
        MissingExtra: a package of the extra is not installed.
    """
    if packages := extras.missing(command):
        raise MissingExtra(f"{command} needs {', '.join(packages)}: {extras.advice(command)}")


@contextmanager
def gone_if_interrupted(path: Path) -> Iterator[None]:
    """Delete files that the block has written when it did not end by itself: they may be half-written, or
    unverified.
    """
    before = path.exists()
    try:
        yield
    except BaseException:
        if not before:
            path.unlink(missing_ok=True)
        raise


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error that the package raised on purpose into a message, with exit code 1."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise click.ClickException(plain(error)) from error
