"""Compare outputs and gradients of a network before and after its cells were exchanged."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import mindspore as ms
from mindspore import Tensor, nn
from ms_ascend_ops.export.engines.experts import Experts
from ms_ascend_ops.export.graphs.modes import graph_mode
from ms_ascend_ops.export.graphs.probe import synchronize
from ms_ascend_ops.export.graphs.state import State
from ms_ascend_ops.export.reports.measure import Measured, loses_gradients, measure
from ms_ascend_ops.export.reports.report import Difference, Report

__all__ = ["Proof"]

_T = TypeVar("_T")


class _Changed(Protocol):
    """A change holds what was done to the network."""

    experts: Experts | None
    blind: set[str]  # patterns that were replaced by operators with an input without gradient
    in_place: bool  # whether a changed source has statements that the modes take differently

    def stock(self) -> AbstractContextManager[None]:
        """Restore the stock network within the block."""


class Proof:
    """Hold what a network gives before anything is done to it; each of its runs starts from the same state."""

    def __init__(
        self,
        net: nn.Cell,
        calls: Sequence[Sequence[Tensor]],
        state: State,
        before: Measured | None,
        *,
        gradients: bool,
        graph: bool | None,
        tolerance: float | None,
    ) -> None:
        """Take `before`: what the network gives, where that is known."""
        self._net, self._calls, self._state = net, calls, state
        self._gradients, self._graph = gradients, graph
        self._pynative = ms.get_context("mode") == ms.PYNATIVE_MODE
        self._before = before if before is not None else self._measure(gradients)
        self._limit = self._before.tolerance if tolerance is None else tolerance

    def _measure(self, gradients: bool) -> Measured:
        made: Measured = self._from_state(lambda: measure(self._net, self._calls, gradients))
        return made

    def _from_state(self, run: Callable[[], _T]) -> _T:
        self._state.restore()
        try:
            return run()
        finally:
            self._state.restore()

    def check(self, report: Report, changed: _Changed) -> set[str]:
        """Measure what has changed, and put everything back if that is too much.

        Returns:
            Names of the patterns in whose operators a gradient ended that the network needs, if this is why.
        """
        try:
            after = self._measure(self._gradients)
        except Exception as error:
            report.roll_back(f"the network fails with the fused operators: {error}")
            return set()
        if changed.experts is not None:
            after.gradients = changed.experts.gradients_of_stock(after.gradients)
        report.outputs, report.gradients = self._before.difference(after)
        report.modes = "in PyNative mode; graph=True compares in graphs, too" if self._pynative else "in graph mode"
        if self._pynative:
            report.primitives = Counter(self._before.primitives), Counter(after.primitives)
        if not report.outputs.relative <= self._limit:
            report.roll_back(f"the outputs differ by {report.outputs.relative:.2e}, more than {self._limit:g}")
            return set()
        if report.gradients is not None and not report.gradients.relative <= self._limit:
            report.roll_back(f"the gradients differ by {report.gradients.relative:.2e}, more than {self._limit:g}")
            return changed.blind
        # The network may be trained later, even if no gradients were to be compared.
        if report.gradients is None and changed.blind and self._loses_gradients(changed):
            report.roll_back("a parameter no longer gets its gradient")
            return changed.blind
        if self._pynative and (changed.in_place if self._graph is None else self._graph):
            self._check_graph(report, changed)
        return set()

    def _loses_gradients(self, changed: _Changed) -> bool:
        """Tell whether a gradient ends in a fused operator; False where none can be computed."""
        if not self._net.trainable_params():
            return False
        try:
            return bool(self._from_state(lambda: loses_gradients(self._net, self._calls, changed.stock)))
        except Exception:  # a network that is for inference only, or operators without a gradient on this machine
            synchronize()
            return False

    def _check_graph(self, report: Report, changed: _Changed) -> None:
        """Compare what the network gives in a graph; where its own graph gives something else, with that."""
        start = time.perf_counter()
        after = self._in_graph()
        difference = None if isinstance(after, str) else _larger(self._before.difference(after))
        if difference is None or not difference.relative <= self._limit:
            with changed.stock():
                stock = self._in_graph()
            if isinstance(stock, str):
                report.modes = f"in PyNative mode; its graph cannot be compiled ({stock})"
                return
            if isinstance(after, str):
                report.roll_back(f"its graph fails with the fused operators: {after}")
                return
            difference = _larger(stock.difference(after))
        seconds = time.perf_counter() - start
        report.modes = f"in PyNative mode, and in graph mode ({difference.relative:.2e}, in {seconds:.1f} s)"
        if not difference.relative <= self._limit:
            report.roll_back(f"in graph mode it differs by {difference.relative:.2e}, more than {self._limit:g}")

    def _in_graph(self) -> Measured | str:
        """Return what the network gives in graph mode, or why it gives nothing."""
        try:
            with graph_mode():
                return self._measure(self._gradients)
        except Exception as error:
            synchronize()
            lines = str(error).strip().splitlines()
            return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _larger(differences: tuple[Difference, Difference | None]) -> Difference:
    """Return the larger difference of those of outputs and gradients."""
    return max((d for d in differences if d is not None), key=lambda d: d.relative)
