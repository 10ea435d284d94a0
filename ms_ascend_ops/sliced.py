"""Holds sparse matrices in slices (SELL), for products with a few rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn

from ms_ascend_ops.custom import kernel
from ms_ascend_ops.gradients import needs_gradient
from ms_ascend_ops.mindspore_versions import zeros_like
from ms_ascend_ops.ops.sliced_sparse_matmul import sliced_sparse_matmul
from ms_ascend_ops.ops.sparse_matmul import reordered
from ms_ascend_ops.registry import op_spec

__all__ = ["LANES", "SlicedPattern", "SlicedProduct", "fits"]

LANES = 64  # pieces of rows in a slice, rows of the result in a group: as many floats as a vector instruction repeats

_LEAST_PIECE = 32  # positions: shorter ones would make more sums than they share work out


class SlicedPattern(NamedTuple):
    """Says how the values of a matrix by rows lie in slices; the fields are those of `ops.sliced_sparse_matmul`.

    `places`: int32 (p, 64), which value lies where; the number of values where none does. `indices`: its column, or the
    number of columns.
    """

    slice_ends: np.ndarray[Any, Any]
    indices: np.ndarray[Any, Any]
    places: np.ndarray[Any, Any]
    group_ends: np.ndarray[Any, Any]
    pieces: np.ndarray[Any, Any]

    @classmethod
    def of(
        cls, indptr: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], columns: int, piece: int | None = None
    ) -> SlicedPattern:
        """Cut rows into pieces of at most `piece` values, the mean of a row where None.

        Pieces are sorted by their length, the longest first, so that those of a slice are about as long.
        """
        values = len(indices)
        length = _piece_length(indptr) if piece is None else piece
        counts = -(-np.diff(indptr) // length)
        row = np.repeat(np.arange(len(counts)), counts)
        first = np.cumsum(counts) - counts
        within = np.arange(len(row)) - first[row]
        begin = indptr[row] + within * length
        lengths = np.minimum(indptr[row + 1] - begin, length)
        order = np.argsort(-lengths, kind="stable")
        begin, lengths = (_in_lanes(array[order], 0) for array in (begin, lengths))
        widths = lengths.max(axis=1)
        places = _positions(begin, lengths, widths, values)
        columns_of = np.append(indices, columns).astype(np.int32)[places]
        # For rows of the result: their pieces, by their place in the order.
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        counts, first = (_in_lanes(array, 0) for array in (counts, first))
        group_widths = counts.max(axis=1)
        chosen = _positions(first, counts, group_widths, len(order))
        pieces = np.append(rank, LANES * len(widths)).astype(np.int32)[chosen]
        return cls(_ends(widths), columns_of, places, _ends(group_widths), pieces)

    def with_values(self, values: Tensor) -> Tensor:
        """Return the values where they lie, and zeros."""
        array = values.astype(ms.float32).asnumpy()
        return Tensor(np.append(array, np.float32(0))[self.places]).astype(values.dtype)


class SlicedProduct(nn.Cell):  # type: ignore[misc]
    """Multiplies a matrix in slices with a dense one, whose columns are the rows of the operator."""

    def __init__(
        self, pattern: SlicedPattern, indptr: Tensor, indices: Tensor, values: Tensor, transposed: tuple[Any, Any, Any]
    ) -> None:
        super().__init__()
        self.rows, self.row_ends, self.indices = indptr.shape[0] - 1, indptr[1:], indices
        names = ("slice_ends", "indices", "group_ends", "pieces")
        self.pattern = tuple(Tensor(np.ascontiguousarray(getattr(pattern, name))) for name in names)
        self.placed = pattern.with_values(values)
        self.column_ends, self.owners, self.order = (Tensor(a) for a in (transposed[0][1:], *transposed[1:]))
        self.gradient, self.product = kernel("sparse_matmul_grad"), kernel("sparse_matmul")

    def construct(self, values, dense):  # type: ignore[no-untyped-def]
        slice_ends, indices, group_ends, pieces = self.pattern
        y = sliced_sparse_matmul(_transposed(dense), slice_ends, indices, self.placed, group_ends, pieces)
        return _transposed(y.astype(ms.float32)[:, : self.rows].astype(y.dtype) if y.shape[1] != self.rows else y)

    def bprop(self, values, dense, out, dout):  # type: ignore[no-untyped-def]
        dvalues, ddense = zeros_like(values), zeros_like(dense)
        if needs_gradient(values):
            dvalues = self.gradient(dout, self.row_ends, self.indices, dense)
        if needs_gradient(dense):
            ddense = self.product(self.column_ends, self.owners, reordered(values, self.order), dout)
        return dvalues, ddense


def _transposed(x: Tensor) -> Tensor:
    """Transpose x, in float, which MindSpore's operator for a CPU needs; a row or a column lies as it is."""
    if 1 in x.shape:
        return x.reshape(x.shape[::-1])
    return x.astype(ms.float32).swapaxes(0, 1).astype(x.dtype)


def fits(rows: int, columns: int, values: int) -> bool:
    """Tell whether `ops.sliced_sparse_matmul` takes a matrix."""
    most = op_spec("sliced_sparse_matmul").limits["elements"]
    length = max(_LEAST_PIECE, -(-values // max(1, rows)))
    return rows > 0 and columns <= most and rows + values // length + LANES <= most


def _piece_length(indptr: np.ndarray[Any, Any]) -> int:
    rows = max(1, len(indptr) - 1)
    return max(_LEAST_PIECE, -(-int(indptr[-1]) // rows))


def _in_lanes(array: np.ndarray[Any, Any], fill: int) -> np.ndarray[Any, Any]:
    """Put 64 in a row, the last row filled up."""
    padded: np.ndarray[Any, Any] = np.pad(array, (0, -len(array) % LANES), constant_values=fill)
    return padded.reshape(-1, LANES)


def _ends(widths: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    ends: np.ndarray[Any, Any] = np.cumsum(widths).astype(np.int32)
    return ends


def _positions(
    begin: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any], widths: np.ndarray[Any, Any], missing: int
) -> np.ndarray[Any, Any]:
    """Return 64 numbers a position of each slice: `begin` of the lane and the next, `missing` behind `lengths`."""
    slices = np.repeat(np.arange(len(widths)), widths)
    position = (np.arange(len(slices)) - (np.cumsum(widths) - widths)[slices])[:, None]
    return np.where(position < lengths[slices], begin[slices] + position, missing).astype(np.int32)
