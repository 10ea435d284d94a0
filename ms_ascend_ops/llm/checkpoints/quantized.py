"""A matrix whose elements are small integers with a scale, and a minimum, for each group of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["GROUP", "QuantizedMatrix"]

GROUP = 32  # elements of a row that share a scale

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

    def with_offset(self) -> tuple[Array, Array, Array | None]:
        """Codes, scale and offset of the form w = (q + offset) * scale, which the operators of CANN take.

        The offset is rounded to float16. A group of one value, whose scale is 0, becomes (0 + 1) * value.
        """
        if self.minimum is None:
            return self.codes, self.scale, None
        constant = self.scale == 0
        scale = np.where(constant, self.minimum, self.scale)
        divisor = np.where(constant, np.float16(1), self.scale).astype(np.float32)
        offset = np.where(constant, np.float32(1), self.minimum.astype(np.float32) / divisor).astype(np.float16)
        codes = self.codes
        if constant.any():
            width = codes.shape[1] // scale.shape[1]
            codes = np.where(np.repeat(constant, width, axis=1), codes.dtype.type(0), codes)
        return codes, scale, offset

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
