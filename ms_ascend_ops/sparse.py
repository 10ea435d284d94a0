"""Makes sparse matrices by rows or blocks, and chooses the methods to multiply them."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from math import inf
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops.deprecation import renamed_argument, warn_renamed
from ms_ascend_ops.mindspore_versions import device_target
from ms_ascend_ops.ops.block_sparse_matmul import block_sparse_matmul
from ms_ascend_ops.ops.matmul import matmul
from ms_ascend_ops.ops.sparse_matmul import sparse_matmul
from ms_ascend_ops.sliced import SlicedPattern, SlicedProduct, fits

__all__ = [
    "BLOCK_AREA",
    "BLOCK_SIDE",
    "BSR",
    "CSR",
    "LAYER_METHODS",
    "METHODS",
    "THRESHOLDS",
    "Method",
    "Thresholds",
    "check_pattern",
]

LAYER_METHODS = ("direct", "blocks", "dense")  # of a layer whose values are trained
# `CSR.matmul` may multiply by these.
METHODS = ("sliced", *LAYER_METHODS)
BLOCK_SIDE = 16  # rows, and columns, of a block
BLOCK_AREA = BLOCK_SIDE * BLOCK_SIDE  # elements of a block


class Thresholds(NamedTuple):
    """Says up to where a method is the faster one, for a dense factor of at most so many columns.

    Args:
        columns: the row holds up to so many columns of the dense factor.
        blocks: multiply by blocks where at most this share of the blocks has a value.
        fill: multiply by blocks where at least this share of the elements of those blocks has a value.
        direct: multiply values directly where at most this share of all elements has one.
    """

    columns: float
    blocks: float
    fill: float
    direct: float


# docs/sparse.md says where they come from: measured on a host, bounds for a chip.
THRESHOLDS = {
    "CPU": (Thresholds(inf, 0.0, 1.0, 0.3),),
    "Ascend": (Thresholds(inf, 0.3, 0.06, 0.02),),
}


class Method(NamedTuple):
    """Says how to multiply.

    Args:
        name: one of `METHODS`.
        why: the reason, a sentence.
    """

    name: str
    why: str


def __getattr__(name: str) -> Any:
    new = {"Way": "Method", "WAYS": "METHODS", "LAYER_WAYS": "LAYER_METHODS"}.get(name)
    if new is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warn_renamed(f"sparse.{name}", f"sparse.{new}")
    return globals()[new]


_FLOATS = (ms.float16, ms.bfloat16, ms.float32)


class _CSR(NamedTuple):
    indptr: Tensor
    indices: Tensor
    values: Tensor
    shape: tuple[int, int]


class CSR(_CSR):
    """Holds a sparse matrix by rows: the values of each row one after the other, with their columns.

    Args:
        indptr: int32 of rows + 1 numbers, where each row begins, and the end of the last.
        indices: int32, the column of each value.
        values: float16, bfloat16 or float32.
        shape: (rows, columns).
    """

    @classmethod
    def of(cls, matrix: Any, dtype: Any = None) -> CSR:
        """Make one from a matrix of SciPy (any format), a CSRTensor or COOTensor of MindSpore, or a dense one.

        SciPy's and dense matrices come with sorted columns, none twice, and without zeros.

        Args:
            matrix: one of these.
            dtype: of the values; None: that of the matrix.

        Raises:
            TypeError: `matrix` is none of these, or has values of another dtype.
            ValueError: it has not two dims, or a pattern that is wrong (`check`).
        """
        if isinstance(matrix, CSR):
            found = matrix
        elif isinstance(matrix, ms.CSRTensor):
            found = cls(matrix.indptr, matrix.indices, matrix.values, _shape(matrix.shape))
        elif isinstance(matrix, ms.COOTensor):
            found = _of_entries(matrix.indices.asnumpy(), matrix.values, _shape(matrix.shape))
        elif hasattr(matrix, "tocsr"):
            found = _of_scipy(matrix.tocsr())
        elif isinstance(matrix, Tensor | np.ndarray):
            found = _of_dense(matrix)
        else:
            raise TypeError(
                f"CSR: matrix must be a sparse matrix of SciPy or MindSpore or a dense one, got {type(matrix).__name__}"
            )
        values = found.values if dtype is None else found.values.astype(dtype)
        found = found._replace(indptr=_int32(found.indptr), indices=_int32(found.indices), values=values)
        found.check()
        return found

    def check(self) -> None:
        """Raises TypeError or ValueError where the tensors are no sparse matrix. Reads them."""
        if self.values.dtype not in _FLOATS:
            raise TypeError(f"CSR: values must be float16, bfloat16 or float32, got {self.values.dtype}")
        if self.values.ndim != 1 or self.values.shape != self.indices.shape:
            raise ValueError(
                f"CSR: values and indices must have one dim of the same size, got {self.values.shape} and "
                f"{self.indices.shape}"
            )
        check_pattern("CSR", self.indptr, self.indices, self.shape)

    @property
    def density(self) -> float:
        """Return the share of elements that have a value."""
        return float(self.values.shape[0] / max(1, self.shape[0] * self.shape[1]))

    def method(self, n: float, target: str | None = None) -> Method:
        """Return how `matmul` multiplies with n columns, and why.

        Args:
            n: columns of the dense factor.
            target: a row of `THRESHOLDS`, "CPU" or "Ascend"; None: MindSpore's device_target.

        Raises:
            ValueError: there is no such row.
        """
        target = device_target() if target is None else target
        if target not in THRESHOLDS:
            raise ValueError(f"CSR: target must be one of {', '.join(THRESHOLDS)}, got {target}")
        limits = next(row for row in THRESHOLDS[target] if n <= row.columns)
        where = f"on {target} with " + ("many" if limits.columns == inf else f"up to {limits.columns:.0f}") + " columns"
        blocks = self.block_pattern.share
        fill = self.values.shape[0] / max(1, self.block_pattern.indices.shape[0] * BLOCK_AREA)
        if blocks <= limits.blocks and fill >= limits.fill:
            return Method(
                "blocks",
                f"{blocks:.1%} of the blocks have values, at most {limits.blocks:.0%}, and {fill:.1%} of their "
                f"elements, at least {limits.fill:.0%}, {where}",
            )
        name, than = ("direct", "at most") if self.density <= limits.direct else ("dense", "more than")
        return Method(name, f"{self.density:.1%} of the elements have values, {than} {limits.direct:.1%}, {where}")

    def way(self, n: float, target: str | None = None, ways: tuple[str, ...] = METHODS) -> Method:
        """Deprecated: `method`.

        Args:
            n, target: as there.
            ways: no longer used.
        """
        warn_renamed("CSR.way", "CSR.method")
        return self.method(n, target)

    @renamed_argument("way", "method")
    def matmul(self, dense: Tensor, method: str | None = None) -> Tensor:
        """Multiply by a dense matrix, by the method of `METHODS` that is given, or that `CSR.method` chooses.

        sliced: `ops.sliced_sparse_matmul`, whose rows are the columns of dense; direct: `ops.sparse_matmul`; blocks:
        values are put into those blocks of 16 x 16 that have any, for `ops.block_sparse_matmul`; dense: into a dense
        matrix, for `ops.matmul`. What is made of the values is made once and kept (of a Parameter's values anew for
        each product, and none in slices), so give changed values to a new matrix, by `_replace`.
        Differentiable in the values and in `dense` whatever the method.

        Args:
            dense: Tensor[dtype of the values], shape (columns, n).
            method: one of `METHODS`; None: the one that `CSR.method` chooses.

        Raises:
            ValueError: dense has another shape; there is no such method.
        """
        if dense.ndim != 2 or dense.shape[0] != self.shape[1]:
            raise ValueError(f"CSR: dense must have shape ({self.shape[1]}, n), got {dense.shape}")
        if method is None:
            method = self.method(dense.shape[1]).name
        if method not in METHODS:
            raise ValueError(f"CSR: method must be one of {', '.join(METHODS)}, got {method}")
        if method == "sliced" and not self._may_be_sliced:
            raise ValueError(f"CSR: a matrix of shape {self.shape} is too large for rows in slices, or has Parameters")
        if method == "direct" or not self.values.shape[0]:
            return sparse_matmul(self._row_ends, self.indices, self.values, dense)
        found = self._placed.get(method)
        if found is None:
            made = {"sliced": self._in_slices, "blocks": self._in_blocks, "dense": self._in_dense}
            found = made[method]()
            if not isinstance(self.values, ms.Parameter):
                self._placed[method] = found
        if method == "sliced":
            return found(self.values, dense)  # type: ignore[no-any-return]
        return found.matmul(dense) if isinstance(found, BSR) else matmul(found, dense)

    @cached_property
    def _row_ends(self) -> Tensor:
        return self.indptr[1:]

    @cached_property
    def _placed(self) -> dict[str, Any]:
        return {}

    @property
    def _may_be_sliced(self) -> bool:
        """Return whether slices may keep the values: not those of a Parameter."""
        return fits(*self.shape, self.values.shape[0]) and not isinstance(self.values, ms.Parameter)

    def _in_slices(self) -> SlicedProduct:
        indptr, indices = self.indptr.asnumpy(), self.indices.asnumpy()
        transposed = transposed_arrays(indptr, indices, self.shape[1])
        return SlicedProduct(
            SlicedPattern.of(indptr, indices, self.shape[1]), self.indptr, self.indices, self.values, transposed
        )

    def _in_blocks(self) -> BSR:
        return self.block_pattern.with_values(self.values, self.shape)

    def _in_dense(self) -> Tensor:
        return placed(self.values, self._dense_places, self.shape[0] * self.shape[1]).reshape(self.shape)

    @cached_property
    def block_pattern(self) -> BlockPattern:
        """Return which blocks have values, and where in them these are."""
        return BlockPattern.of(self.indptr.asnumpy(), self.indices.asnumpy(), self.shape)

    @cached_property
    def _dense_places(self) -> Tensor:
        rows = rows_of(self.indptr.asnumpy()).astype(np.int64)
        return Tensor((rows * self.shape[1] + self.indices.asnumpy())[:, None])

    def transposed(self) -> CSR:
        """Return the transposed matrix; its values are a copy."""
        indptr, indices, order = transposed_arrays(self.indptr.asnumpy(), self.indices.asnumpy(), self.shape[1])
        values = _chosen(self.values, order)
        return CSR(Tensor(indptr), Tensor(indices), values, (self.shape[1], self.shape[0]))

    def to_dense(self) -> Tensor:
        """Return the dense matrix; values of an element that comes more than once are added up."""
        values = self.values.astype(ms.float32).asnumpy()
        dense = np.zeros(self.shape, np.float32)
        np.add.at(dense, (rows_of(self.indptr.asnumpy()), self.indices.asnumpy()), values)
        return Tensor(dense).astype(self.values.dtype)

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.csr_matrix`; values of 16 bits become float32."""
        values = self.values.astype(ms.float32).asnumpy()
        return import_module("scipy.sparse").csr_matrix(
            (values, self.indices.asnumpy(), self.indptr.asnumpy()), self.shape
        )


class BlockPattern(NamedTuple):
    """Says which blocks of a matrix by rows have a value, and where in them its values are."""

    indptr: Tensor
    indices: Tensor
    places: Tensor
    share: float  # of all blocks

    @classmethod
    def of(cls, indptr: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], shape: tuple[int, int]) -> BlockPattern:
        rows, across, down = rows_of(indptr), -(-shape[1] // BLOCK_SIDE), -(-shape[0] // BLOCK_SIDE)
        number = (rows // BLOCK_SIDE).astype(np.int64) * across + indices // BLOCK_SIDE
        found, block = np.unique(number, return_inverse=True)
        places = block.astype(np.int64) * BLOCK_AREA + (rows % BLOCK_SIDE) * BLOCK_SIDE + indices % BLOCK_SIDE
        counts = np.bincount(found // across, minlength=down) if across else np.zeros(down, int)
        pointers = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        columns = (found % max(1, across)).astype(np.int32)
        return cls(Tensor(pointers), Tensor(columns), Tensor(places[:, None]), len(found) / max(1, across * down))

    def with_values(self, values: Tensor, shape: tuple[int, int]) -> BSR:
        count = self.indices.shape[0]
        blocks = placed(values, self.places, count * BLOCK_AREA).reshape((count, BLOCK_SIDE, BLOCK_SIDE))
        return BSR(self.indptr, self.indices, blocks, shape)


class BSR(NamedTuple):
    """Holds a sparse matrix by blocks of 16 x 16: the blocks of each row of blocks one after the other, with
    their columns.

    Args:
        indptr: int32 of rows of blocks + 1 numbers, where each begins, and the end of the last.
        indices: int32, the column of each block, counted in blocks.
        values: float16, bfloat16 or float32, of shape (blocks, 16, 16).
        shape: (rows, columns), which the last blocks may exceed: with zeros.
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Any, dtype: Any = None) -> BSR:
        """Make one from a matrix of SciPy by blocks of 16 x 16, or what `CSR.of` takes.

        A matrix by blocks keeps those it has, also of zeros; from others come the blocks that have a value.

        Args:
            matrix: one of these.
            dtype: of the values; None: that of the matrix.

        Raises:
            TypeError: `matrix` is none of these, or has values of another dtype.
            ValueError: it has blocks of another size, not two dims, or a pattern that is wrong (`check`).
        """
        if isinstance(matrix, BSR):
            found = matrix
        elif getattr(matrix, "format", None) == "bsr":
            if matrix.blocksize != (BLOCK_SIDE, BLOCK_SIDE):
                raise ValueError(f"BSR: blocks must be of 16 x 16, got {matrix.blocksize[0]} x {matrix.blocksize[1]}")
            data = matrix.data.astype(np.float32) if matrix.data.dtype == np.float64 else matrix.data
            indptr, indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
            found = cls(Tensor(indptr), Tensor(indices), Tensor(np.ascontiguousarray(data)), _shape(matrix.shape))
        else:
            rows = CSR.of(matrix)
            pattern = BlockPattern.of(rows.indptr.asnumpy(), rows.indices.asnumpy(), rows.shape)
            if rows.values.shape[0]:
                found = pattern.with_values(rows.values, rows.shape)
            else:
                values = Tensor(np.zeros((0, BLOCK_SIDE, BLOCK_SIDE), np.float32)).astype(rows.values.dtype)
                found = cls(pattern.indptr, pattern.indices, values, rows.shape)
        if dtype is not None:
            found = found._replace(values=found.values.astype(dtype))
        found.check()
        return found

    def check(self) -> None:
        """Raises TypeError or ValueError where the tensors are no sparse matrix. Reads them."""
        if self.values.dtype not in _FLOATS:
            raise TypeError(f"BSR: values must be float16, bfloat16 or float32, got {self.values.dtype}")
        if self.indices.ndim != 1 or self.values.shape != (self.indices.shape[0], BLOCK_SIDE, BLOCK_SIDE):
            raise ValueError(
                f"BSR: values must have shape (z, 16, 16) for z indices, got {self.values.shape} and "
                f"{self.indices.shape}"
            )
        check_pattern(
            "BSR", self.indptr, self.indices, (-(-self.shape[0] // BLOCK_SIDE), -(-self.shape[1] // BLOCK_SIDE))
        )

    def matmul(self, dense: Tensor) -> Tensor:
        """Multiply by a dense matrix: `ops.block_sparse_matmul`, with rows of zeros behind where blocks need them.

        Args:
            dense: Tensor[dtype of the values], shape (columns, n).

        Raises:
            ValueError: dense has another shape.
        """
        if dense.ndim != 2 or dense.shape[0] != self.shape[1]:
            raise ValueError(f"BSR: dense must have shape ({self.shape[1]}, n), got {dense.shape}")
        dtype, more = self.values.dtype, -self.shape[1] % BLOCK_SIDE
        if more:  # in float, which MindSpore's operators for a CPU need
            dense = ms.ops.cat((dense.astype(ms.float32), ms.ops.zeros((more, dense.shape[1])))).astype(dense.dtype)
        y = block_sparse_matmul(self.indptr[1:], self.indices, self.values, dense)
        return y.astype(ms.float32)[: self.shape[0]].astype(dtype) if self.shape[0] % BLOCK_SIDE else y

    def to_dense(self) -> Tensor:
        """Return the dense matrix."""
        down, across = -(-self.shape[0] // BLOCK_SIDE), -(-self.shape[1] // BLOCK_SIDE)
        dense = np.zeros((down, across, BLOCK_SIDE, BLOCK_SIDE), np.float32)
        dense[rows_of(self.indptr.asnumpy()), self.indices.asnumpy()] = self.values.astype(ms.float32).asnumpy()
        dense = dense.swapaxes(1, 2).reshape(down * BLOCK_SIDE, across * BLOCK_SIDE)[: self.shape[0], : self.shape[1]]
        return Tensor(np.ascontiguousarray(dense)).astype(self.values.dtype)


def placed(values: Tensor, places: Tensor, size: int) -> Tensor:
    """Scatter the values into zeros, added up where one position comes twice. In float, as MindSpore's CPU needs."""
    return ms.ops.scatter_nd(places, values.astype(ms.float32), (size,)).astype(values.dtype)


def check_pattern(name: str, indptr: Tensor, indices: Tensor, shape: tuple[int, int]) -> None:
    """Raises ValueError where pointers, or columns of a row, are not what they must be; TypeError for the dtype.

    Args:
        name: what the message begins with.
        indptr: Tensor[int32], shape (rows + 1,).
        indices: Tensor[int32], shape (values,).
        shape: rows and columns.
    """
    for argument, tensor in (("indptr", indptr), ("indices", indices)):
        if tensor.dtype != ms.int32:
            raise TypeError(f"{name}: {argument} must be int32, got {tensor.dtype}")
    pointers, columns = indptr.asnumpy(), indices.asnumpy()
    if pointers.shape != (shape[0] + 1,):
        raise ValueError(f"{name}: indptr must have shape ({shape[0] + 1},), one more than rows, got {pointers.shape}")
    if pointers[0] != 0 or pointers[-1] != len(columns):
        raise ValueError(
            f"{name}: indptr must begin with 0 and end with the number of values ({len(columns)}), got {pointers[0]} "
            f"and {pointers[-1]}"
        )
    falls = np.flatnonzero(np.diff(pointers) < 0)
    if len(falls):
        at = int(falls[0])
        raise ValueError(f"{name}: indptr must not fall, got {pointers[at]} and then {pointers[at + 1]} for row {at}")
    wrong = np.flatnonzero((columns < 0) | (columns >= shape[1]))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(f"{name}: indices must be from 0 to {shape[1] - 1}, got {columns[at]} at {at}")
    rows = rows_of(pointers)
    steps = np.diff(columns.astype(np.int64))
    wrong = np.flatnonzero((np.diff(rows) == 0) & (steps <= 0))
    if len(wrong):
        at = int(wrong[0])
        word = "repeated" if steps[at] == 0 else "not sorted"
        raise ValueError(
            f"{name}: indices of a row must be sorted, none of them twice; those of row {rows[at]} are {word}, got "
            f"{columns[at]} and then {columns[at + 1]}"
        )


def rows_of(indptr: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the row of each value."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))


def transposed_arrays(
    indptr: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], columns: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return indptr and indices of the transposed matrix, and which value each of its values is."""
    order = np.argsort(indices, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(indices, minlength=columns)[:columns])
    return np.concatenate(([0], ends)).astype(np.int32), rows_of(indptr)[order], order


def _chosen(values: Tensor, order: np.ndarray[Any, Any]) -> Tensor:
    """Return those at these places, in float, which MindSpore's operator for a CPU needs."""
    if not len(order):
        return Tensor(np.zeros(0, np.float32)).astype(values.dtype)
    if values.dtype not in _FLOATS:
        return values[Tensor(order)]
    return values.astype(ms.float32)[Tensor(order)].astype(values.dtype)


def _shape(shape: Any) -> tuple[int, int]:
    if len(shape) != 2:
        raise ValueError(f"CSR: a matrix has two dims, got shape {tuple(shape)}")
    return int(shape[0]), int(shape[1])


def _int32(tensor: Tensor) -> Tensor:
    return tensor.astype(ms.int32) if tensor.dtype == ms.int64 else tensor


def _of_scipy(matrix: Any) -> CSR:
    matrix = matrix.copy()
    matrix.sum_duplicates()  # sorts, too
    matrix.eliminate_zeros()
    values = matrix.data.astype(np.float32) if matrix.data.dtype == np.float64 else matrix.data
    if matrix.shape[1] > 2**31 - 1 or len(values) > 2**31 - 1:
        raise ValueError(f"CSR: columns and values are counted in 32 bits, got shape {matrix.shape}")
    indptr, indices = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32)
    return CSR(Tensor(indptr), Tensor(indices), Tensor(values), _shape(matrix.shape))


def _of_dense(matrix: Any) -> CSR:
    tensor = matrix if isinstance(matrix, Tensor) else Tensor(np.asarray(matrix))
    if tensor.dtype == ms.float64:
        tensor = tensor.astype(ms.float32)
    shape = _shape(tensor.shape)
    found = tensor.astype(ms.float32).asnumpy() != 0  # NaN is a value
    rows, columns = np.nonzero(found)
    indptr = np.concatenate(([0], np.cumsum(found.sum(axis=1)))).astype(np.int32)
    values = _chosen(tensor.reshape(-1), rows * shape[1] + columns)
    return CSR(Tensor(indptr), Tensor(columns.astype(np.int32)), values, shape)


def _of_entries(indices: np.ndarray[Any, Any], values: Tensor, shape: tuple[int, int]) -> CSR:
    outside = (indices < 0) | (indices >= np.array(shape))
    if outside.any():
        raise ValueError(f"CSR: indices must be within shape {shape}, got {indices[outside.any(axis=1)][0].tolist()}")
    order = np.lexsort((indices[:, 1], indices[:, 0]))
    counts = np.bincount(indices[:, 0], minlength=shape[0])
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    sorted_values = _chosen(values, order)
    return CSR(Tensor(indptr), Tensor(indices[order, 1].astype(np.int32)), sorted_values, shape)
