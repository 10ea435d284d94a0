"""Comparing a network with itself: its outputs and gradients before and after something was done to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.graphs.modes import evaluating, synchronous
from ms_ascend_ops.export.graphs.probe import Array, dtype_name, read
from ms_ascend_ops.export.reports.report import Difference

__all__ = ["Measured", "measure", "measured"]

_Values = list[tuple[str, Array]]

# How far the outputs may move, as a share of their largest magnitude: the rounding errors of a deep network.
_TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}

# Some gradients are zero but for rounding, as that of a bias in front of a softmax or a norm. What rounding leaves of
# such a sum has no digit right, before and after.
_NOTABLE = 1e-2


@dataclass
class Measured:
    """The outputs of a network, and gradients of its parameters for fixed random gradients of the outputs."""

    outputs: _Values
    gradients: _Values

    def difference(self, after: Measured) -> tuple[Difference, Difference | None]:
        """How far the outputs, and the gradients if they were measured, are from those of `after`."""
        gradients = _difference(self.gradients, after.gradients, _NOTABLE) if self.gradients else None
        return _difference(self.outputs, after.outputs), gradients

    @property
    def tolerance(self) -> float:
        """The usual tolerance for outputs of these dtypes."""
        dtypes = {dtype for dtype, _ in self.outputs}
        return _TOLERANCES[next((d for d in ("bfloat16", "float16") if d in dtypes), "float32")]


def measure(net: nn.Cell, calls: Sequence[Sequence[Tensor]], gradients: bool = False) -> Measured:
    """Run `net` in evaluation mode, once for each of `calls`."""
    result = Measured([], [])
    with evaluating(net), synchronous():
        for inputs in calls:
            outputs = net(*inputs)
            result.outputs += _values(outputs)
            if gradients:
                random = np.random.default_rng(4)
                gradient = ops.GradOperation(get_by_list=True, sens_param=True)(net, net.trainable_params())
                result.gradients += _values(gradient(*inputs, _map(outputs, partial(_noise, random=random))))
    return result


def measured(outputs: Any) -> Measured:
    """Outputs that are there already."""
    return Measured(_values(outputs), [])


def _noise(like: Tensor, random: np.random.Generator) -> Tensor:
    return Tensor(random.standard_normal(like.shape).astype(np.float32)).astype(like.dtype)


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    return tuple(_map(v, function) for v in value) if isinstance(value, (tuple, list)) else function(value)


def _values(value: Any) -> _Values:
    """Every tensor of nested tuples, as (dtype name, values)."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _values(item)]
    return [(dtype_name(value.dtype), read(value))] if isinstance(value, Tensor) else []


def _difference(before: _Values, after: _Values, notable: float = 0.0) -> Difference:
    """Tensor by tensor, so that large numbers in one do not hide the error of another; the worst counts.

    A tensor whose values are below this share of the largest of all is measured as if they were as large as that.
    """
    absolute = relative = 0.0
    smallest = notable * max((float(np.abs(old).max(initial=0.0)) for _, old in before), default=0.0)
    for (_, old), (_, new) in zip(before, after, strict=True):
        error = float(np.abs(new - old).max(initial=0.0))
        scale = max(float(np.abs(old).max(initial=0.0)), smallest)
        absolute = max(absolute, error)
        # A NaN stays one: it is not below any tolerance.
        relative = float(np.maximum(relative, error / scale if scale > 0 else error))
    return Difference(absolute, relative)
