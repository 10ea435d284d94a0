"""A circuit breaker: takes an implementation out after a failure, and lets it back after a pause, for one try."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Breaker"]

_LONGEST = 64  # a pause is at most this many times the first one


@dataclass
class Breaker:
    """Counts the failures of one implementation of one operator.

    After a failure it is open: calls go elsewhere. When the pause is over one call tries again; the next pause is twice
    as long if that one fails, too. `pause` in seconds; infinite: out until `reset`.
    """

    pause: float = 30.0
    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    reason: str = ""  # of the last failure
    _until: float = 0.0
    _next: float = 0.0
    _open: bool = False

    @property
    def state(self) -> str:
        """closed: in use; open: out; half-open: the next call tries it."""
        if not self._open:
            return "closed"
        return "open" if self.clock() < self._until else "half-open"

    @property
    def closed(self) -> bool:
        return not self._open

    def allows(self) -> bool:
        """Tell whether a call may go there. Of half-open ones one call gets True, the others wait for its result."""
        if not self._open:
            return True
        now = self.clock()
        if now < self._until:
            return False
        self._until = now + self._next
        return True

    def fail(self, reason: str, forever: bool = False) -> bool:
        """Open it. Returns whether it was closed before: time to say so."""
        was_closed = not self._open
        self.failures += 1
        self.reason = reason
        self._next = self.pause if was_closed else min(2 * self._next, _LONGEST * self.pause)
        self._until = float("inf") if forever else self.clock() + self._next
        self._open = True
        return was_closed

    def succeed(self) -> bool:
        """Close it. Returns whether it was open."""
        was_open, self._open = self._open, False
        return was_open
