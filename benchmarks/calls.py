"""Measures what a call costs beside MindSpore's own `ops.add`, on tensors so small that nothing else counts."""

from __future__ import annotations

import math
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mindspore as ms
from mindspore import Tensor, nn, ops
from ms_ascend_ops.samples.cases import Case
from ms_ascend_ops.samples.network import Forward, arguments, flat
from ms_ascend_ops.samples.operators import operator

__all__ = ["MODES", "CallCost", "measure", "start_up"]

MODES = ("PyNative", "gradient", "graph")


@dataclass(frozen=True)
class CallCost:
    """Holds medians over alternating rounds, of the mean of a round."""

    operator: str
    mode: str
    us: float
    add_us: float

    @property
    def ratio(self) -> float:
        """Return the cost as a multiple of that of `ops.add`."""
        return self.us / self.add_us


class _Network(nn.Cell):  # type: ignore[misc]
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def construct(self, *tensors):  # type: ignore[no-untyped-def]
        return self.function(*tensors)


def _add(*tensors):  # type: ignore[no-untyped-def]
    return ops.add(tensors[0], tensors[0])


def _called(case: Case) -> Callable[..., Any]:
    """Return the operator as a user calls it."""
    function = case.operator.ours
    if not case.attributes:
        return function
    attributes = arguments(function, case)

    def called(*tensors):  # type: ignore[no-untyped-def]
        return function(*tensors, *attributes)

    return called


def _mean_us(function: Callable[..., Any], tensors: list[Tensor], calls: int) -> float:
    """Return the microseconds of a call. MindSpore may still compute when it returns, so the last result is read."""
    start = time.perf_counter()
    for _ in range(calls):
        result = function(*tensors)
    flat(result)[-1].asnumpy()
    return (time.perf_counter() - start) / calls * 1e6


def measure(names: Iterable[str], rounds: int = 15, calls: int = 200) -> Iterable[CallCost]:
    """Yield the cost of a call of each operator, on its smallest shape in float32."""
    for name in names:
        op = operator(name)
        case = Case(name, False, tuple(min(op.shapes, key=math.prod)), "float32", next(iter(op.variants)))
        tensors = [Tensor(array) for array in case.inputs]
        positions = tuple(i for i, tensor in enumerate(tensors) if tensor.dtype == ms.float32)
        for mode in MODES:
            ours, add = _called(case), _add
            if mode == "gradient":
                if not op.gradient:
                    continue
                ours, add = ms.grad(ours, positions), ms.grad(add, 0)
            elif mode == "graph":
                ours, add = Forward(op.ours, case), _Network(add)
            ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds + 1):
                for function, into in zip((ours, add), times, strict=True):
                    _mean_us(function, tensors, 5)
                    into.append(_mean_us(function, tensors, calls if mode == "PyNative" else calls // 10))
            medians = [statistics.median(values[1:]) for values in times]
            yield CallCost(name, mode, *medians)
    ms.set_context(mode=ms.PYNATIVE_MODE)


_START = """
import time
import numpy
from mindspore import Tensor
x, gamma = Tensor(numpy.ones((4, 64), numpy.float32)), Tensor(numpy.ones(64, numpy.float32))
x.asnumpy()
start = time.perf_counter()
from ms_ascend_ops import ops
imported = time.perf_counter()
ops.rms_norm(x, gamma)
print("took", imported - start, time.perf_counter() - imported)
"""


def start_up(processes: int = 5) -> tuple[float, float]:
    """Return medians over new processes, in ms: `from ms_ascend_ops import ops` where MindSpore is there, the
    first call.
    """
    runs = []
    for _ in range(processes):
        output = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True).stdout
        match = re.search(r"took (\S+) (\S+)", output)
        assert match is not None
        runs.append((float(match[1]) * 1e3, float(match[2]) * 1e3))
    imports, firsts = zip(*runs, strict=True)
    return statistics.median(imports), statistics.median(firsts)
