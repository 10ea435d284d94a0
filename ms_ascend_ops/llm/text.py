"""Finds texts at which generation stops."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopFilter"]


class StopFilter:
    """Lets text through up to the first of some stop texts, which may come in several pieces."""

    def __init__(self, stops: Sequence[str]):
        self._stops = [stop for stop in stops if stop]
        self._held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """Return what may be given out: without an end that may be the beginning of a stop text."""
        if self.stopped:
            return ""
        self._held += text
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.stopped = True
            given, self._held = self._held[: min(places)], ""
            return given
        longest = max((self._overlap(stop) for stop in self._stops), default=0)
        cut = len(self._held) - longest
        given, self._held = self._held[:cut], self._held[cut:]
        return given

    def finish(self) -> str:
        """Return what is left, as nothing follows."""
        given, self._held = self._held, ""
        return given

    def _overlap(self, stop: str) -> int:
        """Return how many characters at the end are the beginning of the stop text."""
        most = min(len(self._held), len(stop) - 1)
        return next((size for size in range(most, 0, -1) if self._held.endswith(stop[:size])), 0)
