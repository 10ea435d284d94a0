"""Replaces small primitives of MindSpore's that only an Ascend NPU has by cells of stock operators.

What they compute, and their gradients, are those of the operators that they are made of.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor, nn
from mindspore import ops as ms_ops

__all__ = ["STOCK", "Shim"]


class Shim(nn.Cell):  # type: ignore[misc]
    """Holds what a primitive has besides its call: none of it matters on one CPU."""

    @property
    def name(self) -> str:
        return type(self).__name__

    def shard(self, *args: Any, **kwargs: Any) -> Shim:
        return self

    def recompute(self, *args: Any, **kwargs: Any) -> Shim:
        return self

    def add_prim_attr(self, *args: Any) -> Shim:
        return self

    def set_prim_instance_name(self, *args: Any) -> Shim:
        return self

    def set_device(self, *args: Any) -> Shim:
        return self

    def set_stage(self, *args: Any) -> Shim:
        return self


class Arange(Shim):
    """Computes Arange()(start, end, step, dtype)."""

    def construct(self, start: Any, end: Any, step: Any = 1, dtype: Any = None) -> Tensor:
        values = ms_ops.arange(start, end, step)
        return values if dtype is None else values.astype(dtype)


class ArgMaxExt(Shim):
    """Computes ArgMaxExt()(input, dim, keepdim)."""

    def construct(self, input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
        return ms_ops.argmax(input, dim, keepdim)


class CumsumExt(Shim):
    """Computes CumsumExt()(input, dim, dtype)."""

    def construct(self, input: Tensor, dim: int, dtype: Any = None) -> Tensor:
        return ms_ops.cumsum(input, dim, dtype)


class MoveTo(Shim):
    """Returns the input of MoveTo()(input, to, blocking): there is one memory."""

    def construct(self, input: Tensor, to: str = "CPU", blocking: bool = True) -> Tensor:
        return input


class IndexSelect(Shim):
    """Computes IndexSelect()(input, dim, index)."""

    def construct(self, input: Tensor, dim: int, index: Tensor) -> Tensor:
        return ms_ops.gather(input, index, dim)


class TopkExt(Shim):
    """Computes TopkExt()(input, k, dim, largest, sorted)."""

    def construct(self, input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        values, indices = ms_ops.topk(input, k, dim, largest, sorted)
        return values, indices.astype(ms.int64)


class NPUAllocFloatStatus(Shim):
    """Returns the flags of overflow, of which a CPU has none: NPUAllocFloatStatus()()."""

    def construct(self) -> Tensor:
        return ms_ops.zeros((8,), ms.float32)


class NPUGetFloatStatusV2(Shim):
    """Reports no overflow: NPUGetFloatStatusV2()(input); a step finds it in its gradients, or not at all."""

    def construct(self, input: Tensor) -> Tensor:
        return ms_ops.zeros_like(input)


class NPUClearFloatStatusV2(NPUGetFloatStatusV2):
    """Clears nothing: NPUClearFloatStatusV2()(input)."""


class BatchMatMul(Shim):
    """Computes BatchMatMul(transpose_a, transpose_b)(x, y), also where only one of them has a batch."""

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False):
        super().__init__()
        self.product = _BATCH_MAT_MUL(transpose_a, transpose_b)
        self.transpose_a, self.transpose_b = bool(transpose_a), bool(transpose_b)

    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        if x.ndim > 2 and y.ndim == 2 and not self.transpose_a:
            rows = x.reshape(-1, x.shape[-1])
            matrix = y.swapaxes(0, 1) if self.transpose_b else y
            return ms_ops.matmul(rows, matrix).reshape(x.shape[:-1] + (matrix.shape[-1],))  # noqa: RUF005
        return self.product(x, y)


class DropoutExt(Shim):
    """Computes DropoutExt()(input, p, seed, offset), drawn with MindSpore's own seed, as a CPU has no other."""

    def construct(self, input: Tensor, p: float, seed: Any = None, offset: Any = None) -> Any:
        kept = (ms_ops.rand_like(input.astype(ms.float32)) >= p).astype(input.dtype)
        return (input, kept) if p == 0 else (input * kept / (1.0 - p), kept)


class Embedding(Shim):
    """Computes Embedding()(input, weight, padding_idx, ...), without max_norm, norm_type and scale_grad_by_freq."""

    def construct(
        self,
        input: Tensor,
        weight: Tensor,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
    ) -> Tensor:
        if max_norm is not None or scale_grad_by_freq:
            raise ValueError("Embedding: max_norm must be None and scale_grad_by_freq False on a CPU")
        rows = ms_ops.gather(weight, input, 0)
        if padding_idx is None:
            return rows
        padding = input == (padding_idx if padding_idx >= 0 else padding_idx + weight.shape[0])
        return ms_ops.where(padding.expand_dims(-1), ms_ops.stop_gradient(rows), rows)


class FmodScalar(Shim):
    """Returns the remainder of a division that is rounded towards zero: FmodScalar()(input, other)."""

    def construct(self, input: Tensor, other: Any) -> Tensor:
        return ms_ops.fmod(input, other)


class OneHotExt(Shim):
    """Computes OneHotExt(axis)(tensor, num_classes, on_value, off_value)."""

    def __init__(self, axis: int = -1):
        super().__init__()
        self.one_hot = ms_ops.OneHot(axis)

    def construct(self, tensor: Tensor, num_classes: int, on_value: Tensor, off_value: Tensor) -> Tensor:
        return self.one_hot(tensor, num_classes, on_value, off_value)


class OnesLikeExt(Shim):
    """Computes OnesLikeExt()(input, dtype)."""

    def construct(self, input: Tensor, dtype: Any = None) -> Tensor:
        return ms_ops.ones_like(input).astype(input.dtype if dtype is None else dtype)


class Outer(Shim):
    """Computes Outer()(input, vec2)."""

    def construct(self, input: Tensor, vec2: Tensor) -> Tensor:
        return input.reshape(-1, 1) * vec2.reshape(1, -1)


class RepeatInterleaveInt(Shim):
    """Computes RepeatInterleaveInt()(input, repeats, dim, output_size)."""

    def construct(self, input: Tensor, repeats: int, dim: Any = None, output_size: Any = None) -> Tensor:
        return ms_ops.repeat_elements(input.reshape(-1) if dim is None else input, repeats, 0 if dim is None else dim)


class SortExt(Shim):
    """Computes SortExt()(input, dim, descending, stable)."""

    def construct(self, input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
        values, indices = ms_ops.sort(input.astype(ms.float32), dim, descending)
        return values.astype(input.dtype), indices.astype(ms.int64)


class StackExt(Shim):
    """Computes StackExt(dim)(tensors)."""

    def __init__(self, dim: int = 0):
        super().__init__()
        self.stack = ms_ops.Stack(dim)

    def construct(self, tensors: Any) -> Tensor:
        return self.stack(tensors)


class SwigluGrad(Shim):
    """Computes SwigluGrad()(grad_output, input, dim)."""

    def construct(self, grad_output: Tensor, input: Tensor, dim: int = -1) -> Tensor:
        gate, up = ms_ops.chunk(input.astype(ms.float32), 2, dim)
        dy = grad_output.astype(ms.float32)
        weight = ms_ops.sigmoid(gate)
        dgate = dy * up * weight * (1.0 + gate * (1.0 - weight))
        return ms_ops.concat((dgate, dy * gate * weight), dim).astype(input.dtype)


class TrilExt(Shim):
    """Computes TrilExt()(input, diagonal)."""

    def construct(self, input: Tensor, diagonal: int = 0) -> Tensor:
        return ms_ops.tril(input, diagonal)


class ZerosLikeExt(Shim):
    """Computes ZerosLikeExt()(input, dtype)."""

    def construct(self, input: Tensor, dtype: Any = None) -> Tensor:
        return ms_ops.zeros_like(input).astype(input.dtype if dtype is None else dtype)


_BATCH_MAT_MUL = ms_ops.BatchMatMul

STOCK: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Arange,
        ArgMaxExt,
        BatchMatMul,
        CumsumExt,
        DropoutExt,
        Embedding,
        FmodScalar,
        IndexSelect,
        MoveTo,
        NPUAllocFloatStatus,
        NPUClearFloatStatusV2,
        NPUGetFloatStatusV2,
        OneHotExt,
        OnesLikeExt,
        Outer,
        RepeatInterleaveInt,
        SortExt,
        StackExt,
        SwigluGrad,
        TopkExt,
        TrilExt,
        ZerosLikeExt,
    )
}
