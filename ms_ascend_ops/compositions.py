"""Holds parts that several compositions share.

A composition is an operator in stock operators of MindSpore: what answers a call when a kernel cannot. The function
`composition` in the operator's file takes the inputs and the attributes of the definition, in its order, and returns
all outputs. It calculates in float32 and rounds once where the kernel does, compiles in graphs, and is differentiated
by MindSpore. Operators that write in place, work on packed or paged sequences, or on tokens sorted by expert, have
none.
"""

from __future__ import annotations

from mindspore import Tensor
from mindspore import ops as stock

__all__ = ["Tensors", "activated", "gelu_in_float32"]

Tensors = tuple[Tensor, ...]


def gelu_in_float32(x: Tensor, approximate: str) -> Tensor:
    """Compute GELU of a float32 x."""
    if approximate == "tanh":
        return 0.5 * x * (1.0 + stock.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    # erfc keeps its relative accuracy where erf is close to -1.
    return 0.5 * x * stock.erfc(-0.7071067811865476 * x)


def activated(y: Tensor, activation: str) -> Tensor:
    """Apply an activation of a definition to a float32 y."""
    if activation == "relu":
        return stock.relu(y)
    if activation == "silu":
        return y * stock.sigmoid(y)
    return y if activation == "none" else gelu_in_float32(y, "tanh" if activation == "gelu_tanh" else "none")
