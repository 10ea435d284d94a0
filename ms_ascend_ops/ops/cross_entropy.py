"""Cross entropy of logits and class indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor

from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.gradients import or_zeros
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["cross_entropy"]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    def bprop(logits, labels, out, dout):  # type: ignore[no-untyped-def]
        return grad(dout[0], logits, labels, out[1]), zeros_like(labels)

    return bprop


# Runs in Python while a graph is compiled: MindSpore's own `raise` in a graph changes messages.
@ms.constexpr  # type: ignore[untyped-decorator]
def _reduction(reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction


_select = Selector("cross_entropy", _bprop)


def _call(logits: Tensor, labels: Tensor, ignore_index: int) -> tuple[Tensor, Tensor]:
    return _select(logits, labels, ignore_index)(logits, labels)  # type: ignore[no-any-return]


def cross_entropy(logits: Tensor, labels: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    r"""Cross entropy of logits and class indices. The softmax is never in memory, neither here nor for the gradient.

    .. math::
        \mathrm{loss} = \log \sum_j e^{\mathrm{logits}_j} - \mathrm{logits}_{\mathrm{label}}

    Differentiable in `logits`.

    Args:
        logits: Tensor[float16 | bfloat16 | float32], shape (..., classes).
        labels: Tensor[int32 | int64], shape (...); int64 is cast to int32.
        ignore_index: rows with this label have no loss and no gradient.
        reduction: "mean" over the rows that are not ignored, "sum", or "none".

    Returns:
        Tensor[float32], scalar, or of the shape of labels for "none". The mean over no rows is NaN.

    Raises:
        TypeError: an input is no tensor, or has a dtype there is no kernel for.
        ValueError: labels does not have the shape of logits without its last axis; there is no class; ignore_index or
            reduction is not allowed.

    A label that is neither a class nor ignore_index makes the loss of its row inf or NaN. A row of logits that holds
    NaN or +inf, or nothing but -inf, has the loss NaN and NaN gradients; other rows are not touched by it.

    Computed and accumulated in float32. Without rows, the losses are empty and their sum is 0.
    """
    reduction = _reduction(reduction)
    if isinstance(labels, Tensor) and labels.dtype == ms.int64:
        labels = labels.astype(ms.int32)
    loss = _call(logits, labels, ignore_index)[0]
    if reduction == "none":
        return loss
    if reduction == "sum":
        return or_zeros(loss.sum(), loss)
    counted = (labels != ignore_index).astype(ms.float32)
    return or_zeros(loss.sum(), loss) / or_zeros(counted.sum(), counted)
