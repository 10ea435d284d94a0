"""Replaces primitives of attention that only an Ascend NPU has by cells: see primitives.py."""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops
from ms_ascend_ops.export.builtins import attention
from ms_ascend_ops.export.builtins.stock_primitives import Shim

from ms_ascend_ops import ops, registry
from ms_ascend_ops.custom import FusedPrimitive

__all__ = ["FlashAttentionScore", "PagedAttention", "PromptFlashAttention", "ReshapeAndCache", "attend_pages"]


class FlashAttentionScore(Shim):
    """Computes FlashAttentionScore(head_num, ...)(query, key, value, ...): the result is the fourth of its four
    outputs.
    """

    def __init__(
        self,
        head_num: int,
        keep_prob: float = 1.0,
        scale_value: float = 1.0,
        pre_tokens: int = 2147483647,
        next_tokens: int = 2147483647,
        inner_precise: int = 0,
        input_layout: str = "BSH",
        sparse_mode: int = 0,
    ):
        super().__init__()
        self.head_num, self.scale_value, self.keep_prob = int(head_num), float(scale_value), float(keep_prob)
        self.tokens = int(pre_tokens), int(next_tokens)
        self.input_layout, self.sparse_mode = input_layout, int(sparse_mode)

    def construct(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        real_shift: Any = None,
        drop_mask: Any = None,
        padding_mask: Any = None,
        attn_mask: Any = None,
        prefix: Any = None,
        actual_seq_qlen: Any = None,
        actual_seq_kvlen: Any = None,
    ) -> Any:
        if self.input_layout == "TH":
            return None, None, None, self.of_tokens(query, key, value, attn_mask, actual_seq_qlen, actual_seq_kvlen)
        out = attention.flash_attention_score(
            query,
            key,
            value,
            self.head_num,
            real_shift,
            drop_mask,
            padding_mask,
            attn_mask,
            prefix,
            actual_seq_qlen,
            actual_seq_kvlen,
            self.keep_prob,
            self.scale_value,
            self.tokens[0],
            self.tokens[1],
            0,
            self.input_layout,
            self.sparse_mode,
        )
        return None, None, None, out

    def of_tokens(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Any, queries: Tensor, keys: Tensor
    ) -> Tensor:
        """Compute attention in the layout TH of inference: the tokens of all sequences are concatenated, with
        their lengths.

        A mask is the triangle above a diagonal, which stands for all lengths.
        """
        size = query.shape[-1] // self.head_num
        ends = [ms_ops.cumsum(lengths.astype(ms.int32), 0, ms.int32) for lengths in (queries, keys)]
        q, k, v = [x.reshape(-1, x.shape[-1] // size, size) for x in (query, key, value)]
        causal = attn_mask is not None
        out = ops.flash_attention_varlen(q, k, v, ends[0], ends[1], self.scale_value, causal)[0]
        return out.reshape(query.shape)


class PromptFlashAttention(Shim):
    """Computes PromptFlashAttention(num_heads, ...)(query, key, value, ...), without quantization."""

    def __init__(
        self,
        num_heads: int,
        scale_value: float = 1.0,
        pre_tokens: int = 2147483647,
        next_tokens: int = 0,
        input_layout: str = "BSH",
        num_key_value_heads: int = 0,
        sparse_mode: int = 0,
        inner_precise: int = 1,
    ):
        super().__init__()
        self.num_heads, self.scale_value, self.tokens = int(num_heads), float(scale_value), (pre_tokens, next_tokens)
        self.input_layout, self.num_key_value_heads = input_layout, int(num_key_value_heads)
        self.sparse_mode = int(sparse_mode)

    def construct(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Any = None,
        actual_seq_lengths: Any = None,
        actual_seq_lengths_kv: Any = None,
        pse_shift: Any = None,
        deq_scale1: Any = None,
        quant_scale1: Any = None,
        deq_scale2: Any = None,
        quant_scale2: Any = None,
        quant_offset2: Any = None,
    ) -> Tensor:
        return attention.prompt_flash_attention(
            query,
            key,
            value,
            attn_mask,
            actual_seq_lengths,
            actual_seq_lengths_kv,
            pse_shift,
            deq_scale1,
            quant_scale1,
            deq_scale2,
            quant_scale2,
            quant_offset2,
            self.num_heads,
            self.scale_value,
            self.tokens[0],
            self.tokens[1],
            self.input_layout,
            self.num_key_value_heads,
            self.sparse_mode,
        )


class ReshapeAndCache(Shim):
    """Computes ReshapeAndCache()(key, value, key_cache, value_cache, slot_mapping): writes into the caches, and
    returns key.
    """

    def construct(
        self, key: Tensor, value: Any = None, key_cache: Any = None, value_cache: Any = None, slot_mapping: Any = None
    ) -> Tensor:
        heads, size = key_cache.shape[2], key_cache.shape[3]
        if value is None:  # keys once more are the same keys
            value, value_cache = key, key_cache
        changed, _ = ops.kv_cache_update(
            key.reshape(-1, heads, size),
            value.reshape(-1, value_cache.shape[2], value_cache.shape[3]),
            key_cache,
            value_cache,
            slot_mapping.reshape(-1).astype(ms.int32),
        )
        return ms_ops.depend(key, changed)


class PagedAttention(Shim):
    """Computes PagedAttention(head_num, scale_value, kv_head_num)(query, key_cache, value_cache, block_tables,
    context_lens).
    """

    def __init__(
        self,
        head_num: int,
        scale_value: float = 1.0,
        kv_head_num: int = 0,
        kv_cache_quant_mode: str = "DEFAULT",
        mask_mode: str = "MASK_DEFAULT",
        mla_v_dim: int = 0,
    ):
        super().__init__()
        self.head_num = int(head_num)
        signature = registry.signature("paged_attention")
        self.read = FusedPrimitive(signature, signature.check_attributes({"scale": float(scale_value)}), None)
        # Read the cache as a side effect: a graph does not see that this reads what ReshapeAndCache has written, and it
        # keeps side effects in order.
        self.read.add_prim_attr("side_effect_mem", True)
        self.scale, self.value_size = float(scale_value), int(mla_v_dim)

    def construct(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Any = None,
        block_tables: Any = None,
        context_lens: Any = None,
        antiquant_scale: Any = None,
        antiquant_offset: Any = None,
        attn_mask: Any = None,
        q_seq_lens: Any = None,
        alibi_mask: Any = None,
    ) -> Tensor:
        if antiquant_scale is not None or antiquant_offset is not None or alibi_mask is not None:
            raise ValueError("PagedAttention: antiquant_scale, antiquant_offset and alibi_mask must be None on a CPU")
        if self.value_size:  # latent heads: values are the first elements of their keys
            keys = ms_ops.depend(key_cache, query)
            heads = query.reshape(-1, self.head_num, keys.shape[-1])
            values = keys[:, :, :, : self.value_size]
            causal = attn_mask is not None
            out = attend_pages(heads, keys, values, block_tables, context_lens, q_seq_lens, self.scale, causal)
            return out.astype(query.dtype).reshape(query.shape[:-1] + (-1,))  # noqa: RUF005
        # With one new token per sequence, a mask hides nothing that the length does not.
        size = key_cache.shape[-1]
        heads = query.reshape(-1, 1, self.head_num, size)
        lengths = context_lens.reshape(-1).astype(ms.int32)
        tables = block_tables.astype(ms.int32)
        out = self.read(heads, key_cache, value_cache, tables, lengths)
        return out.reshape(query.shape)


def attend_pages(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tables: Tensor,
    lengths: Tensor,
    new: Any,
    scale: float,
    causal: bool,
) -> Tensor:
    """Compute attention of heads of any size over pages: query (tokens, heads, d), keys (blocks, block_size,
    key heads, d).

    `new` has the number of new tokens of each sequence, one each without it. Composed of stock operators, in float32.
    """
    tokens, heads, size = query.shape
    pages, rows, shared, _ = keys.shape
    index = ms_ops.arange(tokens).astype(ms.int32)
    lengths, tables = lengths.reshape(-1).astype(ms.int32), tables.astype(ms.int32)
    if new is None:
        sequence, ahead = index, ms_ops.zeros_like(index)
    else:
        ends = ms_ops.cumsum(new.reshape(-1).astype(ms.int32), 0, ms.int32)
        sequence = (index.reshape(-1, 1) >= ends.reshape(1, -1)).astype(ms.int32).sum(1).astype(ms.int32)
        ahead = ms_ops.gather(ends, sequence, 0) - 1 - index
    seen = ms_ops.gather(lengths, sequence, 0) - (ahead if causal else 0)
    table = ms_ops.clamp(ms_ops.gather(tables, sequence, 0), 0, pages - 1)
    length = table.shape[1] * rows
    k = ms_ops.gather(keys, table.reshape(-1), 0).reshape(tokens, length, shared, size).astype(ms.float32)
    v = ms_ops.gather(values, table.reshape(-1), 0).reshape(tokens, length, shared, -1).astype(ms.float32)
    q = query.reshape(tokens, shared, heads // shared, size).astype(ms.float32)
    scores = ms_ops.matmul(q, k.transpose(0, 2, 3, 1)) * scale
    visible = (ms_ops.arange(length).reshape(1, -1) < seen.reshape(-1, 1)).reshape(tokens, 1, 1, length)
    weights = ms_ops.softmax(ms_ops.select(visible, scores, ms_ops.full_like(scores, -1e30)), -1)
    weights = ms_ops.select(visible, weights, ms_ops.zeros_like(weights))
    return ms_ops.matmul(weights, v.swapaxes(1, 2)).reshape(tokens, heads, -1)
