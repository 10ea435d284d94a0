"""Checks arguments and makes parameters that several layers have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Number
from typing import Any, TypeAlias

import mindspore as ms
from mindspore import Parameter, Tensor
from mindspore.common.initializer import Initializer, initializer

__all__ = ["Init", "eps_or_epsilon", "fixed_parameter", "make_parameter", "one_size"]

# What an initial value may be: a value, the name of an initializer, an Initializer, a Tensor, or a Parameter.
Init: TypeAlias = str | Number | Initializer | Tensor | Parameter


def eps_or_epsilon(init: Callable[..., None]) -> Callable[..., None]:
    """Let an `__init__` with the argument `epsilon` also take it as `eps`, PyTorch's name."""
    signature = inspect.signature(init)
    position = list(signature.parameters).index("epsilon")  # self is 0

    @wraps(init)
    def renamed(self: Any, *arguments: Any, **named: Any) -> None:
        if "eps" in named:
            if "epsilon" in named or len(arguments) >= position:
                raise TypeError(f"{type(self).__name__}: eps is another name of epsilon, got both")
            named["epsilon"] = named.pop("eps")
        try:
            signature.bind(self, *arguments, **named)
        except TypeError as error:  # Python would name the class that `init` stands in
            raise TypeError(f"{type(self).__name__}: {error}") from None
        init(self, *arguments, **named)

    return renamed


def fixed_parameter(values: Any, name: str) -> Parameter:
    """Make a parameter that is not trained."""
    return Parameter(values if isinstance(values, Tensor) else Tensor(values), name=name, requires_grad=False)


def make_parameter(
    layer: str, argument: str, init: Init, shape: tuple[int, ...], dtype: ms.dtype, name: str
) -> Parameter:
    """Make a parameter of a layer, as its argument `argument` says. A Parameter is taken as it is, with its name.

    Raises:
        ValueError: a Parameter has another shape.
    """
    if not isinstance(init, Parameter):
        return Parameter(initializer(init, shape, dtype), name=name)
    if tuple(init.shape) != shape:
        raise ValueError(f"{layer}: {argument}.shape must be {shape}, got {tuple(init.shape)}")
    return init


def one_size(layer: str, argument: str, value: int | Sequence[int]) -> int:
    """Return the size of an axis, given as an int or as a shape of one int.

    Raises:
        TypeError: it is neither.
        ValueError: it is not positive.
    """
    shape: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if len(shape) != 1 or isinstance(shape[0], bool) or not isinstance(shape[0], int):
        raise TypeError(f"{layer}: {argument} must be an int or a shape of one int, got {value!r}")
    if shape[0] < 1:
        raise ValueError(f"{layer}: {argument} must be >= 1, got {value!r}")
    return shape[0]
