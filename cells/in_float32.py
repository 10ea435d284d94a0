"""Computes operators of MindSpore's in float32 where mixed precision is put around a layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor, nn

__all__ = ["InFloat32"]


class InFloat32(nn.Cell):  # type: ignore[misc]
    """Calls a function of which each operator gets its floats in float32.

    The result has the dtype of the first argument.

    MindSpore has no gathers or sums of bfloat16 on a CPU, among others. Within a cell with mixed precision a cast in
    front of an operator does not help: the operator casts its inputs again.
    """

    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.inside = _Inside(function)

    def construct(self, x: Tensor, *others: Any) -> Tensor:
        return self.inside(x, *others).astype(x.dtype)


class _Inside(nn.Cell):  # type: ignore[misc]
    """Calls the function in a cell that casts to float32 whatever the cells around it cast to."""

    def __init__(self, function: Callable[..., Tensor]):
        super().__init__()
        self.function = function
        super().add_flags(fp32=True)

    def add_flags(self, **flags: Any) -> nn.Cell:
        return super().add_flags(**{name: flag for name, flag in flags.items() if name not in ("fp16", "bf16", "fp32")})

    def construct(self, x: Tensor, *others: Any) -> Tensor:
        return self.function(x, *others)
