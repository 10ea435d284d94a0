"""PyTorch on the CPU: eager, and through torch.compile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from ms_ascend_ops.benchmarks.cases import Case
from ms_ascend_ops.benchmarks.providers import Prepared

try:
    import torch
except ImportError:
    raise ImportError("PyTorch is not installed") from None

__all__ = ["compiled", "eager"]

EPSILON = 1e-6


def _rms_norm(x: torch.Tensor, gamma: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, gamma.shape, gamma, EPSILON)


def _silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.silu(gate) * up


def _swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


FUNCTIONS = {"rms_norm": _rms_norm, "silu_mul": _silu_mul, "swiglu": _swiglu}


def eager(case: Case, threads: int) -> Prepared:
    """Operator by operator."""
    return _prepare(FUNCTIONS[case.operator], case, threads)


def compiled(case: Case, threads: int) -> Prepared:
    """One fused kernel, made by inductor."""
    torch.compiler.reset()  # each case is compiled for its own shapes
    return _prepare(torch.compile(FUNCTIONS[case.operator], dynamic=False, fullgraph=True), case, threads)


def _prepare(function: Callable[..., torch.Tensor], case: Case, threads: int) -> Prepared:
    torch.set_num_threads(threads)
    inputs = [_tensor(array, case.dtype).requires_grad_(case.gradient) for array in case.inputs]
    dy = _tensor(case.dy, case.dtype)

    def forward() -> list[torch.Tensor]:
        with torch.no_grad():
            return [function(*inputs)]

    def forward_and_gradient() -> list[torch.Tensor]:
        y = function(*inputs)
        return [y, *torch.autograd.grad(y, inputs, dy)]

    run = forward_and_gradient if case.gradient else forward
    return Prepared(run, lambda returned: [value.detach().float().numpy() for value in returned])


def _tensor(array: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, dtype))
