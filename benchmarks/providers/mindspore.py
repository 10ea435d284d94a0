"""MindSpore in GRAPH mode: what a user writes with stock operators, and the same with ours.

A call returns when the graph has run: on the CPU there is nothing to wait for afterwards. MindSpore keeps its own
number of threads, on the CPUs that the process may use: with `ms.runtime.dispatch_threads_num(2)` calls of 2 ms took
24 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.benchmarks.cases import Case
from ms_ascend_ops.benchmarks.providers import Prepared

from ms_ascend_ops import ops as fused_ops
from ms_ascend_ops.library import native

__all__ = ["fused", "stock"]

EPSILON = 1e-6


def _stock_rms_norm(x, gamma):
    values = x.astype(ms.float32)
    variance = values.pow(2).mean(-1, keep_dims=True)
    values = values * ops.rsqrt(variance + EPSILON)
    return gamma * values.astype(x.dtype)


def _stock_silu_mul(gate, up):
    return ops.silu(gate) * up


def _stock_swiglu(x):
    gate, up = ops.chunk(x, 2, -1)
    return ops.silu(gate) * up


def _fused_rms_norm(x, gamma):
    return fused_ops.rms_norm(x, gamma, EPSILON)[0]


STOCK = {"rms_norm": _stock_rms_norm, "silu_mul": _stock_silu_mul, "swiglu": _stock_swiglu}
FUSED = {"rms_norm": _fused_rms_norm, "silu_mul": fused_ops.silu_mul, "swiglu": fused_ops.swiglu}


class _Forward(nn.Cell):
    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function

    def construct(self, *inputs):
        return self.function(*inputs)


class _ForwardAndGradient(_Forward):
    def construct(self, dy, *inputs):
        y, gradient = ms.vjp(self.function, *inputs)
        return y, gradient(dy)


def stock(case: Case, threads: int) -> Prepared:
    """The composition of stock operators."""
    return _prepare(STOCK[case.operator], case)


def fused(case: Case, threads: int) -> Prepared:
    """The operators of this library."""
    native().set_thread_num(threads)
    return _prepare(FUSED[case.operator], case)


def _prepare(function: Callable[..., Tensor], case: Case) -> Prepared:
    ms.set_context(mode=ms.GRAPH_MODE)
    arrays = [case.dy, *case.inputs] if case.gradient else case.inputs
    tensors = [Tensor(array.astype(np.float32)).astype(getattr(ms, case.dtype)) for array in arrays]
    network = _ForwardAndGradient(function) if case.gradient else _Forward(function)
    return Prepared(lambda: network(*tensors), lambda returned: [_array(value) for value in _flat(returned)])


def _flat(value: Any) -> list[Tensor]:
    return [leaf for item in value for leaf in _flat(item)] if isinstance(value, tuple) else [value]


def _array(value: Tensor) -> np.ndarray:
    array: np.ndarray = value.astype(ms.float32).asnumpy()
    return array
