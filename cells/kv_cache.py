"""Provides a cache of keys and values as a layer."""

from __future__ import annotations

import mindspore as ms
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import initializer

from ms_ascend_ops.ops.kv_cache_update import kv_cache_append, kv_cache_update

__all__ = ["KVCache"]


class KVCache(nn.Cell):  # type: ignore[misc]
    """Keeps keys and values of earlier tokens, to which new ones are added in place.

    Args:
        blocks: blocks of a paged cache, or sequences of a contiguous one.
        block_size: tokens of a block, or of a sequence.
        heads: key-value heads.
        head_dim: size of a head.
        dtype: float16, bfloat16 or float32.
        contiguous: False: tokens go to the slots they are given (see `ops.kv_cache_update`). True: those of a sequence
            lie one after the other (see `ops.kv_cache_append`).

    Inputs:
        key: Tensor[dtype], shape (tokens, heads, head_dim), or (blocks, seq, heads, head_dim) if contiguous.
        value: Tensor[dtype], shape of key.
        where: Tensor[int32]: the slot of each token, negative ones are skipped; or, if contiguous, the position of the
            first new token, shape (1,) or (blocks,).

    Outputs:
        The caches of keys and of values, shape (blocks, block_size, heads, head_dim). In a graph, read these.

    Raises:
        ValueError: a size is below 1; shapes do not fit.
        RuntimeError: a token lies beyond the cache. Nothing is written then.
    """

    def __init__(
        self,
        blocks: int,
        block_size: int,
        heads: int,
        head_dim: int,
        dtype: ms.dtype = ms.float16,
        contiguous: bool = False,
    ):
        super().__init__()
        shape = (blocks, block_size, heads, head_dim)
        if min(shape) < 1:
            raise ValueError(f"KVCache: blocks, block_size, heads and head_dim must be >= 1, got {shape}")
        self.contiguous = contiguous
        self.key_cache = Parameter(initializer("zeros", shape, dtype), name="key_cache", requires_grad=False)
        self.value_cache = Parameter(initializer("zeros", shape, dtype), name="value_cache", requires_grad=False)

    def _add_mixed_precision_flag_recursive(self, **flags: bool) -> None:
        """Ignore mixed precision around a cache: its writes would go to a copy in another dtype."""

    def construct(self, key: Tensor, value: Tensor, where: Tensor) -> tuple[Tensor, Tensor]:
        if key.dtype != self.key_cache.dtype:  # of mixed precision
            key, value = key.astype(self.key_cache.dtype), value.astype(self.value_cache.dtype)
        if self.contiguous:
            return kv_cache_append(key, value, self.key_cache, self.value_cache, where)
        return kv_cache_update(key, value, self.key_cache, self.value_cache, where)

    def extend_repr(self) -> str:
        return f"{self.key_cache.shape}, contiguous={self.contiguous}"
