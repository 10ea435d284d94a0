"""Cells in the place of MindSpore's primitives that only an Ascend NPU has, under the same names.

A cell is made as its primitive is, and called as it is: it computes the same with our operators, or with stock ones,
in PyNative and in graph mode. An argument that cannot be served raises an error that names it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops
from ms_ascend_ops.export import attention_builtins as attention
from ms_ascend_ops.export.stock_primitives import STOCK, StandIn

from ms_ascend_ops import ops, registry
from ms_ascend_ops.convolution import PADDINGS
from ms_ascend_ops.custom import FusedPrimitive

__all__ = [
    "STAND_INS",
    "StandIn",
    "attend_pages",
    "conv2d_padding",
    "quantized_product",
    "rotary_position_embedding",
    "stand_in_for",
]


def stand_in_for(primitive: Any) -> StandIn:
    """The cell for a primitive object, with the same attributes."""
    kind = STAND_INS[type(primitive).__name__]
    names = list(inspect.signature(kind.__init__).parameters)[1:]
    made: StandIn = kind(**{name: value for name, value in primitive.init_attrs.items() if name in names})
    return made


class RmsNorm(StandIn):
    """RmsNorm(epsilon)(x, gamma)."""

    def __init__(self, epsilon: float = 1e-6):
        super().__init__()
        self.epsilon = float(epsilon)

    def construct(self, x: Tensor, gamma: Tensor) -> Any:
        return ops.rms_norm(x, gamma, self.epsilon)


class AddRmsNorm(StandIn):
    """AddRmsNorm()(x1, x2, gamma, epsilon)."""

    def construct(self, x1: Tensor, x2: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> Any:
        return ops.add_rms_norm(x1, x2, gamma, epsilon)


class Swiglu(StandIn):
    """Swiglu()(input, dim)."""

    def construct(self, input: Tensor, dim: int = -1) -> Tensor:
        return ops.swiglu(input, dim)


class Conv2DExt(StandIn):
    """Conv2DExt()(input, weight, bias, stride, padding, dilation, groups), also Conv2DPadding, of named paddings."""

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
    """What Conv2DPadding computes."""
    return ops.conv2d(x, weight, bias, stride, PADDINGS.get(padding, padding), dilation, groups)


def rotary_position_embedding(x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Tensor:
    """In the place of `mindspore.ops.rotary_position_embedding`: tables of four dims, all but those of positions 1."""
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


class RotaryPositionEmbedding(StandIn):
    """RotaryPositionEmbedding()(x, cos, sin, mode)."""

    def construct(self, x: Tensor, cos: Tensor, sin: Tensor, mode: int = 0) -> Tensor:
        return rotary_position_embedding(x, cos, sin, mode)


class ApplyRotaryPosEmb(StandIn):
    """ApplyRotaryPosEmb(cos_format)(query, key, cos, sin, position_ids) of tokens of several sequences.

    position_ids has the lengths of the sequences. Of all their tokens, each has the row of the tables of its position;
    of the newest ones only, a row of its own.
    """

    def __init__(self, cos_format: int = 0):
        super().__init__()
        # As MindFormers names them: rotate_half and interleaved.
        if cos_format not in (2, 3):
            raise ValueError(f"ApplyRotaryPosEmb: cos_format must be 2 (halves) or 3 (neighbours), got {cos_format}")
        self.mode = "half" if cos_format == 2 else "interleave"

    def construct(self, query: Tensor, key: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor) -> Any:
        size = cos.shape[-1]
        rows = _rows_of(position_ids, query.reshape(-1, query.shape[-1]).shape[0])
        cos, sin = ms_ops.gather(cos, rows, 0), ms_ops.gather(sin, rows, 0)
        return self.turned(query, cos, sin, size), self.turned(key, cos, sin, size)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor, size: int) -> Tensor:
        heads = x.reshape(1, -1, x.shape[-1] // size, size)
        y = ops.rotary_embedding(heads, cos, sin, self.mode, "BSND", 0, True)
        return y.reshape(x.shape)


def _rows_of(lengths: Tensor, tokens: int) -> Tensor:
    """Which row of a table each token has: its position, where there are all tokens of the sequences; else its own.

    Without a condition: a graph for any sizes would make a branch of it.
    """
    lengths = lengths.reshape(-1).astype(ms.int32)
    index = ms_ops.arange(tokens).astype(ms.int32)
    passed = (index.reshape(-1, 1) >= ms_ops.cumsum(lengths, 0, ms.int32).reshape(1, -1)).astype(ms.int32)
    before = (passed * lengths.reshape(1, -1)).sum(1)
    whole = lengths.sum() == (index >= 0).astype(ms.int32).sum()
    return index - before * whole.astype(ms.int32)


class FlashAttentionScore(StandIn):
    """FlashAttentionScore(head_num, ...)(query, key, value, ...): the result is the fourth of its four outputs."""

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
        """The layout TH of inference: tokens of all sequences behind each other, of which there are the lengths.

        A mask is the triangle above a diagonal, which stands for all lengths.
        """
        size = query.shape[-1] // self.head_num
        ends = [ms_ops.cumsum(lengths.astype(ms.int32), 0, ms.int32) for lengths in (queries, keys)]
        q, k, v = [x.reshape(-1, x.shape[-1] // size, size) for x in (query, key, value)]
        causal = attn_mask is not None
        out = ops.flash_attention_varlen(q, k, v, ends[0], ends[1], self.scale_value, causal)[0]
        return out.reshape(query.shape)


class PromptFlashAttention(StandIn):
    """PromptFlashAttention(num_heads, ...)(query, key, value, ...), without quantization."""

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


class ReshapeAndCache(StandIn):
    """ReshapeAndCache()(key, value, key_cache, value_cache, slot_mapping): writes into the caches, and returns key."""

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


class PagedAttention(StandIn):
    """PagedAttention(head_num, scale_value, kv_head_num)(query, key_cache, value_cache, block_tables, context_lens)."""

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
        # A graph does not see that it reads what ReshapeAndCache has written; side effects it leaves in their order.
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
        # One new token of each sequence: a mask hides nothing that its length does not.
        size = key_cache.shape[-1]
        heads = query.reshape(-1, 1, self.head_num, size)
        lengths = context_lens.reshape(-1).astype(ms.int32)
        tables = block_tables.astype(ms.int32)
        out = self.read(heads, key_cache, value_cache, tables, lengths)
        return out.reshape(query.shape)


_FLOATS = (ms.float16, ms.bfloat16, ms.float32)
# What moe_token_permute counts where nothing says how many experts there are.
_MOST_EXPERTS = registry.op_spec("moe_token_permute").limits["experts"]


def _by_expert(tokens: Tensor, indices: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens by their experts, where each choice comes to lie, and where experts end. All keep their order."""
    pairs = (indices.reshape(-1, 1) if indices.ndim == 1 else indices).astype(ms.int32)
    size = tokens.shape[-1]
    if tokens.dtype in _FLOATS:
        rows, places, ends = ops.moe_token_permute(tokens, pairs, experts)
        return rows.reshape(-1, size), places.reshape(-1), ends
    # Numbers of tokens are moved in the place of what the kernel does not take.
    numbers = ms_ops.arange(pairs.shape[0]).astype(ms.float32).reshape(-1, 1)
    rows, places, ends = ops.moe_token_permute(numbers, pairs, experts)
    return ms_ops.gather(tokens, rows.reshape(-1).astype(ms.int32), 0), places.reshape(-1), ends


class MoeTokenPermute(StandIn):
    """MoeTokenPermute()(tokens, indices, num_out_tokens): tokens by their experts, and where each one lies there."""

    def construct(
        self, tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
    ) -> Any:
        if padded_mode:
            raise ValueError("MoeTokenPermute: padded_mode must be False")
        rows, places, _ = _by_expert(tokens, indices, _MOST_EXPERTS)
        return rows if num_out_tokens is None else rows[:num_out_tokens], places


class MoeTokenUnpermute(StandIn):
    """MoeTokenUnpermute()(permuted_tokens, sorted_indices, probs): tokens as they were, weighted and added."""

    def construct(
        self,
        permuted_tokens: Tensor,
        sorted_indices: Tensor,
        probs: Any = None,
        padded_mode: bool = False,
        restore_shape: Any = None,
    ) -> Tensor:
        if padded_mode or restore_shape is not None:
            raise ValueError("MoeTokenUnpermute: padded_mode must be False and restore_shape None")
        chosen, size = 1 if probs is None else probs.shape[1], permuted_tokens.shape[-1]
        rows, places = permuted_tokens.reshape(-1, chosen, size), sorted_indices.reshape(-1, chosen).astype(ms.int32)
        if probs is not None and probs.dtype not in (rows.dtype, ms.float32):
            probs = probs.astype(ms.float32)
        return ops.moe_token_unpermute(rows, places, probs)


class MoeInitRoutingV2(StandIn):
    """MoeInitRoutingV2()(x, expert_idx, ...), nothing dropped: tokens by expert, their places, and how many."""

    def construct(
        self,
        x: Tensor,
        expert_idx: Tensor,
        active_num: int = 0,
        expert_capacity: int = 0,
        expert_num: int = 0,
        drop_pad_mode: int = 0,
        expert_tokens_count_or_cumsum_flag: int = 0,
        expert_tokens_before_capacity_flag: bool = False,
    ) -> Any:
        if active_num or expert_capacity or drop_pad_mode:
            raise ValueError("MoeInitRoutingV2: active_num, expert_capacity and drop_pad_mode must be 0")
        rows, places, ends = _by_expert(x, expert_idx, expert_num)
        counts = ends - ms_ops.concat((ms_ops.zeros_like(ends[:1]), ends[:-1]))
        return rows, places, ends if expert_tokens_count_or_cumsum_flag == 1 else counts, counts


class FusedAddTopKDiv(StandIn):
    """FusedAddTopKDiv()(x, add_num, group_num, group_topk, n, k, ...): the best experts of the best groups."""

    def construct(
        self,
        x: Tensor,
        add_num: Tensor,
        group_num: int,
        group_topk: int,
        n: int,
        k: int,
        activate_type: int = 0,
        is_norm: bool = True,
        scale: float = 2.5,
        mapping_num: Any = None,
        mapping_table: Any = None,
        enable_expert_mapping: bool = False,
    ) -> Any:
        if n > 2 and group_topk < group_num:
            raise ValueError(f"FusedAddTopKDiv: n must be 1 or 2, where groups are closed, on a CPU, got {n}")
        if activate_type != 0 or enable_expert_mapping:
            raise ValueError("FusedAddTopKDiv: activate_type must be 0 and enable_expert_mapping False on a CPU")
        bias = add_num if add_num.dtype == x.dtype else add_num.astype(ms.float32)
        score = "top2" if n == 2 else "max"  # without a meaning where no group is closed
        return ops.moe_gating_top_k(x, bias, k, "sigmoid", is_norm, group_num, group_topk, score, scale)


class GroupedMatmulV4(StandIn):
    """GroupedMatmulV4()(x, weight, ..., group_list, ...) of one x with groups of rows, and one weight of all groups."""

    def construct(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        scale: Any = None,
        offset: Any = None,
        antiquant_scale: Any = None,
        antiquant_offset: Any = None,
        pre_token_scale: Any = None,
        group_list: Any = None,
        activation_input: Any = None,
        activation_quant_scale: Any = None,
        activation_quant_offset: Any = None,
        split_item: int = 0,
        group_type: int = -1,
        group_list_type: int = 0,
        act_type: int = 0,
        output_dtype: Any = None,
    ) -> Any:
        if bias is not None or offset is not None or antiquant_scale is not None or antiquant_offset is not None:
            raise ValueError(
                "GroupedMatmulV4: bias, offset, antiquant_scale and antiquant_offset must be None on a CPU"
            )
        if activation_input is not None or act_type != 0:
            raise ValueError("GroupedMatmulV4: activation_input must be None and act_type 0 on a CPU")
        if split_item != 3 or group_type != 0:
            raise ValueError("GroupedMatmulV4: split_item must be 3 and group_type 0 on a CPU")
        ends = group_list if group_list_type == 0 else ms_ops.cumsum(group_list.astype(ms.int32), 0, ms.int32)
        if scale is None:
            if pre_token_scale is not None:
                raise ValueError("GroupedMatmulV4: pre_token_scale needs scale on a CPU")
            y = _in_groups(x[0], ends, lambda whole: ops.grouped_matmul(x[0], weight[0], whole))
            return [y if output_dtype is None else y.astype(output_dtype)]
        # Of 8-bit integers. The result is bfloat16, where nothing else is said.
        rows = None if pre_token_scale is None else pre_token_scale[0].astype(ms.float32)
        factors, columns = scale[0].astype(ms.float32), weight[0].swapaxes(1, 2)
        y = _in_groups(x[0], ends, lambda whole: ops.grouped_quant_matmul(x[0], columns, factors, whole, rows))
        return [y.astype(ms.bfloat16 if output_dtype is None else output_dtype)]


class GroupedMatmul(StandIn):
    """GroupedMatmul(split_item, group_type, ...)(x, weight, ..., group_list), as GroupedMatmulV4."""

    def __init__(self, split_item: int = 0, group_type: int = -1, transpose_a: bool = False, transpose_b: bool = False):
        super().__init__()
        if split_item != 3 or group_type != 0 or transpose_a:
            raise ValueError("GroupedMatmul: split_item must be 3, group_type 0 and transpose_a False on a CPU")
        self.transpose_b = bool(transpose_b)

    def construct(
        self,
        x: Any,
        weight: Any,
        bias: Any = None,
        scale: Any = None,
        offset: Any = None,
        antiquant_scale: Any = None,
        antiquant_offset: Any = None,
        group_list: Any = None,
    ) -> Any:
        if bias is not None or scale is not None or offset is not None or antiquant_scale is not None:
            raise ValueError("GroupedMatmul: bias, scale, offset and antiquant_scale must be None on a CPU")
        whole = weight[0].swapaxes(1, 2) if self.transpose_b else weight[0]
        return [_in_groups(x[0], group_list, lambda ends: ops.grouped_matmul(x[0], whole, ends))]


def _in_groups(x: Tensor, ends: Tensor, multiply: Callable[[Tensor], Tensor]) -> Tensor:
    """The product for groups that end there, and zeros behind the last one."""
    rows, ends = ms_ops.arange(x.shape[0]).astype(ms.int32), ends.astype(ms.int32)
    # Our operators want all rows in groups: the last one takes what is behind it, too.
    total = (rows >= 0).astype(ms.int32).sum().reshape(1).astype(ms.int32)
    out = multiply(ms_ops.concat((ends[:-1], total)))
    return ms_ops.select(rows.reshape(-1, 1) < ends[-1], out, ms_ops.zeros_like(out))


class DynamicQuantExt(StandIn):
    """DynamicQuantExt()(x, smooth_scales): int8 of each row, and what one of them stands for."""

    def construct(self, x: Tensor, smooth_scales: Any = None) -> Any:
        return ops.dynamic_quant(x, None if smooth_scales is None else smooth_scales.astype(x.dtype))


class QuantV2(StandIn):
    """QuantV2()(x, scale, offset): int8, to the nearest even."""

    def construct(
        self,
        x: Tensor,
        scale: Tensor,
        offset: Tensor,
        sqrt_mode: bool = False,
        rounding_mode: str = "ROUND",
        dst_type: Any = ms.int8,
    ) -> Tensor:
        if sqrt_mode:
            raise ValueError("QuantV2: sqrt_mode must be False")
        values = x.astype(ms.float32) * scale.astype(ms.float32) + offset.astype(ms.float32)
        return ms_ops.clamp(ms_ops.round(values), -128.0, 127.0).astype(ms.int8)


class QuantBatchMatmul(StandIn):
    """QuantBatchMatmul(transpose_x1, transpose_x2, dtype)(x1, x2, scale, ...) of int8.

    Sums are exact; of a weight with a batch, in float32, up to 1040 products are.
    """

    def __init__(self, transpose_x1: bool = False, transpose_x2: bool = False, dtype: Any = ms.float16):
        super().__init__()
        self.transpose_x1, self.transpose_x2, self.dtype = bool(transpose_x1), bool(transpose_x2), dtype

    def construct(
        self,
        x1: Tensor,
        x2: Tensor,
        scale: Tensor,
        offset: Any = None,
        bias: Any = None,
        pertokenScaleOptional: Any = None,  # noqa: N803  (the name that MindSpore has)
    ) -> Tensor:
        return quantized_product(
            "QuantBatchMatmul",
            x1,
            x2,
            scale,
            offset,
            bias,
            pertokenScaleOptional,
            self.transpose_x1,
            self.transpose_x2,
            self.dtype,
        )


def quantized_product(
    name: str,
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Any,
    bias: Any,
    row_scale: Any,
    transpose_x1: bool,
    transpose_x2: bool,
    dtype: Any,
) -> Tensor:
    """The product of matrices of int8, scaled by column and by row, with a bias of int32 before that or of floats."""
    if offset is not None:
        raise ValueError(f"{name}: offset must be None on a CPU")
    if scale.dtype not in (ms.float32, ms.bfloat16):
        raise ValueError(f"{name}: scale must be float32 or bfloat16 on a CPU: int64 packs bits of an NPU")
    scale = scale.reshape(-1).astype(ms.float32)
    rows = x1.swapaxes(-1, -2) if transpose_x1 else x1
    if x2.ndim == 2:
        columns = x2 if transpose_x2 else x2.swapaxes(0, 1)
        out = ops.quant_matmul(rows, columns, ms_ops.ones((columns.shape[0],), ms.float32))
    else:
        weight = x2.swapaxes(-1, -2) if transpose_x2 else x2
        out = ms_ops.matmul(rows.astype(ms.float32), weight.astype(ms.float32))
    if bias is not None and bias.dtype == ms.int32:
        out = out + bias.astype(ms.float32)
    out = out * scale
    if row_scale is not None:
        out = out * row_scale.astype(ms.float32).expand_dims(-1)
    if bias is not None and bias.dtype != ms.int32:
        out = out + bias.astype(ms.float32)
    return out.astype(dtype)


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
    """Attention of heads of any size over pages: query (tokens, heads, d), keys (blocks, block_size, key heads, d).

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


STAND_INS: dict[str, Any] = (
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
