"""Products of a sparse and a dense matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import FusedPrimitive, Selector, kernel
from ms_ascend_ops.gradients import needs_gradient, size_of
from ms_ascend_ops.mindspore_versions import zeros_like

__all__ = ["reordered", "sparse_matmul", "transposed_pattern"]

# Column and position of a value as one number, by which to sort.
_POSITIONS = 2**31


def transposed_pattern(row_ends: Tensor, indices: Tensor, columns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The pattern of the transposed matrix: where its rows end, their columns, and which value each of its values is.

    `columns`: Tensor[int32] of as many elements as the matrix has columns. Also in a graph of unknown shapes.
    """
    position = _positions(indices)
    row = _count_up_to(row_ends, position)
    key = stock.sort(indices.astype("int64") * _POSITIONS + position.astype("int64"))[0]
    column = stock.floor_divide(key, _POSITIONS)
    order = (key - column * _POSITIONS).astype("int32")
    ends = _count_up_to(column, _positions(columns))
    return ends, stock.gather(row, order, 0), order


def reordered(values: Tensor, order: Tensor) -> Tensor:
    """Compute in float32, which MindSpore's operator for a CPU needs."""
    return stock.gather(values.astype("float32"), order, 0).astype(values.dtype)


def _count_up_to(ascending: Tensor, bounds: Tensor) -> Tensor:
    """Return how many of the ascending integers are not larger than each bound."""
    # Even numbers beside odd ones, so that `right` does not matter: up to MindSpore 2.9 a kernel of searchsorted that
    # was made for one answers for the other, whoever in the process has asked first.
    found = stock.searchsorted(ascending.astype("int64") * 2, bounds.astype("int64") * 2 + 1)
    return found.astype("int32")


def _positions(like: Tensor) -> Tensor:
    """0, 1, 2 ..."""
    return stock.arange(0, stock.shape(like)[0]).astype("int32")


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    product = kernel("sparse_matmul")

    def bprop(row_ends, indices, values, dense, out, dout):  # type: ignore[no-untyped-def]
        if size_of(dout) == 0:  # kernels would check the pattern, which the product did not read either
            nothing = zeros_like
            return nothing(row_ends), nothing(indices), nothing(values), nothing(dense)
        dvalues = grad(dout, row_ends, indices, dense) if needs_gradient(values) else zeros_like(values)
        ddense = zeros_like(dense)
        if size_of(dense) != 0 and needs_gradient(dense):  # MindSpore may end the process where it slices nothing
            columns = dense.astype("float32")[:, :1].sum(1).astype("int32")  # MindSpore slices no 16 bits on a CPU
            ends, rows, order = transposed_pattern(row_ends, indices, columns)
            ddense = product(ends, rows, reordered(values, order), dout)
        return zeros_like(row_ends), zeros_like(indices), dvalues, ddense

    return bprop


_select = Selector("sparse_matmul", _bprop)


def sparse_matmul(row_ends: Tensor, indices: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    r"""The product of a sparse matrix, by rows (CSR), and a dense one.

    .. math::
        y_i = \sum_{j = end_{i-1}}^{end_i - 1} values_j \, dense_{indices_j}

    Args:
        row_ends: Tensor[int32], shape (m,): where each row ends among the values, so that the last one is their number:
            `indptr[1:]`.
        indices: Tensor[int32], shape (z,): the column of each value.
        values: Tensor[float16 | bfloat16 | float32], shape (z,), row by row.
        dense: Tensor[dtype of values], shape (k, n).

    Returns:
        Tensor[dtype of values], shape (m, n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other.
        RuntimeError: ends of rows that fall, that are below 0, or whose last is not z; a column that is not a row of
            dense: the kernel stops before it reads anything by them.

    `ms_ascend_ops.sparse.CSR` holds the three tensors of a matrix, checks them, and converts from SciPy and MindSpore.
    Rows may be empty, and are 0 then. Columns of a row may come in any order, and more than once: products are added up
    in the order of the values, in float32, and the sum is rounded once. NaN stays in the rows that have it, or that
    name a row of dense that has. An NPU shares work out by values, not by rows: the sums of a row that tasks share are
    added up in their order. So results do not change from run to run, nor with the number of cores.

    Differentiable in values (a sampled product of dense matrices) and dense (the product with the transposed matrix,
    whose pattern is sorted anew each time; `SparseDense` keeps it).
    """
    return _select(row_ends, indices, values, dense)(row_ends, indices, values, dense)  # type: ignore[no-any-return]
