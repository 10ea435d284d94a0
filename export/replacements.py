"""Cells that stand in for a user's, around the user's own sub-cells."""

from __future__ import annotations

from mindspore import Tensor, nn
from mindspore import ops as ms_ops
from ms_ascend_ops.export.probe import sub_cells

from ms_ascend_ops import ops

__all__ = ["PackedSwiGLUMLP", "SwiGLUMLP"]


class _Around(nn.Cell):  # type: ignore[misc]
    """A cell that takes over all sub-cells of `stock`, under their names, and calls some by the part they play.

    The parts go into `__dict__` and not into `_cells`: there each sub-cell stays once, under the name that it had, and
    so do the names of its parameters.
    """

    def __init__(self, stock: nn.Cell, **parts: str) -> None:
        super().__init__()
        self._cells.update(sub_cells(stock))
        for part, name in parts.items():
            self.__dict__[part] = stock._cells[name]


class SwiGLUMLP(_Around):
    """y = down(silu(gate(x)) * up(x)), the product in one operator."""

    def construct(self, x: Tensor) -> Tensor:
        return self.down(ops.silu_mul(self.gate(x), self.up(x)))


class PackedSwiGLUMLP(_Around):
    """y = down(silu(gate) * up), where one projection gives gate and up: in halves or alternating, either one first."""

    def __init__(self, stock: nn.Cell, interleaved: bool, gate_first: bool, **parts: str) -> None:
        super().__init__(stock, **parts)
        self.interleaved = interleaved
        self.gate_first = gate_first

    def construct(self, x: Tensor) -> Tensor:
        packed = self.gate_up(x)
        if self.gate_first:
            return self.down(ops.swiglu(packed, -1, self.interleaved))
        up, gate = ms_ops.chunk(packed, 2, -1)
        return self.down(ops.silu_mul(gate, up))
