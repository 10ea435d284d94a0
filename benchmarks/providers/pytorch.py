"""Runs PyTorch on the CPU: eager, through torch.compile, and with our operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from ms_ascend_ops.benchmarks.providers import Prepared
from ms_ascend_ops.samples.cases import Case
from numpy.typing import NDArray

try:
    import torch
except ImportError:
    raise ImportError("PyTorch is not installed") from None

__all__ = ["compiled", "eager", "ours"]


def eager(case: Case, threads: int) -> Prepared:
    """Prepare a run operator by operator."""
    return _prepare(_function(case), case, threads)


def compiled(case: Case, threads: int) -> Prepared:
    """Prepare one fused kernel, made by inductor."""
    torch.compiler.reset()  # each case is compiled for its own shapes
    return _prepare(torch.compile(_function(case), dynamic=False, fullgraph=True), case, threads)


def ours(case: Case, threads: int) -> Prepared:
    """Prepare forward, then gradient if the case has one, each by a call of `torch.ops`, into PyTorch's memory."""
    import ms_ascend_ops.torch  # noqa: F401 - registers the operators

    operators = torch.ops.ms_ascend_ops
    calls = []
    for launch in case.launches:
        tensors = [None if array is None else _tensor(array) for array in launch.inputs]
        values = launch.attributes.values()
        calls.append(partial(getattr(operators, launch.kernel), *tensors, *values))

    def results(returned: Any) -> list[NDArray[Any]]:
        for launch, outputs in zip(case.launches, returned, strict=True):
            for array, tensor in zip(launch.outputs, _listed(outputs), strict=True):
                array[...] = tensor.float().numpy() if tensor.is_floating_point() else tensor.numpy()
        return case.results

    return Prepared(lambda: [call() for call in calls], results, partial(_round, threads, False))


def _function(case: Case) -> Callable[..., Any]:
    return partial(case.operator.pytorch, torch, **case.attributes)


def _prepare(function: Callable[..., Any], case: Case, threads: int) -> Prepared:
    inputs = [_tensor(array).requires_grad_(i in case.differentiable) for i, array in enumerate(case.own_inputs())]
    differentiable = [inputs[i] for i in case.differentiable]
    dys = [_tensor(array) for array in case.dys] if case.gradient else []

    def forward_and_gradient() -> list[torch.Tensor]:
        outputs = _listed(function(*inputs))
        return [*outputs, *torch.autograd.grad(outputs, differentiable, dys)]

    def results(returned: Any) -> list[NDArray[Any]]:
        return [value.detach().float().numpy() for value in _listed(returned)]

    around = partial(_round, threads, case.gradient)
    return Prepared(forward_and_gradient if case.gradient else partial(function, *inputs), results, around)


@contextmanager
def _round(threads: int, gradient: bool) -> Iterator[None]:
    """Wrap a whole round: `torch.no_grad()` around every call would take as long as a small kernel."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.set_grad_enabled(gradient):
            yield
    finally:
        torch.set_num_threads(before)


def _listed(outputs: Any) -> list[torch.Tensor]:
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def _tensor(array: NDArray[Any]) -> torch.Tensor:
    if array.dtype.name == "bfloat16":  # NumPy's bfloat16 is none to PyTorch
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array)
