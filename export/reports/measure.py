"""Compares a network with itself: its outputs and gradients before and after something was done to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from ms_ascend_ops.export.graphs.modes import evaluating, synchronous
from ms_ascend_ops.export.graphs.observe import Counting
from ms_ascend_ops.export.graphs.probe import Array, dtype_name, read
from ms_ascend_ops.export.reports.report import Difference

__all__ = ["Measured", "loses_gradients", "measure", "measured"]

_Values = list[tuple[str, Array]]

# The outputs may move so far, as a share of their largest magnitude: the rounding errors of a deep network.
_TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}

# Some gradients are zero but for rounding, as that of a bias in front of a softmax or a norm. What rounding leaves of
# such a sum has no digit right, before and after.
_NOTABLE = 1e-2

# A gradient that ends before a parameter leaves 0, or lacks a part that is about as large as what is left. Rounding
# moves a gradient far less, though more than outputs: by 3e-4 in a language model of 30 layers in float32.
_LOST = 1e-2

# A gradient smaller than this, as a share of the largest, may be 0 but for rounding.
_ZERO = 1e-6


@dataclass
class Measured:
    """Holds the outputs of a network, and gradients of its parameters for fixed random gradients of the outputs."""

    outputs: _Values
    gradients: _Values
    primitives: Counter[str] = field(default_factory=Counter)  # how often each ran, in PyNative mode

    def difference(self, after: Measured) -> tuple[Difference, Difference | None]:
        """Return how far the outputs, and the gradients if they were measured, are from those of `after`."""
        if len(self.outputs) != len(after.outputs):  # one has become None, say
            return Difference(float("inf"), float("inf")), None
        gradients = _worst(_errors(self.gradients, after.gradients), _NOTABLE) if self.gradients else None
        return _worst(_errors(self.outputs, after.outputs)), gradients

    @property
    def tolerance(self) -> float:
        """Return the usual tolerance for outputs of these dtypes."""
        dtypes = {dtype for dtype, _ in self.outputs}
        return _TOLERANCES[next((d for d in ("bfloat16", "float16") if d in dtypes), "float32")]


def measure(net: nn.Cell, calls: Sequence[Sequence[Tensor]], gradients: bool = False) -> Measured:
    """Run `net` in evaluation mode, once for each of `calls`."""
    result = Measured([], [])
    with evaluating(net), synchronous():
        for inputs in calls:
            with Counting(result.primitives) if ms.get_context("mode") == ms.PYNATIVE_MODE else nullcontext():
                outputs = net(*inputs)
            result.outputs += _values(outputs)
            if gradients:
                result.gradients += [_floats(tensor) for tensor in _gradients(net, inputs, outputs)]
    return result


def loses_gradients(
    net: nn.Cell, calls: Sequence[Sequence[Tensor]], stock: Callable[[], AbstractContextManager[None]]
) -> bool:
    """Tell whether a parameter no longer gets the gradient that it gets within `stock()`, or a part of it.

    One call after the other, so that there are never more than two sets of gradients, each as large as the network.
    """

    def loses(inputs: Sequence[Tensor]) -> bool:
        with evaluating(net), synchronous():
            after = [_floats(tensor) for tensor in _gradients(net, inputs, net(*inputs))]
        with stock(), evaluating(net), synchronous():
            outputs = net(*inputs)
            before = _gradients(net, inputs, outputs)
            errors = _errors((_floats(tensor) for tensor in before), after)
        largest = max((largest for _, largest in errors), default=0.0)
        ends = [not new.any() and old > _ZERO * largest for (_, new), (_, old) in zip(after, errors, strict=True)]
        return any(ends) or not _worst(errors, _NOTABLE).relative <= max(_LOST, measured(outputs).tolerance)

    return any(loses(inputs) for inputs in calls)


def measured(outputs: Any, primitives: Counter[str] | None = None) -> Measured:
    """Return outputs that are there already, and how often each primitive ran for them."""
    return Measured(_values(outputs), [], primitives or Counter())


def _gradients(net: nn.Cell, inputs: Sequence[Tensor], outputs: Any) -> list[Tensor]:
    """Return gradients of the parameters, for fixed random gradients of the outputs."""
    noise = _map(outputs, partial(_noise, random=np.random.default_rng(4)))
    gradient = ops.GradOperation(get_by_list=True, sens_param=True)(net, net.trainable_params())
    return list(gradient(*inputs, noise))


def _floats(tensor: Tensor) -> tuple[str, Array]:
    """Do as `read`, in float32, which holds those of 16 bits, too: gradients take as much as the network."""
    values = tensor if tensor.dtype == ms.float64 else tensor.astype(ms.float32)
    return dtype_name(tensor.dtype), np.asarray(values.asnumpy())


def _noise(like: Tensor, random: np.random.Generator) -> Tensor:
    return Tensor(random.standard_normal(like.shape).astype(np.float32)).astype(like.dtype)


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Mapping):
        raise TypeError(
            "optimize: gradients are compared for outputs that are tensors or tuples, got a "
            f"{type(value).__name__} (networks of transformers return tuples with return_dict=False)"
        )
    return tuple(_map(v, function) for v in value) if isinstance(value, (tuple, list)) else function(value)


def _values(value: Any) -> _Values:
    """Return every tensor of nested tuples and dicts, as (dtype name, values)."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _values(item)]
    return [(dtype_name(value.dtype), read(value))] if isinstance(value, Tensor) else []


_Error = tuple[float, float]  # the largest difference of a tensor's values, and the largest of them before


def _errors(before: Iterable[tuple[str, Array]], after: Iterable[tuple[str, Array]]) -> list[_Error]:
    return [
        (float(np.abs(new - old).max(initial=0.0)), float(np.abs(old).max(initial=0.0)))
        for (_, old), (_, new) in zip(before, after, strict=True)
    ]


def _worst(errors: Sequence[_Error], notable: float = 0.0) -> Difference:
    """Compare tensor by tensor, so that large numbers in one do not hide the error of another; the worst counts.

    A tensor whose values are below this share of the largest of all is measured as if they were as large as that.
    """
    absolute = relative = 0.0
    smallest = notable * max((largest for _, largest in errors), default=0.0)
    for error, largest in errors:
        scale = max(largest, smallest)
        absolute = max(absolute, error)
        # Keep NaN: it is not below any tolerance.
        relative = float(np.maximum(relative, error / scale if scale > 0 else error))
    return Difference(absolute, relative)
