"""Lets measurements share the machine with other processes, and the time of a network with each other."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["Budget", "Machine"]


class Machine:
    """Shares a machine among several runs: they prepare together, and each has it for itself while it measures.

    The lock is that of a file, which the command flock(1) knows, too. Without a file nothing is locked.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._file = None if path is None else path.open("a", encoding="utf-8")
        self._lock(fcntl.LOCK_SH)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def _lock(self, kind: int) -> None:
        if self._file is not None:
            fcntl.flock(self._file, kind)

    @contextmanager
    def alone(self) -> Iterator[float]:
        """Hold the lock within the block. Gives the seconds that this had to wait."""
        start = time.perf_counter()
        self._lock(fcntl.LOCK_EX)
        after = fcntl.LOCK_SH
        try:
            yield time.perf_counter() - start
        except KeyboardInterrupt:
            after = fcntl.LOCK_UN  # an interrupted run does not wait for others
            raise
        finally:
            self._lock(after)


class Budget:
    """Shares out the seconds that a network may take, evenly to the parts that are still to come.

    What one part leaves over is the others'. Once begun, nothing is cut short: a part may take longer than its share.
    """

    def __init__(self, seconds: float, parts: int) -> None:
        self._end = time.perf_counter() + seconds
        self._parts = parts
        self._part_end = self._end

    def begin(self) -> None:
        """Begin the next part."""
        now = time.perf_counter()
        self._part_end = now + max(0.0, self._end - now) / max(1, self._parts)
        self._parts -= 1

    def left(self) -> float:
        """Return the seconds of the present part's share that are left; 0 when it is used up."""
        return max(0.0, self._part_end - time.perf_counter())

    def add(self, seconds: float) -> None:
        """Add time in which nothing could be done."""
        self._end += seconds
        self._part_end += seconds
