"""Context managers over MindSpore's modes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import mindspore as ms
from mindspore import nn

__all__ = ["evaluating", "pynative"]


@contextmanager
def evaluating(net: nn.Cell) -> Iterator[None]:
    """Evaluation mode within the block, in which dropout does nothing; then each cell's own mode again."""
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
    """Run operators one by one within the block, whatever mode the user has set."""
    mode = ms.get_context("mode")
    ms.set_context(mode=ms.PYNATIVE_MODE)
    try:
        yield
    finally:
        ms.set_context(mode=mode)
