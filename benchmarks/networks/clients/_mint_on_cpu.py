"""Replaces functions of `mindspore.mint` that have no kernel on a CPU by stock ones: what mindone uses in its
Llama and in its UNet2DModel and UNet2DConditionModel.

Both variants of a network get the same ones. Everything about them is in this file.
"""

from __future__ import annotations

from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, mint, ops
from mindspore.common import initializer
from numpy.typing import NDArray

__all__ = ["install"]


def _arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    if end is None:
        start, end = 0, start
    return Tensor(np.arange(start, end, step), dtype or ms.int64)


def _full(size: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    return ops.full(tuple(size), fill_value, dtype=dtype or ms.float32)


def _ones(*size: Any, dtype: Any = None) -> Tensor:
    return ops.ones(size[0] if isinstance(size[0], (tuple, list)) else size, dtype or ms.float32)


def _zeros(*size: Any, dtype: Any = None) -> Tensor:
    return ops.zeros(size[0] if isinstance(size[0], (tuple, list)) else size, dtype or ms.float32)


def _conv2d(x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):  # type: ignore[no-untyped-def]
    sides = (padding, padding) if isinstance(padding, int) else tuple(padding)
    y = ops.conv2d(x, weight, None, stride, "pad", sides, dilation, groups)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


def _interpolate(x, size=None, scale_factor=None, mode="nearest", **_):  # type: ignore[no-untyped-def]
    batch, channels, height, width = x.shape
    if size is None:
        size = (int(height * scale_factor), int(width * scale_factor))
    rows, columns = size[0] // height, size[1] // width
    tall = x.reshape(batch, channels, height, 1, width, 1).broadcast_to((batch, channels, height, rows, width, columns))
    return tall.reshape(batch, channels, height * rows, width * columns)


class _LayerNorm(mint.nn.LayerNorm):  # type: ignore[misc]
    def construct(self, x):  # type: ignore[no-untyped-def]
        first = x.ndim - len(self.normalized_shape)
        return ops.LayerNorm(first, first, self.eps)(x, self.weight, self.bias)[0]


def _drawn(low_or_mean: float, width: float, normal: bool) -> Any:
    def fill(self: Tensor, *_: Any, **__: Any) -> Tensor:
        random = np.random.default_rng(int(np.prod(self.shape)))
        values = random.normal(low_or_mean, width, self.shape) if normal else random.uniform(-width, width, self.shape)
        if isinstance(self, Parameter):
            self.set_data(Tensor(values.astype(np.float32)).astype(self.dtype))
        return self

    return fill


def _normal(self: Any, array: NDArray[Any]) -> NDArray[Any]:
    array[:] = np.random.default_rng(array.size).normal(self.mean, self.sigma, array.shape)
    return array


def _filled(value: float | None) -> Any:
    def fill(self: Tensor, *given: Any) -> Tensor:
        if isinstance(self, Parameter):
            self.set_data(ops.full(self.shape, value if value is not None else given[0], dtype=self.dtype))
        return self

    return fill


def install() -> None:
    """Put them in place, for the rest of the process. Does nothing where there is an NPU."""
    if ms.get_context("device_target") != "CPU":
        return
    functional = mint.nn.functional
    mint.arange, mint.full, mint.ones, mint.zeros = _arange, _full, _ones, _zeros
    mint.stack = lambda tensors, dim=0: ops.stack(tuple(tensors), dim)
    mint.triu = lambda x, diagonal=0: ops.triu(x, diagonal)
    functional.embedding = lambda ids, table, *_, **__: ops.gather(table, ids, 0)
    functional.dropout = lambda x, p=0.5, training=True, inplace=False: ops.dropout(x, p) if training and p else x
    functional.conv2d, functional.interpolate = _conv2d, _interpolate
    functional.pad = lambda x, pad, mode="constant", value=0.0: ops.pad(x, list(pad), mode, value)
    mint.nn.Embedding.construct = lambda self, x: ops.gather(self.weight, x, 0)
    mint.nn.Dropout.construct = lambda self, x: ops.dropout(x, self.p) if self.training and self.p else x
    mint.nn.Conv2d.construct = lambda self, x: _conv2d(  # type: ignore[no-untyped-call]
        x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
    )
    mint.nn.LayerNorm.construct = _LayerNorm.construct
    functional.gelu = lambda x, approximate="none": ops.gelu(x, approximate)
    # Set initial values: the generators have no kernels.
    initializer.Normal._initialize = _normal
    Tensor.normal_, Tensor.uniform_ = _drawn(0.0, 0.02, True), _drawn(0.0, 0.02, False)
    Tensor.zero_, Tensor.fill_ = _filled(0.0), _filled(None)
