"""Attention over a paged cache of keys and values."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector

__all__ = ["paged_attention"]


_select = Selector("paged_attention")


def _call(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lengths: Tensor,
    scale: float,
    window: int,
    softcap: float,
) -> Tensor:
    select = _select(query, key_cache, value_cache, block_tables, context_lengths, scale, window, softcap)
    return select(query, key_cache, value_cache, block_tables, context_lengths)  # type: ignore[no-any-return]


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lengths: Tensor,
    scale: float | None = None,
    window: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    r"""Attention of new tokens over the paged cache that `kv_cache_update` writes, for inference.

    .. math::
        out = softmax(cap(scale \cdot query \, keys^T)) \, values, \quad cap(x) = softcap \tanh(x / softcap)

    Position i of a sequence is row i % block_size of block block_tables[sequence, i // block_size]. Of a sequence of
    length n the last query stands at position n - 1, so its own key has to be in the cache already, and query j of s
    sees the positions 0 to n - s + j; with a window that many of them at most, its own the last.

    A contiguous cache, (batch, max_seq, key heads, d), is a cache of one block a sequence: block_tables is then
    `ops.arange(batch).reshape(-1, 1)`, as int32.

    Args:
        query: Tensor[float16 | bfloat16 | float32], shape (batch, tokens, heads, d): the new tokens of each sequence.
        key_cache: Tensor[dtype of query], shape (blocks, block_size, key heads, d). The number of heads of query is a
            multiple of that of key_cache: consecutive heads share one.
        value_cache: Tensor[dtype of query], shape (blocks, block_size, key heads, e).
        block_tables: Tensor[int32], shape (batch, most blocks of a sequence). What a length does not reach is not
            looked at. Blocks with consecutive numbers are read as one.
        context_lengths: Tensor[int32], shape (batch,): how many tokens of each sequence are in the cache, the new ones
            among them.
        scale: what scores are multiplied by; without it 1 / sqrt(d).
        window: a query sees as many keys at most, the last of them at its own position; 0: all.
        softcap: what scores come near to at most, as those of Gemma 2; 0: they stay as they are.

    Returns:
        Tensor[dtype of query], shape (batch, tokens, heads, e). A query that sees no key has zeros: all of a sequence
        of length 0, and the first ones where there are more queries than its length.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other, heads that do not divide or have more than 256 elements,
            a window or a soft cap below 0.
        RuntimeError: a length is negative or more than the table has room for, or a block lies beyond the cache;
            MindSpore reports it when a result is read. Nothing outside the cache is read. Also where a gradient
            is needed: there is none.

    NaN in a query, or in a key that it sees, gives NaN for that query; NaN in a value gives NaN in that column for all
    queries of the tile, as 0 * NaN is NaN. What lies in the cache behind a sequence's length is not read. An empty
    query gives an empty result.

    Scores, probabilities and sums are float32; probabilities are rounded to the dtype of query before they are
    multiplied by the values.

    Source: Kwon et al., Efficient Memory Management for Large Language Model Serving with PagedAttention, 2023; the
    softmax is that of FlashAttention (Dao et al., arXiv:2205.14135).
    """
    if scale is None:
        scale = float(query.shape[-1] or 1) ** -0.5  # the definition refuses heads without elements
    return _call(query, key_cache, value_cache, block_tables, context_lengths, scale, window, softcap)
