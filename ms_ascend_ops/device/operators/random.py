"""Draws random numbers: the same for the same seed and offset, others than an NPU's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array, Tensor


def _generator(seed: Any, offset: Any) -> np.random.Generator:
    words = [int(np.reshape(one, -1)[0]) % 2**64 for one in (seed, offset)]
    return np.random.Generator(np.random.Philox(key=np.array(words, np.uint64)))


def uniform(_self: Array, low: float, high: float, seed: Any, offset: Any, *, outputs: list[Tensor]) -> Array:
    return _generator(seed, offset).random(outputs[0].shape, np.float32) * (high - low) + low


def normal(_self: Array, mean: float, std: float, seed: Any, offset: Any, *, outputs: list[Tensor]) -> Array:
    return normal_of(mean, std, seed, offset, outputs=outputs)


def normal_of(mean: Any, std: Any, seed: int, offset: int, *, outputs: list[Tensor]) -> Array:
    return mean + std * _generator(seed, offset).standard_normal(outputs[0].shape, np.float32)


def integers(_self: Array, low: int, high: int, seed: Any, offset: Any, *, outputs: list[Tensor]) -> Array:
    return _generator(seed, offset).integers(low, high, outputs[0].shape)


def bernoulli(_self: Array, probability: Any, seed: Any, offset: Any, *, outputs: list[Tensor]) -> Array:
    return _generator(seed, offset).random(outputs[0].shape, np.float32) < probability


def randperm(n: int, seed: int, offset: int) -> Array:
    return _generator(seed, offset).permutation(n)


def multinomial(self: Array, count: int, replacement: bool, seed: int, offset: int) -> Array:
    generator = _generator(seed, offset)
    rows = np.atleast_2d(self).astype(np.float64)
    drawn = [generator.choice(rows.shape[1], count, replacement, row / row.sum()) for row in rows]
    return np.stack(drawn).reshape(*self.shape[:-1], count)


def dropout(x: Array, probability: float, train: bool, seed: int, offset: int, *, outputs: list[Tensor]) -> Any:
    """Return what is left, and the mask as bits."""
    keep = np.ones(x.size, bool)
    if train:
        keep = _generator(seed, offset).random(x.size, np.float32) >= probability
    kept = np.where(keep.reshape(x.shape), x / (1 - probability) if train and probability < 1 else x, 0)
    return kept, _bits(keep, outputs[1].size)


def dropout_mask(
    shape: Sequence[int], probability: float, seed: Any, offset: Any, _dtype: int, *, outputs: list[Tensor]
) -> Array:
    keep = _generator(seed, offset).random(int(np.prod(shape)), np.float32) >= probability
    return _bits(keep, outputs[0].size)


def dropout_by_mask(self: Array, mask: Array, probability: float) -> Array:
    if probability >= 1:
        return np.zeros_like(self)
    keep = np.unpackbits(mask.reshape(-1).view(np.uint8), count=self.size, bitorder="little").astype(bool)
    return np.where(keep.reshape(self.shape), self / (1 - probability), 0)


def _bits(keep: Array, size: int) -> Array:
    packed = np.packbits(keep, bitorder="little")
    return np.pad(packed, (0, size - packed.size))
