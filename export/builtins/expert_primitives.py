"""Replaces primitives of mixtures of experts that only an Ascend NPU has by cells: see primitives.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops
from ms_ascend_ops.export.builtins.stock_primitives import Shim

from ms_ascend_ops import ops, registry

__all__ = [
    "FusedAddTopKDiv",
    "GroupedMatmul",
    "GroupedMatmulV4",
    "MoeInitRoutingV2",
    "MoeTokenPermute",
    "MoeTokenUnpermute",
]

_FLOATS = (ms.float16, ms.bfloat16, ms.float32)
# moe_token_permute assumes so many experts where their number is not given.
_MOST_EXPERTS = registry.op_spec("moe_token_permute").limits["experts"]


def _by_expert(tokens: Tensor, indices: Tensor, experts: int) -> tuple[Tensor, Tensor, Tensor]:
    """Sort tokens by their experts; return where each choice lies then, and where experts end. The sort is stable."""
    pairs = (indices.reshape(-1, 1) if indices.ndim == 1 else indices).astype(ms.int32)
    size = tokens.shape[-1]
    if tokens.dtype in _FLOATS:
        rows, places, ends = ops.moe_token_permute(tokens, pairs, experts)
        return rows.reshape(-1, size), places.reshape(-1), ends
    # Permute indices of tokens where the kernel does not take the tokens themselves.
    numbers = ms_ops.arange(pairs.shape[0]).astype(ms.float32).reshape(-1, 1)
    rows, places, ends = ops.moe_token_permute(numbers, pairs, experts)
    return ms_ops.gather(tokens, rows.reshape(-1).astype(ms.int32), 0), places.reshape(-1), ends


class MoeTokenPermute(Shim):
    """Sorts tokens by their experts: MoeTokenPermute()(tokens, indices, num_out_tokens), with where each one
    lies there.
    """

    def construct(
        self, tokens: Tensor, indices: Tensor, num_out_tokens: int | None = None, padded_mode: bool = False
    ) -> Any:
        if padded_mode:
            raise ValueError("MoeTokenPermute: padded_mode must be False")
        rows, places, _ = _by_expert(tokens, indices, _MOST_EXPERTS)
        return rows if num_out_tokens is None else rows[:num_out_tokens], places


class MoeTokenUnpermute(Shim):
    """Restores the order of tokens, weighted and added: MoeTokenUnpermute()(permuted_tokens, sorted_indices, probs)."""

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


class MoeInitRoutingV2(Shim):
    """Computes MoeInitRoutingV2()(x, expert_idx, ...), nothing dropped: tokens by expert, their places, and how
    many.
    """

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


class FusedAddTopKDiv(Shim):
    """Chooses the best experts of the best groups: FusedAddTopKDiv()(x, add_num, group_num, group_topk, n, k, ...)."""

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


class GroupedMatmulV4(Shim):
    """Computes GroupedMatmulV4()(x, weight, ..., group_list, ...) of one x with groups of rows, and one weight
    of all groups.
    """

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
        # The factors are 8-bit integers, and the result is bfloat16 unless told otherwise.
        rows = None if pre_token_scale is None else pre_token_scale[0].astype(ms.float32)
        factors, columns = scale[0].astype(ms.float32), weight[0].swapaxes(1, 2)
        y = _in_groups(x[0], ends, lambda whole: ops.grouped_quant_matmul(x[0], columns, factors, whole, rows))
        return [y.astype(ms.bfloat16 if output_dtype is None else output_dtype)]


class GroupedMatmul(Shim):
    """Computes GroupedMatmul(split_item, group_type, ...)(x, weight, ..., group_list), as GroupedMatmulV4."""

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
    """Compute the product for groups that end there, and zeros behind the last one."""
    rows, ends = ms_ops.arange(x.shape[0]).astype(ms.int32), ends.astype(ms.int32)
    # Our operators need all rows in groups: the last group takes the rows behind it, too.
    total = (rows >= 0).astype(ms.int32).sum().reshape(1).astype(ms.int32)
    out = multiply(ms_ops.concat((ends[:-1], total)))
    return ms_ops.select(rows.reshape(-1, 1) < ends[-1], out, ms_ops.zeros_like(out))
