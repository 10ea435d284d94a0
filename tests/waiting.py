"""Waiting for a state of another thread or process: never for a time."""

import time


def wait(condition, what="", seconds=60):
    """Return when the condition holds; the seconds are there for a state that never comes."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what or "it did not happen"
        time.sleep(0.005)
