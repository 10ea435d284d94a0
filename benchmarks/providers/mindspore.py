"""MindSpore: what a user writes with stock operators, and the same with ours, in GRAPH mode and in PyNative.

A call of a graph returns when it has run: on the CPU there is nothing to wait for afterwards. In PyNative there is.
MindSpore keeps its own number of threads, on the CPUs that the process may use: with
`ms.runtime.dispatch_threads_num(2)` calls of 2 ms took 24 ms.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
from ms_ascend_ops.benchmarks.cases import Case
from ms_ascend_ops.benchmarks.providers import Prepared

from ms_ascend_ops.library import native

__all__ = ["Forward", "ForwardAndGradient", "arguments", "flat", "fused", "pynative", "stock", "tensor"]


class Forward(nn.Cell):
    """A function with the attributes of a case."""

    def __init__(self, function: Callable[..., Any], case: Case):
        super().__init__()
        self.function = function
        self.arguments = arguments(function, case)

    def construct(self, *inputs):
        return self.function(*inputs, *self.arguments)


class _InPlace(nn.Cell):
    """What is written are Parameters, next to each other, and stays where it is: a graph copies what it returns."""

    def __init__(self, function: Callable[..., Any], case: Case):
        super().__init__()
        self.forward = Forward(function, case)
        self.first = min(case.written)
        arrays = [case.inputs[i] for i in range(self.first, self.first + len(case.written))]
        self.written = ParameterTuple([Parameter(tensor(array), name=f"written{i}") for i, array in enumerate(arrays)])
        self.done = Tensor([1], ms.int32)

    def construct(self, *inputs):
        written = self.forward(*inputs[: self.first], *self.written, *inputs[self.first :])
        return ops.depend(self.done, written)


class ForwardAndGradient(nn.Cell):
    """What the function returns, and the gradients of its inputs. Takes gradients of what it returns, then inputs."""

    def __init__(self, function: Callable[..., Any], case: Case):
        super().__init__()
        self.forward = Forward(function, case)
        self.outputs = case.operator.outputs

    def construct(self, *tensors):
        y, gradient = ms.vjp(self.forward, *tensors[self.outputs :])
        return y, gradient(*tensors[: self.outputs])


def arguments(function: Callable[..., Any], case: Case) -> tuple[Any, ...]:
    """The attributes in the order of the function's parameters: MindSpore differentiates no function with keywords."""
    parameters = list(inspect.signature(function).parameters.values())[len(case.inputs) :]
    if unknown := set(case.attributes) - {parameter.name for parameter in parameters}:
        raise ValueError(f"{case.operator_name}: {function.__name__} has no parameter {', '.join(sorted(unknown))}")
    return tuple(case.attributes.get(parameter.name, parameter.default) for parameter in parameters)


def stock(case: Case, threads: int) -> Prepared:
    """The composition of stock operators."""
    return _prepare(case.operator.stock, case, ms.GRAPH_MODE)


def fused(case: Case, threads: int) -> Prepared:
    """The operators of this library."""
    native().set_thread_num(threads)
    return _prepare(case.operator.ours, case, ms.GRAPH_MODE)


def pynative(case: Case, threads: int) -> Prepared:
    """The operators of this library, each called by Python."""
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

    def results(returned: Any) -> list[np.ndarray]:
        outputs, gradients = list(network.written) if case.written else flat(returned), []
        if case.gradient:
            count = case.operator.outputs
            outputs, gradients = outputs[:count], [outputs[count + i] for i in case.differentiable]
        return [value.astype(ms.float32).asnumpy() for value in outputs + gradients]

    return Prepared(graph if mode == ms.GRAPH_MODE else by_python, results, lambda: ms.set_context(mode=mode))


def tensor(array: np.ndarray) -> Tensor:
    """One of MindSpore."""
    if array.dtype.name == "bfloat16":  # NumPy's bfloat16 is none to MindSpore
        return Tensor(array.astype(np.float32)).astype(ms.bfloat16)
    return Tensor(array)


def flat(value: Any) -> list[Tensor]:
    """What a network returned, tuples in tuples, as a list."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]
