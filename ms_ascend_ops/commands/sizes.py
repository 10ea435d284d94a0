"""Parses sizes on the command line."""

from __future__ import annotations

import click

__all__ = ["sizes_of"]


def sizes_of(text: str, option: str = "--shape", form: str = "2048,4096", least: int = 0) -> tuple[int, ...]:
    """Return the numbers in `2048,4096` or `2048x4096`, none of which is below `least`.

    Raises:
        BadParameter: it is of another form; `option` and `form` are for the message.
    """
    parts = [part.strip() for part in text.replace("x", ",").split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part) >= least for part in parts):
        raise click.BadParameter(f"must be of the form {form}, got {text}", param_hint=option)
    return tuple(int(part) for part in parts)
