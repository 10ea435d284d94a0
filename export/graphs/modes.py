"""Provides context managers over MindSpore's modes and its log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import mindspore as ms
from mindspore import log, nn

from ms_ascend_ops.mindspore_versions import glog_level

__all__ = ["evaluating", "graph_mode", "pynative", "quiet", "synchronous"]

_FATAL = 3  # the level of glog above ERROR


@contextmanager
def evaluating(net: nn.Cell) -> Iterator[None]:
    """Run the block in evaluation mode, in which dropout does nothing; then restore each cell's own mode."""
    state = [(cell, cell.training, cell._phase) for _, cell in net.cells_and_names()]
    net.set_train(False)
    try:
        yield
    finally:
        for cell, training, phase in state:
            cell.add_flags(training=training)
            cell._phase = phase


@contextmanager
def pynative() -> Iterator[None]:
    """Run operators one by one within the block, whatever mode the user has set, and each to its end."""
    mode = ms.get_context("mode")
    with synchronous():
        ms.set_context(mode=ms.PYNATIVE_MODE)
        try:
            yield
        finally:
            ms.set_context(mode=mode)


@contextmanager
def graph_mode() -> Iterator[None]:
    """Compile and run graphs within the block, whatever mode the user has set."""
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=mode)


@contextmanager
def synchronous() -> Iterator[None]:
    """Run each operator to its end within the block, in PyNative mode.

    The threads of PyNative wait busily, where they have not been started yet that is saved. And an error comes from the
    operator that has it, not from a later one.
    """
    before = ms.get_context("pynative_synchronize")
    _set_synchronous(True)
    try:
        yield
    finally:
        _set_synchronous(before)


def _set_synchronous(value: bool) -> None:
    if ms.get_context("pynative_synchronize") != value:
        with quiet():  # MindSpore warns of it, and what it has in its place cannot be undone
            ms.set_context(pynative_synchronize=value)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence MindSpore's log within the block: for trials whose failure is an answer, and the caller's to report.

    The level is that of the process, so MindSpore is also quiet in other threads. What is written by anybody else is
    not touched.
    """
    _QUIET.enter()
    try:
        yield
    finally:
        _QUIET.leave()


class _Quiet:
    """Holds the levels of MindSpore's two logs, kept while at least one thread wants them quiet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before = (0, logging.NOTSET)

    def enter(self) -> None:
        with self._lock:
            if self._count == 0:
                level, logger = glog_level(), log._get_logger()
                self._before = level.value, logger.level
                level.value = max(level.value, _FATAL)
                logger.setLevel(logging.CRITICAL)
            self._count += 1

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                glog_level().value = self._before[0]
                log._get_logger().setLevel(self._before[1])


_QUIET = _Quiet()
