"""Attention without the matrix of scores in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.compositions import Tensors
from ms_ascend_ops.custom import FusedPrimitive, Selector
from ms_ascend_ops.gradients import needs_gradient, or_zeros, sum_to_shape_of
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["flash_attention"]


# Behind every logarithm of a sum of exponentials. A query that sees no key has -inf; with a number above all scores in
# its place, the probabilities that the gradient calculates again are 0.
_HUGE = 3.0e38


def gradient_sums(out: tuple[Tensor, Tensor], dout: tuple[Tensor, Tensor], swaps: bool) -> tuple[Tensor, Tensor]:
    """lse and delta, as the kernels of gradients take them. `swaps`: heads stand behind positions in out."""
    lse = stock.select(out[1] > -_HUGE, out[1], stock.full_like(out[1], _HUGE))
    # The probabilities' share of their own gradient: the sum of p * dp over the keys is that of out * dout.
    shares = out[0].astype(ms.float32) * dout[0].astype(ms.float32)
    delta = or_zeros(shares.sum(-1), shares)
    return lse, (delta.swapaxes(-1, -2) if swaps else delta) - dout[1]


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    swaps = grad.attributes["layout"] == "BSND"
    of_mask = _mask_gradient(**grad.attributes)

    def bprop(query, key, value, mask, out, dout):  # type: ignore[no-untyped-def]
        lse, delta = gradient_sums(out, dout, swaps)
        gradients = grad(dout[0], query, key, value, lse, delta, mask)
        if mask is None:
            return (*gradients, mask)
        dmask = zeros_like(mask)
        if needs_gradient(mask):
            dmask = of_mask(query, key, value, mask, dout[0], lse, delta)
        return (*gradients, dmask)

    return bprop


def _mask_gradient(scale: float, causal: bool, window: int, layout: str) -> Callable[..., Tensor]:
    """The gradient of the mask, of stock operators: scores and what they become are in memory then, as the mask is."""

    def heads_first(x: Tensor) -> Tensor:
        x = x.astype(ms.float32)
        return x.swapaxes(1, 2) if layout == "BSND" else x

    def products(x: Tensor, y: Tensor) -> Tensor:
        """x y^T for each head of x, of which consecutive ones share one of y."""
        b, n, s, d = stock.shape(x)
        shared, t = stock.shape(y)[1], stock.shape(y)[2]
        rows = x.reshape((b, shared, n // shared * s, d))  # of all heads that share one
        return or_zeros(stock.matmul(rows, y.swapaxes(-1, -2)), y).reshape((b, n, s, t))

    def of_mask(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dout: Tensor, lse: Tensor, delta: Tensor
    ) -> Tensor:
        scores = products(heads_first(query), heads_first(key)) * scale + mask.astype(ms.float32)
        dscores = stock.exp(scores - lse.expand_dims(-1))
        dscores = dscores * (products(heads_first(dout), heads_first(value)) - delta.expand_dims(-1))
        if causal or window:
            behind = _behind(dscores)
            hidden = behind < 0 if causal else behind >= window
            if causal and window:
                hidden = stock.logical_or(hidden, behind >= window)
            dscores = stock.select(hidden, 0.0, dscores)
        return sum_to_shape_of(dscores, mask)

    return of_mask


def _behind(scores: Tensor) -> Tensor:
    """Return how many positions each key is behind each query, (1, 1, s, t); of sizes that a graph need not know."""
    queries, keys = stock.shape(scores)[2], stock.shape(scores)[3]
    ends = stock.arange(0, queries) + (keys - queries)  # the key at which each query stands
    return (ends.reshape((1, 1, -1, 1)) - stock.arange(0, keys)).astype(ms.float32)


_select = Selector("flash_attention", _bprop)


def _call(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, causal: bool, window: int, layout: str
) -> tuple[Tensor, Tensor]:
    select = _select(query, key, value, mask, scale, causal, window, layout)
    return select(query, key, value, mask)  # type: ignore[no-any-return]


def _additive(mask: Tensor) -> Tensor:
    """A mask as the kernel takes it: of four dims, and numbers in the place of bools."""
    if mask.dtype == ms.bool_:
        mask = stock.select(mask, 0.0, float("-inf"))
    for _ in range(4 - mask.ndim):
        mask = mask.expand_dims(0)
    return mask


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    window: int = 0,
    layout: str = "BNSD",
) -> tuple[Tensor, Tensor]:
    r"""Attention with an online softmax: the scores are never in memory as a whole.

    .. math::
        out = softmax(scale \cdot query \, key^T + mask) \, value

    Args:
        query: Tensor[float16 | bfloat16 | float32], shape (batch, heads, s, d), or with the layout BSND
            (batch, s, heads, d).
        key: Tensor[dtype of query], shape (batch, key heads, t, d) or (batch, t, key heads, d). The number of heads of
            query is a multiple of that of key: consecutive heads share one.
        value: Tensor[dtype of query], shape of key, but for its last dim e.
        mask: Tensor[dtype of query | float32 | bool], shape (batch or 1, heads or 1, s or 1, t), or without the first
            ones of these. It is added to the scores; -inf hides a key. Of bools, True is a key that is seen, as in
            PyTorch's scaled_dot_product_attention; they are made into 0 and -inf of float32 first. Where its own
            gradient is needed, as that of a learned bias, stock operators compute it, with all scores in memory:
            in a graph if it is used, in PyNative if the mask depends on a Parameter or on an input of the
            differentiated function; `ops.stop_gradient(mask)` keeps it away.
        scale: what scores are multiplied by; without it 1 / sqrt(d).
        causal: a query sees the keys up to its own position only. The last query stands at the last key, as with a
            cache of keys: query i sees keys 0 to i + t - s.
        window: a query sees as many keys at most, the last of them at its own position; 0: all.
        layout: "BNSD" or "BSND", of query, key, value and out.

    Returns:
        out: Tensor[dtype of query], shape of query, but for its last dim e.
        lse: Tensor[float32], shape (batch, heads, s): the logarithm of the sum of the exponentials of the scores.
        A query that sees no key, none with a score above -1e38, has zeros and -inf.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other, heads that do not divide or have more than 256 elements, a window
            below 0.

    NaN in a query, or in a key that it sees, gives NaN for that query; NaN in a value gives NaN in that column for all
    queries of the tile, as 0 * NaN is NaN. An empty query gives empty results.

    Scores, probabilities and sums are float32; probabilities are rounded to the dtype of query before they are
    multiplied by value, as FlashAttention does (Dao et al., arXiv:2205.14135).
    """
    if scale is None:
        scale = float(query.shape[-1] or 1) ** -0.5  # the definition refuses heads without elements
    if isinstance(mask, Tensor):
        mask = _additive(mask)
    return _call(query, key, value, mask, scale, causal, window, layout)


def composition(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scale: float,
    causal: bool,
    window: int,
    layout: str,
) -> Tensors:
    """Compute all outputs by stock operators, as `compositions.py` says."""
    q, k, v = query.astype(ms.float32), key.astype(ms.float32), value.astype(ms.float32)
    if layout == "BSND":
        q, k, v = q.swapaxes(1, 2), k.swapaxes(1, 2), v.swapaxes(1, 2)
    shared = q.shape[1] // k.shape[1]
    if shared > 1:
        k, v = stock.repeat_interleave(k, shared, 1), stock.repeat_interleave(v, shared, 1)
    scores = stock.matmul(q, k.swapaxes(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask.astype(ms.float32)
    queries, keys = scores.shape[-2], scores.shape[-1]
    # A key lies so far behind the query, whose last one sees the last key.
    behind = stock.arange(queries).expand_dims(1) + (keys - queries) - stock.arange(keys).expand_dims(0)
    hidden = stock.zeros((queries, keys), ms.float32)
    if causal:
        hidden = stock.select(behind < 0, stock.full_like(hidden, float("-inf")), hidden)
    if window > 0:
        hidden = stock.select(behind >= window, stock.full_like(hidden, float("-inf")), hidden)
    if causal or window > 0:
        scores = scores + hidden
    largest = scores.max(-1, keepdims=True)
    # A query that sees no key gets zeros.
    blind = largest == float("-inf")
    weights = stock.exp(scores - stock.select(blind, stock.zeros_like(largest), largest))
    total = weights.sum(-1, keepdims=True)
    out = stock.matmul(weights / stock.select(blind, stock.ones_like(total), total), v)
    lse = (largest + stock.log(total)).squeeze(-1)
    if layout == "BSND":
        out = out.swapaxes(1, 2)
    return out.astype(query.dtype), lse
