"""Sparse matrices by rows, and where they come from: SciPy, MindSpore, dense weights."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

import mindspore as ms
import numpy as np
from mindspore import Tensor

from ms_ascend_ops.ops.sparse_matmul import sparse_matmul

__all__ = ["CSR", "check_pattern"]

_FLOATS = (ms.float16, ms.bfloat16, ms.float32)


class CSR(NamedTuple):
    """A sparse matrix by rows: the values of each row one after the other, with their columns.

    `indptr`: int32 of rows + 1 numbers, where each row begins, and the end of the last; `indices`: int32, the column of
    each value; `values`: float16, bfloat16 or float32; `shape`: (rows, columns).
    """

    indptr: Tensor
    indices: Tensor
    values: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Any, dtype: Any = None) -> CSR:
        """From a matrix of SciPy (any format), a CSRTensor or COOTensor of MindSpore, or a dense one.

        SciPy's and dense matrices come with sorted columns, none twice, and without zeros. `dtype`: of the values.

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
        """The share of elements that have a value."""
        return float(self.values.shape[0] / max(1, self.shape[0] * self.shape[1]))

    def matmul(self, dense: Tensor) -> Tensor:
        """The product with a dense matrix: `ops.sparse_matmul`."""
        if dense.ndim != 2 or dense.shape[0] != self.shape[1]:
            raise ValueError(f"CSR: dense must have shape ({self.shape[1]}, n), got {dense.shape}")
        return sparse_matmul(self.indptr[1:], self.indices, self.values, dense)

    def transposed(self) -> CSR:
        """The transposed matrix; its values are a copy."""
        indptr, indices, order = transposed_arrays(self.indptr.asnumpy(), self.indices.asnumpy(), self.shape[1])
        values = self.values[Tensor(order)] if len(order) else self.values
        return CSR(Tensor(indptr), Tensor(indices), values, (self.shape[1], self.shape[0]))

    def to_dense(self) -> Tensor:
        """The dense matrix; values of an element that comes more than once are added up."""
        values = self.values.astype(ms.float32).asnumpy()
        dense = np.zeros(self.shape, np.float32)
        np.add.at(dense, (rows_of(self.indptr.asnumpy()), self.indices.asnumpy()), values)
        return Tensor(dense).astype(self.values.dtype)

    def to_scipy(self) -> Any:
        """As a `scipy.sparse.csr_matrix`; values of 16 bits become float32."""
        values = self.values.astype(ms.float32).asnumpy()
        return import_module("scipy.sparse").csr_matrix(
            (values, self.indices.asnumpy(), self.indptr.asnumpy()), self.shape
        )


def check_pattern(name: str, indptr: Tensor, indices: Tensor, shape: tuple[int, int]) -> None:
    """Raises ValueError where pointers, or columns of a row, are not what they must be; TypeError for the dtype."""
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
    """The row of each value."""
    return np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))


def transposed_arrays(
    indptr: np.ndarray[Any, Any], indices: np.ndarray[Any, Any], columns: int
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """indptr and indices of the transposed matrix, and which value each of its values is."""
    order = np.argsort(indices, kind="stable").astype(np.int32)
    ends = np.cumsum(np.bincount(indices, minlength=columns)[:columns])
    return np.concatenate(([0], ends)).astype(np.int32), rows_of(indptr)[order], order


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
    flat = Tensor((rows * shape[1] + columns).astype(np.int64))
    values = tensor.reshape(-1)[flat] if len(rows) else ms.ops.zeros((0,), tensor.dtype)
    return CSR(Tensor(indptr), Tensor(columns.astype(np.int32)), values, shape)


def _of_entries(indices: np.ndarray[Any, Any], values: Tensor, shape: tuple[int, int]) -> CSR:
    outside = (indices < 0) | (indices >= np.array(shape))
    if outside.any():
        raise ValueError(f"CSR: indices must be within shape {shape}, got {indices[outside.any(axis=1)][0].tolist()}")
    order = np.lexsort((indices[:, 1], indices[:, 0]))
    counts = np.bincount(indices[:, 0], minlength=shape[0])
    indptr = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    sorted_values = values[Tensor(order)] if len(order) else values
    return CSR(Tensor(indptr), Tensor(indices[order, 1].astype(np.int32)), sorted_values, shape)
