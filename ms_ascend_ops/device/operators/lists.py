"""Computes operators on lists of tensors, as optimizers of PyTorch call them, and the loss scale of its mixed
precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators import elementwise
from ms_ascend_ops.device.operators.memory import Array


def _for_each(function: Callable[..., Any]) -> Callable[..., list[Array]]:
    """Lists have an entry for each tensor; a tensor beside them has one element for all, or one for each."""

    def computation(*arguments: Any) -> list[Array]:
        count = next(len(argument) for argument in arguments if isinstance(argument, (list, tuple)))
        return [function(*(_entry(argument, i) for argument in arguments)) for i in range(count)]

    return computation


def _entry(argument: Any, place: int) -> Any:
    is_shared = argument.size == 1 if isinstance(argument, np.ndarray) else not isinstance(argument, (list, tuple))
    return argument if is_shared else argument[place]


def each_norm(tensors: list[Array], order: float) -> list[Array]:
    return [np.asarray(np.linalg.norm(tensor.reshape(-1).astype(np.float64), order)) for tensor in tensors]


def non_finite_check_and_unscale(grads: list[Array], found_inf: Array, scale: Array) -> tuple[list[Array], Array]:
    """Multiply gradients by `scale`, and set `found_inf` to 1 where one of them is infinite or NaN."""
    is_found = any(not np.isfinite(grad).all() for grad in grads)
    return [grad * scale for grad in grads], np.ones_like(found_inf) if is_found else found_inf


def amp_update_scale(
    scale: Array, tracker: Array, found_inf: Array, growth: float, backoff: float, interval: int
) -> tuple[Array, Array]:
    """Update the loss scale for the next step, and for how many steps gradients have been finite."""
    if found_inf.any():
        return scale * backoff, np.zeros_like(tracker)
    if int(tracker.reshape(-1)[0]) + 1 < interval:
        return scale, tracker + 1
    grown = scale * growth
    return grown if np.isfinite(grown).all() else scale, np.zeros_like(tracker)


_SINGLE: dict[str, Callable[..., Any]] = {
    "add": elementwise.add,
    "addcdiv": elementwise.addcdiv,
    "addcmul": elementwise.addcmul,
    "copy": lambda x: x,
    "lerp": elementwise.lerp,
    "pow": elementwise.power,
    "sigmoid": elementwise.sigmoid,
    "sub": elementwise.sub,
    "zero": np.zeros_like,
    **{
        name: elementwise.OPERATORS[name]
        for name in (
            *("abs", "acos", "asin", "atan", "cos", "cosh", "div", "erf", "erfc", "exp", "expm1", "log", "log10"),
            *("log1p", "log2", "maximum", "minimum", "mul", "neg", "reciprocal", "sign", "sin", "sinh", "sqrt", "tan"),
            "tanh",
        )
    },
}
OPERATORS = {f"each_{name}": _for_each(function) for name, function in _SINGLE.items()}
