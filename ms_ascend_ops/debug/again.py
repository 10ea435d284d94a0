"""Calls a layer again, on the arguments of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from ms_ascend_ops.debug.capture import flat, value_of
from ms_ascend_ops.debug.dump import Value

__all__ = ["moved_outputs", "outputs_on"]


def outputs_on(cell: nn.Cell, arguments: tuple[Any, ...]) -> list[Value] | None:
    """Return what it gives for them; None: it does not take them."""
    try:
        return [value_of(tensor) for tensor in flat(cell(*arguments))]
    except (TypeError, ValueError, RuntimeError):
        return None


def moved_outputs(cell: nn.Cell, arguments: tuple[Any, ...], precision: float) -> list[Value] | None:
    """Return what it gives for the arguments with every number moved by a rounding; None: it does not take them."""
    random = np.random.default_rng(0)

    def move(tensor: Tensor) -> Tensor:
        if str(tensor.dtype).lower() not in ("float16", "bfloat16", "float32"):
            return tensor
        values = tensor.astype(ms.float32).asnumpy()
        factors = 1 + random.choice((-1, 1), values.shape) * precision / 2
        return Tensor((values * factors).astype(np.float32)).astype(tensor.dtype)

    return outputs_on(cell, tuple(_map(argument, move) for argument in arguments))


def _map(value: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    return type(value)(_map(one, function) for one in value) if isinstance(value, (list, tuple)) else value
