"""Begins and ends a process of the command line. Imports nothing that takes time."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

__all__ = ["begin", "run"]

INTERRUPTED = 130  # of a shell: 128 and the number of SIGINT


def begin() -> None:
    """Until a command runs, Ctrl-C ends the process: imports can be interrupted anywhere, with a traceback."""
    signal.signal(signal.SIGINT, _end)


def _end(*_: Any) -> NoReturn:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def run(arguments: list[str] | None = None, name: str = "ms-ascend-ops") -> None:
    """Run a command line as this process."""
    begin()
    from ms_ascend_ops.__main__ import main  # noqa: PLC0415 - behind `begin`

    try:
        main(arguments, prog_name=name)
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # MindSpore, interrupted in its import, does not survive the end of Python
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(INTERRUPTED)
        raise
