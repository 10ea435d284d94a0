"""Holds a matrix of small integers with a scale, and a minimum or zero point, for each group of a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["GROUP", "QuantizedMatrix"]

GROUP = 32  # elements of a row that share a scale, unless told
_STEP = 16  # groups of products are multiples of it

_MOST_GROUP = 1024  # columns of a product's group
_MOST_OFFSET = 32  # of which float16 rounds to 1/64

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class QuantizedMatrix:
    """Holds a matrix w = (q - zero) * scale + minimum, for groups of columns of one size.

    codes: int8, shape (rows, columns), 8 bits; or uint8, shape (rows, columns / 2), 4 bits without sign: the low half
    of byte i is column 2 i, the high half column 2 i + 1.
    scale: float16, bfloat16 or float32, (rows, groups). minimum: float16 or float32, the same shape, or None for 0.
    zero: int8 or int16, the same shape, or None for 0. A matrix has a minimum or a zero at most.
    """

    codes: Array
    scale: Array
    minimum: Array | None = None
    zero: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of rows and columns of the matrix."""
        rows, columns = self.codes.shape
        return rows, columns * (2 if self.codes.dtype == np.uint8 else 1)

    @property
    def group(self) -> int:
        """Return the number of columns with one scale."""
        return self.shape[1] // int(self.scale.shape[1])

    @property
    def bits(self) -> int:
        """Return the number of bits of an element."""
        return 4 if self.codes.dtype == np.uint8 else 8

    @property
    def nbytes(self) -> int:
        """Return the number of bytes of all that is kept."""
        return sum(part.nbytes for part in (self.codes, self.scale, self.minimum, self.zero) if part is not None)

    def dequantized(self, dtype: Any = np.float32) -> Array:
        """Return the matrix in a float type, calculated in float32 and rounded once."""
        rows, columns = self.shape
        out = np.empty((rows, columns), dtype)
        step = max(1, (1 << 18) // columns)  # so that the floats in between stay few
        for first in range(0, rows, step):
            part = slice(first, first + step)
            groups = self.integers(part).reshape(-1, columns // self.group, self.group).astype(np.float32)
            if self.zero is not None:
                groups -= self.zero[part].astype(np.float32)[..., None]
            groups *= self.scale[part].astype(np.float32)[..., None]
            if self.minimum is not None:
                groups += self.minimum[part].astype(np.float32)[..., None]
            out[part] = groups.reshape(-1, columns)
        return out

    @property
    def fits_product(self) -> bool:
        """Tell whether `ops.weight_quant_matmul` has such groups: multiples of 16, or whole rows."""
        return self.group % _STEP == 0 or self.group == self.shape[1]

    def for_product(self) -> tuple[Array, Array, Array | None]:
        """Return numbers, scale and offset as `ops.weight_quant_matmul` takes them: w = (number + offset) *
        scale, int8.

        4 bits become two's complements. Scales are float16 where that holds them exactly, else float32. An offset of a
        minimum is rounded to float16, which is 1/64 of a number at most; where that is not enough, scale and offset are
        float32. A group of one value, whose scale is 0, becomes (0 + 1) * value.
        """
        packed = self.bits == 4
        numbers = (self.codes ^ np.uint8(0x88)).view(np.int8) if packed else self.codes  # q - 8
        if self.minimum is None:
            scale = self._product_scale()
            if self.zero is None:
                return numbers, scale, None if not packed else np.full_like(scale, 8)
            # The result is at most 2^8: exact in float16.
            offset = (np.int16(8 * packed) - self._product_groups(self.zero)).astype(scale.dtype)
            return numbers, scale, offset if offset.any() else None
        stored, minimum = (self._product_groups(part).astype(np.float32) for part in (self.scale, self.minimum))
        constant = stored == 0
        scale = np.where(constant, minimum, stored)
        offset = minimum / np.where(constant, np.float32(1), scale) + np.float32(8 * packed)
        offset = np.where(constant, np.float32(1), offset)
        if constant.any():
            width = numbers.shape[1] // scale.shape[1]
            numbers = np.where(np.repeat(constant, width, axis=1), np.int8(0), numbers)
        exact = self._product_scale().dtype
        if not offset.any():
            return numbers, scale.astype(exact), None
        dtype = np.float16 if exact == np.float16 and np.abs(offset).max() <= _MOST_OFFSET else np.float32
        return numbers, scale.astype(dtype), offset.astype(dtype)

    def _product_scale(self) -> Array:
        """Return scales in a type that the product has for activations of any type."""
        scale = self._product_groups(self.scale)
        if scale.dtype == np.float16:
            return scale
        exact = scale.astype(np.float32)
        with np.errstate(over="ignore"):
            half = exact.astype(np.float16)
        return half if (half.astype(np.float32) == exact).all() else exact

    def _product_groups(self, part: Array) -> Array:
        """Returns the product's groups, which have at most 1024 columns where they are not whole rows."""
        if self.group <= _MOST_GROUP or self.group == self.shape[1] or not self.fits_product:
            return part
        pieces = self.group // _STEP
        size = max(size for size in range(1, _MOST_GROUP // _STEP + 1) if pieces % size == 0)
        return np.repeat(part, pieces // size, axis=1)

    def like(self, bits: int, group: int) -> QuantizedMatrix:
        """Return the same matrix with as many bits or more, and groups that divide its own."""
        codes = self.codes if bits == self.bits else self.integers().astype(np.int8)
        scale, minimum, zero = (
            None if part is None else np.repeat(part, self.group // group, axis=1)
            for part in (self.scale, self.minimum, self.zero)
        )
        assert scale is not None
        return QuantizedMatrix(codes, scale, minimum, zero)

    def part(self, rows: slice, columns: slice) -> QuantizedMatrix:
        """Return some rows and columns, with whole groups.

        Raises:
            ValueError: the columns begin or end within a group. Where a group is a whole row they may.
        """
        width = self.shape[1]
        first, end, _ = columns.indices(width)
        per_byte = 2 if self.bits == 4 else 1
        size = per_byte if self.group == width else self.group
        if first % size or (end % size and end != width):
            raise ValueError(f"columns {first} to {end} would cut a group of {size} that has one scale")
        groups = slice(None) if self.group == width else slice(first // size, -(-end // size))
        minimum, zero = (None if part is None else part[rows, groups] for part in (self.minimum, self.zero))
        codes = np.ascontiguousarray(self.codes[rows, first // per_byte : -(-end // per_byte)])
        return QuantizedMatrix(codes, self.scale[rows, groups], minimum, zero)

    def take(self, order: Array) -> QuantizedMatrix:
        """Return some rows, in this order."""
        minimum, zero = (None if part is None else part[order] for part in (self.minimum, self.zero))
        return QuantizedMatrix(self.codes[order], self.scale[order], minimum, zero)

    def integers(self, part: slice = slice(None)) -> Array:
        """Return the numbers of some rows, one in a byte: int8, of 4 bits uint8."""
        codes = self.codes[part]
        if codes.dtype != np.uint8:
            return codes
        halves = np.empty((*codes.shape, 2), np.uint8)
        halves[..., 0] = codes & 15
        halves[..., 1] = codes >> 4
        return halves.reshape(len(codes), -1)
