"""Computes MindSpore's attention functions, which only an Ascend NPU has, on our operators: composed, for the
sake of results.

What an argument means is what MindSpore's documentation says of it. An argument that cannot be served raises an error
that names it.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops

from ms_ascend_ops import ops

__all__ = ["flash_attention_score", "incre_flash_attention", "prompt_flash_attention"]

_FAR = 2**30  # more tokens than there are, and no overflow of 32 bits where positions are added
_TRIANGLE = (2048, 2048)  # of the compressed mask of the sparse modes 2, 3 and 4, whose values are known


def flash_attention_score(  # noqa: PLR0912
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    real_shift: Tensor | None = None,
    drop_mask: Tensor | None = None,
    padding_mask: Tensor | None = None,
    attn_mask: Tensor | None = None,
    prefix: Any = None,
    actual_seq_qlen: Any = None,
    actual_seq_kvlen: Any = None,
    keep_prob: float = 1.0,
    scalar_value: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 2147483647,
    inner_precise: int = 0,
    input_layout: str = "BSH",
    sparse_mode: int = 0,
) -> Tensor:
    """Replaces `mindspore.ops.flash_attention_score`, with the gradients of query, key, value and real_shift.

    Without dropout. A query that sees no key gives zeros. `inner_precise` changes nothing, as there.
    """
    name = "flash_attention_score"
    if keep_prob != 1.0 or drop_mask is not None:
        raise ValueError("flash_attention_score: keep_prob must be 1.0 and drop_mask None: there is no dropout here")
    if padding_mask is not None:
        raise ValueError("flash_attention_score: padding_mask must be None, as MindSpore does not implement it either")
    if input_layout == "TND":
        if real_shift is not None or prefix is not None:
            raise ValueError("flash_attention_score: real_shift and prefix must be None with the layout TND")
        if actual_seq_qlen is None or actual_seq_kvlen is None:
            raise ValueError("flash_attention_score: the layout TND needs actual_seq_qlen and actual_seq_kvlen")
        if sparse_mode not in (0, 2, 3, 4) or (sparse_mode == 0 and attn_mask is not None):
            raise ValueError(f"flash_attention_score: sparse_mode must be 2, 3 or 4 with TND, got {sparse_mode}")
        if query.shape[1] != head_num:
            raise ValueError(f"flash_attention_score: head_num must be query.shape[1], got {head_num}")
        _check_mask(name, attn_mask, sparse_mode, 0, 0)
        if sparse_mode in (0, 3):
            ends = _tensor(actual_seq_qlen), _tensor(actual_seq_kvlen)
            return ops.flash_attention_varlen(query, key, value, *ends, scalar_value, causal=sparse_mode == 3)[0]
        rows, columns = _numbers(actual_seq_qlen), _numbers(actual_seq_kvlen)
        parts = []
        row, column = 0, 0
        for i in range(len(rows)):
            q, k, v = query[row : rows[i]], key[column : columns[i]], value[column : columns[i]]
            row, column = rows[i], columns[i]
            s, t = q.shape[0], k.shape[0]
            visible = _band(s, t, sparse_mode, pre_tokens, next_tokens, t - s, False)
            part = _attend(q.expand_dims(0), k.expand_dims(0), v.expand_dims(0), "BSND", scalar_value, visible)
            parts.append(part.squeeze(0))
        return ms_ops.cat(parts, 0)
    if actual_seq_qlen is not None or actual_seq_kvlen is not None:
        raise ValueError(
            "flash_attention_score: actual_seq_qlen and actual_seq_kvlen must be None but for the layout TND"
        )
    q, k, v, layout = _heads(name, query, key, value, head_num, 0, input_layout)
    s, t = _lengths(q, k, layout)
    if sparse_mode not in (0, 1, 2, 3, 4, 5):
        raise ValueError(f"flash_attention_score: sparse_mode must be 0 to 5, got {sparse_mode}")
    if (prefix is not None) != (sparse_mode == 5):
        raise ValueError(f"flash_attention_score: sparse_mode 5 needs prefix, others have none, got {sparse_mode}")
    hidden = _check_mask(name, attn_mask, sparse_mode, s, t)
    visible = _band(s, t, sparse_mode, pre_tokens, next_tokens, t - s, attn_mask is not None)
    if prefix is not None:
        columns = _tensor(prefix).reshape(-1, 1, 1, 1)
        visible = ms_ops.logical_or(visible, ms_ops.arange(t).reshape(1, -1) < columns)
    visible = _both(visible, hidden)
    if real_shift is not None:
        if real_shift.ndim != 4 or real_shift.shape[2] != s or real_shift.shape[3] != t:
            raise ValueError(f"flash_attention_score: real_shift must be (B or 1, N, {s}, {t}), got {real_shift.shape}")
        out = _attend_with_bias(q, k, v, layout, scalar_value, visible, real_shift)
    else:
        out = _attend(q, k, v, layout, scalar_value, visible)
    return _as_query(out, query, input_layout)


def prompt_flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    actual_seq_lengths: Any = None,
    actual_seq_lengths_kv: Any = None,
    pse_shift: Tensor | None = None,
    deq_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None,
    deq_scale2: Tensor | None = None,
    quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    pre_tokens: int = 2147483647,
    next_tokens: int = 0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    inner_precise: int = 1,
) -> Tensor:
    """Replaces `mindspore.ops.prompt_flash_attention`, without quantization. For inference.

    Queries behind their actual length give zeros.
    """
    name = "prompt_flash_attention"
    for scale in (deq_scale1, quant_scale1, deq_scale2, quant_scale2, quant_offset2):
        if scale is not None:
            raise ValueError("prompt_flash_attention: there is no quantization here: its scales must be None")
    if input_layout not in ("BSH", "BNSD"):
        raise ValueError(f"prompt_flash_attention: input_layout must be BSH or BNSD, got {input_layout}")
    if sparse_mode not in (0, 1, 2, 3, 4):
        raise ValueError(f"prompt_flash_attention: sparse_mode must be 0 to 4, got {sparse_mode}")
    q, k, v, layout = _heads(name, query, key, value, num_heads, num_key_value_heads, input_layout)
    s, t = _lengths(q, k, layout)
    hidden = _check_mask(name, attn_mask, sparse_mode, s, t)
    shift, visible = t - s, None
    if actual_seq_lengths is not None or actual_seq_lengths_kv is not None:
        rows = s if actual_seq_lengths is None else _tensor(actual_seq_lengths).reshape(-1, 1, 1, 1)
        columns = t if actual_seq_lengths_kv is None else _tensor(actual_seq_lengths_kv).reshape(-1, 1, 1, 1)
        shift = columns - rows
        visible = ms_ops.logical_and(ms_ops.arange(s).reshape(-1, 1) < rows, ms_ops.arange(t).reshape(1, -1) < columns)
    visible = _both(visible, _band(s, t, sparse_mode, pre_tokens, next_tokens, shift, attn_mask is not None))
    bias = None
    if pse_shift is not None:
        if pse_shift.ndim != 4 or pse_shift.shape[2] < s or pse_shift.shape[3] < t:
            raise ValueError(f"prompt_flash_attention: pse_shift must be (B or 1, N, {s}, {t}), got {pse_shift.shape}")
        bias = pse_shift[:, :, :s, :t]
    out = _attend(q, k, v, layout, scale_value, _both(visible, hidden), bias)
    return _as_query(out, query, input_layout)


def incre_flash_attention(  # noqa: PLR0912
    query: Tensor,
    key: Any,
    value: Any,
    attn_mask: Tensor | None = None,
    actual_seq_lengths: Any = None,
    pse_shift: Tensor | None = None,
    dequant_scale1: Tensor | None = None,
    quant_scale1: Tensor | None = None,
    dequant_scale2: Tensor | None = None,
    quant_scale2: Tensor | None = None,
    quant_offset2: Tensor | None = None,
    antiquant_scale: Tensor | None = None,
    antiquant_offset: Tensor | None = None,
    block_table: Tensor | None = None,
    num_heads: int = 1,
    input_layout: str = "BSH",
    scale_value: float = 1.0,
    num_key_value_heads: int = 0,
    block_size: int = 0,
    inner_precise: int = 1,
    kv_padding_size: Tensor | None = None,
) -> Tensor:
    """Replaces `mindspore.ops.incre_flash_attention`, without quantization and pages. For inference."""
    name = "incre_flash_attention"
    for scale in (dequant_scale1, quant_scale1, dequant_scale2, quant_scale2, quant_offset2):
        if scale is not None:
            raise ValueError("incre_flash_attention: there is no quantization here: its scales must be None")
    if antiquant_scale is not None or antiquant_offset is not None:
        raise ValueError(
            "incre_flash_attention: antiquant_scale and antiquant_offset must be None: nothing is quantized"
        )
    if block_table is not None:
        raise ValueError("incre_flash_attention: block_table must be None: ms_ascend_ops.ops.paged_attention takes one")
    if kv_padding_size is not None:
        raise ValueError("incre_flash_attention: kv_padding_size must be None: keys are padded on the right")
    if input_layout not in ("BSH", "BNSD"):
        raise ValueError(f"incre_flash_attention: input_layout must be BSH or BNSD, got {input_layout}")
    if isinstance(key, (list, tuple)):
        if len(key) != 1 or len(value) != 1:
            raise ValueError(f"incre_flash_attention: key and value must hold one tensor each, got {len(key)}")
        key, value = key[0], value[0]
    q, k, v, layout = _heads(name, query, key, value, num_heads, num_key_value_heads, input_layout)
    s, t = _lengths(q, k, layout)
    if s != 1:
        raise ValueError(f"incre_flash_attention: query must have one token a sequence, got the shape {query.shape}")
    visible = None
    if actual_seq_lengths is not None:
        visible = ms_ops.arange(t).reshape(1, -1) < _tensor(actual_seq_lengths).reshape(-1, 1, 1, 1)
    if attn_mask is not None:
        if attn_mask.shape[-1] != t or attn_mask.ndim not in (2, 3, 4):
            raise ValueError(f"incre_flash_attention: attn_mask must be (B, {t}), (B, 1, {t}), got {attn_mask.shape}")
        visible = _both(visible, attn_mask.reshape(attn_mask.shape[0], 1, 1, t) == 0)
    if pse_shift is not None and (pse_shift.ndim != 4 or pse_shift.shape[3] != t):
        raise ValueError(f"incre_flash_attention: pse_shift must be (B or 1, N, 1, {t}), got {pse_shift.shape}")
    out = _attend(q, k, v, layout, scale_value, visible, pse_shift)
    return _as_query(out, query, input_layout)


def _numbers(lengths: Any) -> Any:
    """Return lengths as Python numbers: of a tensor its values, which a graph does not know."""
    return tuple(lengths.asnumpy().tolist()) if isinstance(lengths, Tensor) else tuple(lengths)


def _tensor(lengths: Any) -> Tensor:
    return lengths.astype(ms.int32) if isinstance(lengths, Tensor) else Tensor(lengths, ms.int32)


def _heads(
    name: str, query: Tensor, key: Tensor, value: Tensor, heads: int, key_heads: int, layout: str
) -> tuple[Tensor, Tensor, Tensor, str]:
    """Return query, key and value with an axis of heads, and the layout that they have then."""
    if layout in ("BNSD", "BSND"):
        axis = 1 if layout == "BNSD" else 2
        if query.shape[axis] != heads or key_heads not in (0, key.shape[axis]):
            raise ValueError(f"{name}: the number of heads must be that of query, and of key, got {heads}, {key_heads}")
        return query, key, value, layout
    if layout not in ("BSH", "SBH"):
        raise ValueError(f"{name}: input_layout must be BSH, SBH, BSND, BNSD or TND, got {layout}")
    if query.shape[2] % heads != 0:
        raise ValueError(f"{name}: the last dim of query must be a multiple of its heads ({heads}), got {query.shape}")
    size = query.shape[2] // heads
    shared = key.shape[2] // size if key_heads == 0 else key_heads
    if shared == 0 or key.shape[2] % shared != 0 or key.shape[2] // shared != size or heads % shared != 0:
        raise ValueError(f"{name}: key must have heads of {size} elements, got {key.shape}")
    q, k, v = _parted(query, heads), _parted(key, shared), _parted(value, shared)
    if layout == "SBH":
        q, k, v = q.swapaxes(0, 1), k.swapaxes(0, 1), v.swapaxes(0, 1)
    return q, k, v, "BSND"


def _parted(x: Tensor, heads: int) -> Tensor:
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads)


def _as_query(out: Tensor, query: Tensor, layout: str) -> Tensor:
    """Return the result in the layout of the query."""
    if layout == "SBH":
        out = out.swapaxes(0, 1)
    return out.reshape(query.shape) if layout in ("BSH", "SBH") else out


def _lengths(query: Tensor, key: Tensor, layout: str) -> tuple[int, int]:
    axis = 2 if layout == "BNSD" else 1
    return query.shape[axis], key.shape[axis]


def _check_mask(name: str, mask: Tensor | None, mode: int, s: int, t: int) -> Tensor | None:
    """Return what a mask says is seen: of four dims or two; None, if it is None or what the sparse mode says anyway."""
    if mode in (2, 3, 4):
        if mask is None or mask.shape[-2:] != _TRIANGLE:
            raise ValueError(
                f"{name}: sparse_mode {mode} needs an attn_mask of (2048, 2048), above whose diagonal are ones"
            )
        return None
    if mask is None:
        if mode != 0:
            raise ValueError(f"{name}: sparse_mode {mode} needs an attn_mask")
        return None
    if mask.shape[-2:] != (s, t) or mask.ndim > 4:
        raise ValueError(f"{name}: the last dims of attn_mask must be ({s}, {t}), got {mask.shape}")
    visible = mask == 0
    return visible.expand_dims(1) if mask.ndim == 3 else visible


def _band(s: int, t: int, mode: int, before: int, after: int, shift: Any, masked: bool) -> Tensor | None:
    """Return which keys a sparse mode shows a query; None: all. `shift`: how far the last key is behind the last query.

    Query i stands at key i in the modes 0 and 2, and at key i + shift in the others.
    """
    if mode == 1 or (mode == 0 and (not masked or (before >= _FAR and after >= _FAR))):
        return None
    if mode in (2, 3, 5):
        before, after = _FAR, 0
    places = ms_ops.arange(s).reshape(-1, 1)
    if mode in (3, 4, 5):
        places = places + shift
    ahead = ms_ops.arange(t).reshape(1, -1) - places
    return ms_ops.logical_and(ahead <= min(after, _FAR), ahead >= -min(before, _FAR))


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None:
        return other
    return one if other is None else ms_ops.logical_and(one, other)


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    layout: str,
    scale: float,
    visible: Tensor | None,
    bias: Tensor | None = None,
) -> Tensor:
    """Compute attention with keys that are seen or not, and an addend of the scores, without a gradient."""
    mask = visible
    if bias is not None:
        mask = ms_ops.stop_gradient(bias).astype(ms.float32)
        if visible is not None:
            mask = mask + ms_ops.select(visible, 0.0, float("-inf"))
    return ops.flash_attention(query, key, value, mask, scale, False, 0, layout)[0]


def _attend_with_bias(
    query: Tensor, key: Tensor, value: Tensor, layout: str, scale: float, visible: Tensor | None, bias: Tensor
) -> Tensor:
    """Compute attention with a gradient for the addend of the scores, which are therefore in memory as a whole."""
    if layout == "BSND":
        query, key, value = query.swapaxes(1, 2), key.swapaxes(1, 2), value.swapaxes(1, 2)
    batch, heads, s, _ = query.shape
    shared, t = key.shape[1], key.shape[2]
    rows = (batch, shared, heads // shared * s)
    scores = ops.matmul(query.reshape(*rows, query.shape[3]), key, None, False, True).reshape(batch, heads, s, t)
    mask = bias.astype(ms.float32)
    if visible is not None:
        mask = mask + ms_ops.select(visible, 0.0, float("-inf"))
    weights = ops.scaled_masked_softmax(scores, mask, scale).reshape(*rows, t)
    out = ops.matmul(weights, value).reshape(batch, heads, s, value.shape[3])
    return out.swapaxes(1, 2) if layout == "BSND" else out
