"""Samples images at the places of a grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ms_ascend_ops.device.operators.memory import Array


@dataclass(frozen=True)
class _Places:
    """Says where a grid looks, in pixels; interpolation 0: linear, 1: nearest; padding 0: zeros, 1: the border."""

    row: Array
    column: Array
    height: int
    width: int
    slope: tuple[Array, Array]  # of row and column for the numbers of the grid
    nearest: bool

    def corners(self) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
        """Yield, for pixels that count, the index of row and column, the weight, and the weight's slope along both."""
        if self.nearest:
            zero = np.zeros_like(self.row)
            yield self._inside(np.rint(self.row), np.rint(self.column), np.ones_like(self.row), zero, zero)
            return
        top, left = np.floor(self.row), np.floor(self.column)
        down, right = self.row - top, self.column - left
        for lower in (0, 1):
            for farther in (0, 1):
                by_row, by_column = (down if lower else 1 - down), (right if farther else 1 - right)
                signs = (1 if lower else -1), (1 if farther else -1)
                yield self._inside(
                    top + lower, left + farther, by_row * by_column, signs[0] * by_column, signs[1] * by_row
                )

    def _inside(self, row: Array, column: Array, *weights: Array) -> Any:
        seen = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
        places = [np.clip(at, 0, size - 1).astype(int) for at, size in ((row, self.height), (column, self.width))]
        return *places, *(np.where(seen, weight, 0) for weight in weights)


def _places(x: Array, grid: Array, interpolation: int, padding: int, corners: bool) -> _Places:
    if interpolation > 1 or padding > 1:
        raise NotImplementedError("bicubic interpolation and padding by reflection are not emulated")
    found, slopes = [], []
    for number, size in ((1, x.shape[2]), (0, x.shape[3])):
        scale = (size - 1) / 2 if corners else size / 2
        place = (grid[..., number] + 1) * scale - (0 if corners else 0.5)
        moves = np.full(place.shape, scale, np.float32)
        if padding:
            moves = np.where((place > 0) & (place < size - 1), moves, 0)
            place = np.clip(place, 0, size - 1)
        found.append(place)
        slopes.append(moves)
    return _Places(found[0], found[1], x.shape[2], x.shape[3], (slopes[0], slopes[1]), interpolation == 1)


def _batches(x: Array) -> Array:
    return np.arange(len(x)).reshape(-1, 1, 1)


def grid_sampler_2d(x: Array, grid: Array, interpolation: int, padding: int, corners: bool) -> Array:
    places = _places(x, grid, interpolation, padding, corners)
    out = np.zeros((len(x), *grid.shape[1:3], x.shape[1]), np.float32)
    for row, column, weight, _, _ in places.corners():
        out += x[_batches(x), :, row, column] * weight[..., None]
    return np.moveaxis(out, -1, 1)


def grid_sampler_2d_backward(
    dy: Array, x: Array, grid: Array, interpolation: int, padding: int, corners: bool, _mask: Sequence[int]
) -> tuple[Array, Array]:
    places = _places(x, grid, interpolation, padding, corners)
    dx = np.zeros((len(x), *x.shape[2:], x.shape[1]), np.float32)
    dgrid = np.zeros(grid.shape, np.float32)
    by_pixel = np.moveaxis(dy, 1, -1)
    for row, column, weight, by_row, by_column in places.corners():
        np.add.at(dx, (_batches(x), row, column), by_pixel * weight[..., None])
        change = (x[_batches(x), :, row, column] * by_pixel).sum(-1)
        dgrid[..., 1] += change * by_row * places.slope[0]
        dgrid[..., 0] += change * by_column * places.slope[1]
    return np.moveaxis(dx, -1, 1), dgrid
