"""Builds a network of MindSpore from a case."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn
from ms_ascend_ops.samples.cases import Case
from numpy.typing import NDArray

__all__ = ["Forward", "arguments", "flat", "tensor"]


class Forward(nn.Cell):  # type: ignore[misc]
    """Calls a function with the attributes of a case."""

    def __init__(self, function: Callable[..., Any], case: Case):
        super().__init__()
        self.function = function
        self.arguments = arguments(function, case)

    def construct(self, *inputs):  # type: ignore[no-untyped-def]
        return self.function(*inputs, *self.arguments)


def arguments(function: Callable[..., Any], case: Case) -> tuple[Any, ...]:
    """Return the attributes in the order of the function's parameters: MindSpore differentiates no function
    with keywords.
    """
    parameters = list(inspect.signature(function).parameters.values())[len(case.inputs) :]
    if unknown := set(case.attributes) - {parameter.name for parameter in parameters}:
        raise ValueError(f"{case.operator_name}: {function.__name__} has no parameter {', '.join(sorted(unknown))}")
    return tuple(case.attributes.get(parameter.name, parameter.default) for parameter in parameters)


def tensor(array: NDArray[Any]) -> Tensor:
    """Make a tensor of MindSpore."""
    if array.dtype.name == "bfloat16":  # NumPy's bfloat16 is none to MindSpore
        return Tensor(array.astype(np.float32)).astype(ms.bfloat16)
    return Tensor(array)


def flat(value: Any) -> list[Tensor]:
    """Return what a network returned, tuples in tuples, as a list."""
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, tuple) else [value]
