"""Errors of the package as a command shows them: the message, and exit code 1 without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["reported"]


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error that the package raised on purpose into a message."""
    try:
        yield
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise click.ClickException(str(error)) from error
