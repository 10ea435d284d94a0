"""The table of composed gradients, which `composed` fills, and parts that several of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

__all__ = ["COMPOSED", "Call", "Gradients", "as_rows", "composed", "kernel", "through_activation"]

Gradients = dict[str, Tensor]


class Call:
    """One call that is differentiated: its inputs, outputs and attributes by name, and the gradients of its outputs."""

    def __init__(self, tensors: dict[str, Any], attributes: dict[str, Any], douts: dict[str, Tensor], needs: set[str]):
        self._tensors = tensors
        self.attributes = attributes
        self.douts = douts
        self._needs = needs

    def __getitem__(self, name: str) -> Any:
        return self._tensors[name]

    def needs(self, *names: str) -> bool:
        """Tell whether the gradient of one of these inputs is wanted."""
        return not self._needs.isdisjoint(names)


class Composed(NamedTuple):
    """A composed gradient, and the tensors that it needs: names of inputs and outputs of the operator."""

    function: Callable[[Call], Gradients]
    keeps: tuple[str, ...]


COMPOSED: dict[str, Composed] = {}  # by the operator

_Function = TypeVar("_Function", bound=Callable[[Call], Gradients])


def composed(operator: str, keeps: Sequence[str] = ()) -> Callable[[_Function], _Function]:
    """Register a function as the gradient of an operator, which keeps these inputs and outputs for it."""

    def register(function: _Function) -> _Function:
        COMPOSED[operator] = Composed(function, tuple(keeps))
        return function

    return register


def kernel(name: str) -> Any:
    """Return an operator of this library for PyTorch, which may be a gradient kernel."""
    return getattr(torch.ops.ms_ascend_ops, name).default


def as_rows(tensor: Tensor) -> Tensor:
    """Reshape to one matrix, also of rows without elements."""
    return tensor.flatten(0, -2) if tensor.dim() > 1 else tensor.unsqueeze(0)


def through_activation(call: Call, before: Callable[[], Tensor]) -> Tensor:
    """Return the gradient of what the activation was applied to.

    `before` calculates that again where the output does not tell: keeping it would take as much memory as the output.
    """
    dy, activation = call.douts["y"], call.attributes["activation"]
    if activation == "none":
        return dy
    if activation == "relu":
        return torch.where(call["y"] > 0, dy, torch.zeros_like(dy))
    if activation not in ("silu", "gelu", "gelu_tanh"):
        raise ValueError(f"there is no activation {activation!r}")
    z = before()
    if activation == "silu":
        return kernel("silu_mul_grad")(dy, z, torch.ones_like(z))[0]  # type: ignore[no-any-return]
    return kernel("gelu_grad")(dy, z, "tanh" if activation == "gelu_tanh" else "none")  # type: ignore[no-any-return]
