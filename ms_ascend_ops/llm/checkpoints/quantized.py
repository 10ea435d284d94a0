"""A matrix whose elements are small integers with a scale, and a minimum, for each group of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["GROUP", "QuantizedMatrix"]

GROUP = 32  # elements of a row that share a scale

_MOST_OFFSET = 32  # of which float16 rounds to 1/64

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QuantizedMatrix:
    """w = q * scale + minimum, for groups of 32 columns.

    codes: int8, shape (rows, columns), 8 bits; or uint8, shape (rows, columns / 2), 4 bits without sign: the low half
    of byte i is column 2 i, the high half column 2 i + 1.
    scale: float16 (rows, columns / 32). minimum: the same, or None for 0.
    """

    codes: Array
    scale: Array
    minimum: Array | None

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix: rows and columns."""
        rows, columns = self.codes.shape
        return rows, columns * (2 if self.codes.dtype == np.uint8 else 1)

    @property
    def nbytes(self) -> int:
        """Of all that is kept."""
        return self.codes.nbytes + self.scale.nbytes + (0 if self.minimum is None else self.minimum.nbytes)

    def dequantized(self, dtype: Any = np.float32) -> Array:
        """The matrix in a float type, calculated in float32 and rounded once."""
        rows, columns = self.shape
        out = np.empty((rows, columns), dtype)
        step = max(1, (1 << 18) // columns)  # so that the floats in between stay few
        for first in range(0, rows, step):
            part = slice(first, first + step)
            groups = self._integers(part).reshape(-1, columns // GROUP, GROUP).astype(np.float32)
            groups *= self.scale[part].astype(np.float32)[..., None]
            if self.minimum is not None:
                groups += self.minimum[part].astype(np.float32)[..., None]
            out[part] = groups.reshape(-1, columns)
        return out

    def for_product(self) -> tuple[Array, Array, Array | None]:
        """Numbers, scale and offset as `ops.weight_quant_matmul` takes them: w = (number + offset) * scale, int8.

        4 bits become two's complements. The offset is rounded to float16, which is 1/64 of a number at most; where that
        is not enough, scale and offset are float32. A group of one value, whose scale is 0, becomes (0 + 1) * value.
        """
        packed = self.codes.dtype == np.uint8
        numbers = (self.codes ^ np.uint8(0x88)).view(np.int8) if packed else self.codes  # q - 8
        if self.minimum is None:
            return numbers, self.scale, None if not packed else np.full_like(self.scale, 8)
        constant = self.scale == 0
        scale = np.where(constant, self.minimum, self.scale).astype(np.float32)
        offset = self.minimum.astype(np.float32) / np.where(constant, np.float32(1), scale) + np.float32(8 * packed)
        offset = np.where(constant, np.float32(1), offset)
        if constant.any():
            width = numbers.shape[1] // scale.shape[1]
            numbers = np.where(np.repeat(constant, width, axis=1), np.int8(0), numbers)
        if not offset.any():
            return numbers, scale.astype(np.float16), None
        dtype = np.float16 if np.abs(offset).max() <= _MOST_OFFSET else np.float32
        return numbers, scale.astype(dtype), offset.astype(dtype)

    def take(self, order: Array) -> QuantizedMatrix:
        """Some rows, in this order."""
        minimum = None if self.minimum is None else self.minimum[order]
        return QuantizedMatrix(self.codes[order], self.scale[order], minimum)

    def _integers(self, part: slice) -> Array:
        codes = self.codes[part]
        if codes.dtype != np.uint8:
            return codes
        halves = np.empty((*codes.shape, 2), np.uint8)
        halves[..., 0] = codes & 15
        halves[..., 1] = codes >> 4
        return halves.reshape(len(codes), -1)
