"""Frames a command that measures for a long time: a progress bar, and an interruption keeps what there is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["Measuring", "measuring", "warn_if_busy"]


@dataclass
class Measuring:
    """Measures what goes on within the block of `measuring`."""

    progress: Any
    task: Any
    interrupted: bool = False

    def tell(self, text: str) -> None:
        """Show what is being done."""
        self.progress.update(self.task, description=text)

    def advance(self) -> None:
        """Advance by one.

        Raises:
            KeyboardInterrupt: see `check`.
        """
        self.check()
        self.progress.advance(self.task)

    def check(self) -> None:
        """Raise an interruption again: MindSpore's compiler makes another error of it, which callers take for
        one of the network.

        Raises:
            KeyboardInterrupt: there was an interruption.
        """
        if self.interrupted:
            raise KeyboardInterrupt


@contextmanager
def measuring(console: Any, total: int) -> Iterator[Measuring]:
    """End the block and nothing else on Ctrl-C or on SIGTERM, which a time limit sends; `interrupted` says so."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as progress:
        made = Measuring(progress, progress.add_task("", total=total))

        def interrupt(*_: Any) -> None:
            made.interrupted = True
            raise KeyboardInterrupt

        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield made
        except KeyboardInterrupt:
            made.interrupted = True
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def warn_if_busy(console: Any) -> None:
    """Warn of a busy machine, whose figures mean nothing."""
    load = os.getloadavg()[0]
    if load > 0.5:
        console.print(f"this machine is busy (load {load:.1f}): the figures will be too low", style="yellow")
