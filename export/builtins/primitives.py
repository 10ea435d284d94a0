"""Replaces MindSpore's primitives that only an Ascend NPU has by cells of the same names.

A cell is made as its primitive is, and called as it is: it computes the same with our operators, or with stock ones,
in PyNative and in graph mode. An argument that cannot be served raises an error that names it.
"""

from __future__ import annotations

import inspect
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops
from ms_ascend_ops.export.builtins.attention_primitives import (
    FlashAttentionScore,
    PagedAttention,
    PromptFlashAttention,
    ReshapeAndCache,
)
from ms_ascend_ops.export.builtins.expert_primitives import (
    FusedAddTopKDiv,
    GroupedMatmul,
    GroupedMatmulV4,
    MoeInitRoutingV2,
    MoeTokenPermute,
    MoeTokenUnpermute,
)
from ms_ascend_ops.export.builtins.quantized_primitives import DynamicQuantExt, QuantBatchMatmul, QuantV2
from ms_ascend_ops.export.builtins.stock_primitives import STOCK, Shim

from ms_ascend_ops import ops
from ms_ascend_ops.convolution import PADDINGS

__all__ = [
    "SHIMS",
    "Shim",
    "conv2d_padding",
    "rotary_position_embedding",
    "shim_for",
]


def shim_for(primitive: Any) -> Shim:
    """Return the cell for a primitive object, with the same attributes."""
    kind = SHIMS[type(primitive).__name__]
    names = list(inspect.signature(kind.__init__).parameters)[1:]
    made: Shim = kind(**{name: value for name, value in primitive.init_attrs.items() if name in names})
    return made


class RmsNorm(Shim):
    """Computes RmsNorm(epsilon)(x, gamma)."""

    def __init__(self, epsilon: float = 1e-6):
        super().__init__()
        self.epsilon = float(epsilon)

    def construct(self, x: Tensor, gamma: Tensor) -> Any:
        return ops.rms_norm(x, gamma, self.epsilon)


class AddRmsNorm(Shim):
    """Computes AddRmsNorm()(x1, x2, gamma, epsilon)."""

    def construct(self, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Any:
        return ops.add_rms_norm(x1, x2, gamma, epsilon)


class Swiglu(Shim):
    """Computes Swiglu()(input, dim)."""

    def construct(self, input: Tensor, dim: int = -1) -> Tensor:
        return ops.swiglu(input, dim)


class Conv2DExt(Shim):
    """Computes Conv2DExt()(input, weight, bias, stride, padding, dilation, groups), also Conv2DPadding, of
    named paddings.
    """

    def construct(
        self,
        input: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        return ops.conv2d(input, weight, bias, stride, padding, dilation, groups)


def conv2d_padding(
    x: Tensor, weight: Tensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Return what Conv2DPadding computes."""
    return ops.conv2d(x, weight, bias, stride, PADDINGS.get(padding, padding), dilation, groups)


def rotary_position_embedding(x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Tensor:
    """Replaces `mindspore.ops.rotary_position_embedding`: tables of four dims, all but those of positions 1."""
    if mode not in (0, 1):
        raise ValueError(f"rotary_position_embedding: mode must be 0 or 1 on a CPU, got {mode}")
    kind = "interleave" if mode == 1 else "half"
    if cos.shape[1] == 1 and cos.shape[2] == 1:  # (sequence, batch, heads, d)
        y = ops.rotary_embedding(
            x.reshape(1, x.shape[0], -1, x.shape[3]), cos.squeeze(2).squeeze(1), sin.squeeze(2).squeeze(1), kind, "BSND"
        )
        return y.reshape(x.shape)
    if cos.shape[2] == 1:  # (batch, sequence, heads, d)
        return ops.rotary_embedding(x, cos.squeeze(2), sin.squeeze(2), kind, "BSND")
    return ops.rotary_embedding(x, cos, sin, kind, "BNSD")


class RotaryPositionEmbedding(Shim):
    """Computes RotaryPositionEmbedding()(x, cos, sin, mode)."""

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Tensor:
        return rotary_position_embedding(x, cos, sin, mode)


class ApplyRotaryPosEmb(Shim):
    """Computes ApplyRotaryPosEmb(cos_format)(query, key, cos, sin, position_ids) of tokens of several sequences.

    position_ids has the lengths of the sequences. Of all their tokens, each has the row of the tables of its position;
    of the newest ones only, a row of its own.
    """

    def __init__(self, cos_format: int = 0):
        super().__init__()
        # MindFormers calls these rotate_half and interleaved.
        if cos_format not in (2, 3):
            raise ValueError(f"ApplyRotaryPosEmb: cos_format must be 2 (halves) or 3 (neighbours), got {cos_format}")
        self.mode = "half" if cos_format == 2 else "interleave"

    def construct(self, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor) -> Any:
        size = cos.shape[-1]
        rows = _rows_of(position_ids, query.reshape(-1, query.shape[-1]).shape[0])
        cos, sin = ms_ops.gather(cos, rows, 0), ms_ops.gather(sin, rows, 0)
        return self.rotated(query, cos, sin, size), self.rotated(key, cos, sin, size)

    def rotated(self, x: Tensor, cos: Tensor, sin: Tensor, size: int) -> Tensor:
        heads = x.reshape(1, -1, x.shape[-1] // size, size)
        y = ops.rotary_embedding(heads, cos, sin, self.mode, "BSND", 0, True)
        return y.reshape(x.shape)


def _rows_of(lengths: Tensor, tokens: int) -> Tensor:
    """Return which row of a table each token has: its position, where all tokens of the sequences are; else its own.

    Without a condition: a graph for any sizes would make a branch of it.
    """
    lengths = lengths.reshape(-1).astype(ms.int32)
    index = ms_ops.arange(tokens).astype(ms.int32)
    passed = (index.reshape(-1, 1) >= ms_ops.cumsum(lengths, 0, ms.int32).reshape(1, -1)).astype(ms.int32)
    before = (passed * lengths.reshape(1, -1)).sum(1)
    whole = lengths.sum() == (index >= 0).astype(ms.int32).sum()
    return index - before * whole.astype(ms.int32)


SHIMS: dict[str, Any] = (
    STOCK
    | {"Conv2DPadding": Conv2DExt}
    | {
        kind.__name__: kind
        for kind in (
            AddRmsNorm,
            ApplyRotaryPosEmb,
            Conv2DExt,
            DynamicQuantExt,
            FlashAttentionScore,
            FusedAddTopKDiv,
            GroupedMatmul,
            GroupedMatmulV4,
            MoeInitRoutingV2,
            MoeTokenPermute,
            MoeTokenUnpermute,
            PagedAttention,
            PromptFlashAttention,
            QuantBatchMatmul,
            QuantV2,
            ReshapeAndCache,
            RmsNorm,
            RotaryPositionEmbedding,
            Swiglu,
        )
    }
)
