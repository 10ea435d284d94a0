"""Cross entropy of logits and class indices."""

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import Selector
from ms_ascend_ops.gradients import or_zeros

__all__ = ["cross_entropy"]


# Runs in Python while a graph is compiled: MindSpore's own `raise` in a graph changes messages.
@ms.constexpr  # type: ignore[untyped-decorator]
def _reduction(reduction: str) -> str:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"cross_entropy: reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction


_select = Selector("cross_entropy")


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


def composition(logits: Tensor, labels: Tensor, ignore_index: int) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    values = logits.astype(ms.float32)
    largest = values.max(-1, keepdims=True)
    log_sum = stock.log(stock.exp(values - largest).sum(-1))
    kept = labels != ignore_index
    places = stock.select(kept, labels, stock.zeros_like(labels)).expand_dims(-1)
    chosen = stock.gather_elements(values, values.ndim - 1, places).squeeze(-1)
    largest = largest.squeeze(-1)
    loss = log_sum - (chosen - largest)
    return stock.select(kept, loss, stock.zeros_like(loss)), largest + log_sum
