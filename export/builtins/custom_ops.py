"""Stands in for the package `ms_custom_ops`, which is for an Ascend NPU only: the functions that MindFormers calls.

Composed of our operators and of stock ones, for the sake of results, for inference. What an argument means is what the
package's documentation says of it; one that cannot be served raises an error that names it. A tensor in the format
FRACTAL_NZ has the shape that it had before, as there; its memory is that of columns in blocks of 16, or 32 of int8.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import mindspore as ms
from mindspore import Tensor
from mindspore import ops as ms_ops
from ms_ascend_ops.export.builtins.attention_primitives import attend_pages
from ms_ascend_ops.export.builtins.quantized_primitives import quantized_product

from ms_ascend_ops import ops

__all__ = ["CUSTOM_OPS", "NAME", "custom_ops_shim"]

NAME = "ms_custom_ops"


def _block(x: Tensor) -> int:
    """Return the columns of a block of FRACTAL_NZ."""
    return 32 if x.dtype == ms.int8 else 16


def _as_rows(x: Tensor) -> Tensor:
    """Return FRACTAL_NZ in the order of rows, (..., rows, columns)."""
    rows, columns, block = x.shape[-2], x.shape[-1], _block(x)
    return x.reshape(-1, columns // block, rows, block).swapaxes(1, 2).reshape(x.shape)


def _cache_rows(cache: Tensor, nz: bool) -> Tensor:
    """Return a cache as (blocks, block_size, columns), whatever its shape and its format are."""
    pages, size = cache.shape[0], cache.shape[1]
    if not nz:
        return cache.reshape(pages, size, -1)
    block = _block(cache)
    if cache.ndim == 4 and cache.shape[3] == block:  # (blocks, columns / 16, block_size, 16)
        size = cache.shape[2]
    return _as_rows(cache.reshape(pages, size, -1))


def trans_data(input: Tensor, transdata_type: int = 0) -> Tensor:
    """Reorder from FRACTAL_NZ to rows (0), or back (1)."""
    if transdata_type not in (0, 1):
        raise ValueError(f"trans_data: transdata_type must be 0 or 1, got {transdata_type}")
    block = _block(input)
    if input.ndim < 2 or input.shape[-2] % 16 != 0 or input.shape[-1] % block != 0:
        raise ValueError(
            f"trans_data: the last dims of input must be multiples of 16 and {block}, got the shape {input.shape}"
        )
    if transdata_type == 0:
        return _as_rows(input)
    rows, columns = input.shape[-2], input.shape[-1]
    return input.reshape(-1, rows, columns // block, block).swapaxes(1, 2).reshape(input.shape)


def matmul_batch_invariant(x1: Tensor, x2: Tensor, cube_math_type: int = 0) -> Tensor:
    """Compute the product of matrices, whose rows do not depend on how many there are."""
    if cube_math_type != 0:
        raise ValueError(f"matmul_batch_invariant: cube_math_type must be 0 on a CPU, got {cube_math_type}")
    if x1.ndim < 2 or x2.ndim < 2 or x1.ndim < x2.ndim or (x2.ndim > 2 and x1.shape[:-2] != x2.shape[:-2]):
        raise ValueError(
            "matmul_batch_invariant: x1 must have two dims or more, and x2 two or the batch of x1, on a CPU, got "
            f"{x1.shape} and {x2.shape}"
        )
    x, rows = x1, x1.shape[-2]
    if x2.ndim == 2:
        x = x1.reshape(-1, x1.shape[-1])
        rows = x.shape[0]
    # The product sums in the same order in all tiles of rows but for the last one, which therefore has to be full.
    behind = x[..., :1, :] * 0
    full = ms_ops.concat((x, *[behind] * (-rows % _TILE_ROWS)), -2)
    out = ops.matmul(full, x2)[..., :rows, :]
    return out.reshape(x1.shape[:-1] + (x2.shape[-1],))  # noqa: RUF005


_TILE_ROWS = 32


def quant_batch_matmul(
    x1: Tensor,
    x2: Tensor,
    scale: Tensor,
    offset: Any = None,
    bias: Any = None,
    pertoken_scale: Any = None,
    transpose_x1: bool = False,
    transpose_x2: bool = False,
    x2_format: str = "ND",
    output_dtype: Any = ms.float16,
) -> Tensor:
    """Compute the product of matrices of int8, scaled: as `QuantBatchMatmul`, also with a weight in FRACTAL_NZ."""
    if x2_format not in ("ND", "FRACTAL_NZ"):
        raise ValueError(f"quant_batch_matmul: x2_format must be ND or FRACTAL_NZ, got {x2_format}")
    weight = _as_rows(x2) if x2_format == "FRACTAL_NZ" else x2
    name = "quant_batch_matmul"
    return quantized_product(
        name, x1, weight, scale, offset, bias, pertoken_scale, transpose_x1, transpose_x2, output_dtype
    )


def reshape_and_cache(
    key: Tensor,
    value: Any = None,
    key_cache: Any = None,
    value_cache: Any = None,
    slot_mapping: Any = None,
    cache_mode: int = 0,
    head_num: int = 0,
) -> Tensor:
    """Writes into the caches, in the order of rows (0) or in FRACTAL_NZ (1), and returns key."""
    if cache_mode not in (0, 1):
        raise ValueError(f"reshape_and_cache: cache_mode must be 0 or 1, got {cache_mode}")
    slots = slot_mapping.reshape(-1).astype(ms.int32)
    written = _write(key, key_cache, slots, cache_mode == 1)
    if value is not None:
        written = ms_ops.depend(_write(value, value_cache, slots, cache_mode == 1), written)
    return ms_ops.depend(key, written)


def _write(new: Tensor, cache: Tensor, slots: Tensor, nz: bool) -> Tensor:
    """Writes the rows of new tokens to their slots of a cache; negative slots are skipped."""
    tokens = slots.shape[0]
    rows = new.reshape(tokens, -1)
    columns = rows.shape[1]
    size = cache.shape[2] if cache.ndim == 4 and nz and cache.shape[3] == _block(cache) else cache.shape[1]
    column = ms_ops.arange(columns).astype(ms.int32).reshape(1, -1)
    # A scatter cannot leave a row out: such a token repeats another one, or writes what is there already.
    newest = ms_ops.argmax(slots, 0).reshape(1).astype(ms.int32)
    taken = ms_ops.where(slots >= 0, ms_ops.arange(tokens).astype(ms.int32), newest)
    slots = ms_ops.gather(slots, taken, 0)
    some = slots.reshape(-1, 1) >= 0
    slots = ms_ops.maximum(slots, ms_ops.zeros_like(slots)).reshape(-1, 1)
    page, row = slots // size, slots % size
    if nz:
        block = _block(cache)
        place = (page * (columns // block) + column // block) * size * block + row * block + column % block
    else:
        place = slots * columns + column
    where = []
    for i in range(cache.ndim - 1, -1, -1):
        where.append((place % cache.shape[i]).reshape(-1))
        place = place // cache.shape[i]
    index = ms_ops.stack(where[::-1], -1)
    old = ms_ops.gather_nd(cache, index)
    chosen = ms_ops.gather(rows, taken, 0).astype(cache.dtype).reshape(-1)
    keep = ms_ops.broadcast_to(some, (tokens, columns)).reshape(-1)
    return ms_ops.scatter_nd_update(cache, index, ms_ops.where(keep, chosen, old))


def mla(
    q_nope: Tensor,
    q_rope: Tensor,
    ctkv: Tensor,
    k_rope: Tensor,
    block_tables: Tensor,
    attn_mask: Any = None,
    deq_scale_qk: Any = None,
    deq_scale_pv: Any = None,
    q_seq_lens: Any = None,
    context_lens: Any = None,
    head_num: int = 32,
    scale_value: float = 0.0,
    kv_head_num: int = 1,
    mask_type: int = 0,
    input_format: int = 0,
    is_ring: int = 0,
) -> Any:
    """Compute latent attention over pages of the compressed keys and of their rotated part.

    Probabilities stay in float32.
    """
    if mask_type != 0 or attn_mask is not None:
        raise ValueError(f"mla: mask_type must be 0 and attn_mask None on a CPU, got {mask_type}")
    if kv_head_num != 1 or is_ring != 0:
        raise ValueError("mla: kv_head_num must be 1 and is_ring 0")
    tokens = q_nope.shape[0]
    latent = _cache_rows(ms_ops.depend(ctkv, q_nope), input_format == 1).astype(ms.float32)
    rotated = _cache_rows(ms_ops.depend(k_rope, q_rope), input_format == 1).astype(ms.float32)
    queries = q_nope.reshape(tokens, head_num, -1).astype(ms.float32)
    if deq_scale_qk is not None:  # of integers
        queries = queries * deq_scale_qk.astype(ms.float32).reshape(1, -1, 1)
    queries = ms_ops.concat((queries, q_rope.reshape(tokens, head_num, -1).astype(ms.float32)), -1)
    keys = ms_ops.concat((latent, rotated), -1).expand_dims(2)
    values = latent.expand_dims(2)
    out = attend_pages(queries, keys, values, block_tables, context_lens, q_seq_lens, scale_value, False)
    if deq_scale_pv is not None:
        out = out * deq_scale_pv.astype(ms.float32).reshape(1, -1, 1)
    out = out.astype(q_rope.dtype)
    return out, ms_ops.zeros_like(out[:, :, :1])


def mla_preprocess(
    input1: Tensor,
    gamma1: Tensor,
    beta1: Tensor,
    quant_scale1: Tensor,
    quant_offset1: Tensor,
    wdqkv: Tensor,
    bias1: Tensor,
    gamma2: Tensor,
    beta2: Tensor,
    quant_scale2: Tensor,
    quant_offset2: Tensor,
    gamma3: Tensor,
    sin1: Tensor,
    cos1: Tensor,
    sin2: Tensor,
    cos2: Tensor,
    key_cache: Tensor,
    slot_mapping: Tensor,
    wuq: Tensor,
    bias2: Tensor,
    wuk: Tensor,
    de_scale1: Tensor,
    de_scale2: Tensor,
    ctkv_scale: Tensor,
    qnope_scale: Tensor,
    krope_cache: Tensor,
    param_cache_mode: int = 0,
) -> Any:
    """Compute all that precedes latent attention in a step: queries, and what is written to the caches.

    Weights are NZ.
    """
    if param_cache_mode not in (0, 1, 2, 3):
        raise ValueError(f"mla_preprocess: param_cache_mode must be 0 to 3, got {param_cache_mode}")
    tokens, dtype = input1.shape[0], input1.dtype
    heads, plain, latent = wuk.shape
    x = _quantized_norm(input1, gamma1, beta1, quant_scale1, quant_offset1)
    down = quant_batch_matmul(
        x, wdqkv, de_scale1, None, bias1.reshape(-1), None, False, True, "FRACTAL_NZ", output_dtype=dtype
    )
    rotary = sin1.shape[-1]
    compressed, key, query = (
        down[:, :latent],
        down[:, latent : latent + rotary],
        down[:, latent + rotary :],
    )
    x = _quantized_norm(query, gamma2, beta2, quant_scale2, quant_offset2)
    up = quant_batch_matmul(
        x, wuq, de_scale2, None, bias2.reshape(-1), None, False, True, "FRACTAL_NZ", output_dtype=dtype
    )
    up = up.reshape(tokens, heads, plain + rotary)
    q_rope = _rotated(up[:, :, plain:], sin2, cos2)
    absorbed = ms_ops.matmul(up[:, :, :plain].swapaxes(0, 1).astype(ms.float32), wuk.astype(ms.float32))
    q_nope = absorbed.swapaxes(0, 1).astype(dtype)
    compressed = ops.rms_norm(compressed, gamma3.astype(dtype), 1e-6)[0]
    key = _rotated(key.reshape(tokens, 1, rotary), sin1, cos1).reshape(tokens, rotary)
    slots = slot_mapping.reshape(-1).astype(ms.int32)
    if param_cache_mode == 0:
        written = _write(ms_ops.concat((compressed, key), -1), key_cache, slots, False)
        q_out = ms_ops.concat((q_nope, q_rope), -1)
        return ms_ops.depend(q_out, written), key_cache, q_rope, krope_cache
    if param_cache_mode == 2:
        compressed = _rounded(compressed.astype(ms.float32) / ctkv_scale.astype(ms.float32))
        q_nope = _rounded(q_nope.astype(ms.float32) * qnope_scale.astype(ms.float32).reshape(1, -1, 1))
    written = _write(compressed, key_cache, slots, param_cache_mode != 1)
    written = ms_ops.depend(_write(key, krope_cache, slots, param_cache_mode != 1), written)
    return ms_ops.depend(q_nope, written), key_cache, ms_ops.depend(q_rope, written), krope_cache


def _rounded(x: Tensor) -> Tensor:
    return ms_ops.clamp(ms_ops.round(x), -128.0, 127.0).astype(ms.int8)


def _quantized_norm(x: Tensor, gamma: Tensor, beta: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    y = ops.rms_norm(x.astype(ms.float32), gamma.astype(ms.float32), 1e-6)[0] + beta.astype(ms.float32)
    return _rounded(y / scale.astype(ms.float32) + offset.astype(ms.float32))


def _rotated(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    """Apply rotary embedding to (tokens, heads, d) by halves, with tables of the full width."""
    return ops.rotary_embedding(x.expand_dims(0), cos, sin, "half", "BSND", 0, True).squeeze(0)


def ring_mla(
    query: Tensor,
    query_rope: Tensor,
    key: Tensor,
    key_rope: Tensor,
    value: Tensor,
    mask: Any = None,
    alibi_coeff: Any = None,
    deq_scale_qk: Any = None,
    deq_offset_qk: Any = None,
    deq_scale_pv: Any = None,
    deq_offset_pv: Any = None,
    quant_p: Any = None,
    log_n: Any = None,
    o_prev: Any = None,
    lse_prev: Any = None,
    q_seq_lens: Any = None,
    context_lens: Any = None,
    head_num: int = 0,
    scale_value: float = 1.0,
    kv_head_num: int = 0,
    mask_type: int = 0,
    calc_type: int = 0,
) -> Any:
    """Compute attention within each of several sequences, causal (mask_type 1) or not, merged with earlier
    results (calc_type 0).

    Queries of a sequence without keys give zeros and a logarithm of 0, or what was before.
    """
    for extra in (alibi_coeff, deq_scale_qk, deq_offset_qk, deq_scale_pv, deq_offset_pv, quant_p, log_n):
        if extra is not None:
            raise ValueError("ring_mla: alibi_coeff, log_n and the arguments of quantization must be None")
    if mask_type not in (0, 1) or calc_type not in (0, 1):
        raise ValueError(f"ring_mla: mask_type and calc_type must be 0 or 1, got {mask_type}, {calc_type}")
    own, place = _sequences(q_seq_lens, query.shape[0])
    others, before = _sequences(context_lens, key.shape[0])
    visible = own.reshape(-1, 1) == others.reshape(1, -1)
    if mask_type == 1:
        visible = ms_ops.logical_and(visible, before.reshape(1, -1) <= place.reshape(-1, 1))
    q, k = ms_ops.concat((query, query_rope), -1).expand_dims(0), ms_ops.concat((key, key_rope), -1).expand_dims(0)
    hidden = ms_ops.select(visible, 0.0, float("-inf"))
    out, lse = ops.flash_attention(q, k, value.expand_dims(0), hidden, scale_value, False, 0, "BSND")
    out, lse = out.squeeze(0), lse.squeeze(0)  # (tokens, heads, d), (heads, tokens)
    nothing = lse == float("-inf")
    if calc_type == 0:
        most = ms_ops.maximum(lse, lse_prev)
        new, old = ms_ops.exp(lse - most), ms_ops.exp(lse_prev - most)
        weight = (new / (new + old)).swapaxes(0, 1).expand_dims(-1)
        mixed = out.astype(ms.float32) * weight + o_prev.astype(ms.float32) * (1.0 - weight)
        out, lse = mixed.astype(value.dtype), most + ms_ops.log(new + old)
    return out, ms_ops.select(nothing, ms_ops.zeros_like(lse), lse)


def _sequences(lengths: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Return the sequence of each token, and its position there."""
    lengths = lengths.reshape(-1).astype(ms.int32)
    index = ms_ops.arange(tokens).astype(ms.int32)
    passed = (index.reshape(-1, 1) >= ms_ops.cumsum(lengths, 0, ms.int32).reshape(1, -1)).astype(ms.int32)
    return passed.sum(1).astype(ms.int32), index - (passed * lengths.reshape(1, -1)).sum(1).astype(ms.int32)


_FUNCTIONS = (
    matmul_batch_invariant,
    mla,
    mla_preprocess,
    quant_batch_matmul,
    reshape_and_cache,
    ring_mla,
    trans_data,
)

CUSTOM_OPS = [function.__name__ for function in _FUNCTIONS]


@contextmanager
def custom_ops_shim() -> Iterator[None]:
    """Make `import ms_custom_ops` work within the block where the package is not installed."""
    if NAME in sys.modules or find_spec(NAME) is not None:
        yield
        return
    module = types.ModuleType(NAME, __doc__)
    vars(module).update({function.__name__: function for function in _FUNCTIONS})

    def missing(name: str) -> Any:
        raise AttributeError(f"{NAME}.{name} has no shim on a CPU. There are {', '.join(CUSTOM_OPS)}")

    module.__getattr__ = missing  # type: ignore[method-assign]
    sys.modules[NAME] = module
    try:
        yield
    finally:
        if sys.modules.get(NAME) is module:
            del sys.modules[NAME]
