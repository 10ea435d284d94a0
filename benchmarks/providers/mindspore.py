"""Runs MindSpore: what a user writes with stock operators, and the same with ours, in GRAPH mode and in PyNative.

A call of a graph returns when it has run: on the CPU there is nothing to wait for afterwards. In PyNative there is.
MindSpore keeps its own number of threads, on the CPUs that the process may use: with
`ms.runtime.dispatch_threads_num(2)` calls of 2 ms took 24 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import mindspore as ms
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from ms_ascend_ops.benchmarks.providers import Prepared
from ms_ascend_ops.samples.cases import Case
from ms_ascend_ops.samples.network import Forward, flat, tensor
from numpy.typing import NDArray

from ms_ascend_ops.library import native

__all__ = ["fused", "pynative", "stock"]


class _InPlace(nn.Cell):  # type: ignore[misc]
    """Writes Parameters, which lie next to each other and stay where they are: a graph copies what it returns."""

    def __init__(self, function: Callable[..., Any], case: Case):
        super().__init__()
        self.forward = Forward(function, case)
        self.first = min(case.written)
        arrays = [case.inputs[i] for i in range(self.first, self.first + len(case.written))]
        self.written = ParameterTuple([Parameter(tensor(array), name=f"written{i}") for i, array in enumerate(arrays)])
        self.done = Tensor([1], ms.int32)

    def construct(self, *inputs):  # type: ignore[no-untyped-def]
        written = self.forward(*inputs[: self.first], *self.written, *inputs[self.first :])
        return ops.depend(self.done, written)


class ForwardAndGradient(nn.Cell):  # type: ignore[misc]
    """Returns the function's results and the gradients of its inputs. Takes gradients of the results, then inputs."""

    def __init__(self, function: Callable[..., Any], case: Case):
        super().__init__()
        self.forward = Forward(function, case)
        self.outputs = case.operator.outputs

    def construct(self, *tensors):  # type: ignore[no-untyped-def]
        y, gradient = ms.vjp(self.forward, *tensors[self.outputs :])
        return y, gradient(*tensors[: self.outputs])


def stock(case: Case, threads: int) -> Prepared:
    """Prepare the composition of stock operators."""
    return _prepare(case.operator.stock, case, ms.GRAPH_MODE)


def fused(case: Case, threads: int) -> Prepared:
    """Prepare the operators of this library."""
    native().set_thread_num(threads)
    return _prepare(case.operator.ours, case, ms.GRAPH_MODE)


def pynative(case: Case, threads: int) -> Prepared:
    """Prepare the operators of this library, each called by Python."""
    native().set_thread_num(threads)
    return _prepare(case.operator.ours, case, ms.PYNATIVE_MODE)


def _prepare(function: Callable[..., Any], case: Case, mode: int) -> Prepared:
    cell = _InPlace if case.written else ForwardAndGradient if case.gradient else Forward
    network = cell(function, case)
    given = [array for i, array in enumerate(case.inputs) if i not in case.written]
    tensors = [tensor(array) for array in (case.dys if case.gradient else []) + given]

    def graph() -> Any:
        return network(*tensors)

    # A function, as that of PyTorch: a cell takes as long as a small kernel, and only gradients need one.
    called = network.construct if cell is Forward else network

    def by_python() -> Any:
        returned = called(*tensors)
        for value in flat(returned):
            value.data_sync(True)
        return returned

    def results(returned: Any) -> list[NDArray[Any]]:
        outputs, gradients = list(network.written) if case.written else flat(returned), []
        if case.gradient:
            count = case.operator.outputs
            outputs, gradients = outputs[:count], [outputs[count + i] for i in case.differentiable]
        return [value.astype(ms.float32).asnumpy() for value in outputs + gradients]

    return Prepared(graph if mode == ms.GRAPH_MODE else by_python, results, partial(_round, mode))


@contextmanager
def _round(mode: int) -> Iterator[None]:
    before = ms.get_context("mode")
    ms.set_context(mode=mode)
    try:
        yield
    finally:
        ms.set_context(mode=before)
