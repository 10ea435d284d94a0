"""A few rows times the transpose of a sparse matrix in slices."""

from __future__ import annotations

from mindspore import Tensor

from ms_ascend_ops.custom import Selector

__all__ = ["sliced_sparse_matmul"]


_select = Selector("sliced_sparse_matmul")


def sliced_sparse_matmul(
    x: Tensor, slice_ends: Tensor, indices: Tensor, values: Tensor, group_ends: Tensor, pieces: Tensor
) -> Tensor:
    r"""A few rows times the transpose of a sparse matrix in slices (SELL); for inference.

    .. math::
        y_{ir} = \sum_{p \in pieces_r} \sum_j values_{jp} \, x_{i, indices_{jp}}

    Rows of the matrix are cut into pieces. A slice holds 64 of them side by side, one a lane: its positions are rows of
    `indices` and `values`. `ms_ascend_ops.sliced.SlicedPattern.of` makes the tensors of a matrix.

    Args:
        x: Tensor[float16 | bfloat16 | float32], shape (..., k), k at most 28672.
        slice_ends: Tensor[int32], shape (s,): where each slice ends among the positions, so that the last one is their
            number; s at most 448.
        indices: Tensor[int32], shape (p, 64): the element of x for each value; k where there is none.
        values: Tensor[dtype of x], shape (p, 64).
        group_ends: Tensor[int32], shape (g,): of each 64 rows of the matrix, where they end in `pieces`.
        pieces: Tensor[int32], shape (q, 64): the pieces of each row: lane + 64 * slice; 64 * s where there is none.

    Returns:
        Tensor[dtype of x], shape (..., 64 g): behind the last row of the matrix zeros.

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other; a row of x, or pieces, beyond what the Unified Buffer holds.
        RuntimeError: ends that fall, that are below 0, or whose last is not the number of positions; an index or a
            piece that there cannot be: the kernel stops.

    Products are rounded, and added up in float32, position by position; then the sums of pieces, and the result is
    rounded once. It does not change from run to run, nor with the number of cores. An element of x that no index
    names, NaN or not, changes nothing; one that is NaN or infinite only the rows that have it. No rows of x give an
    empty y, no values zeros.

    Source: Kreutzer et al., A Unified Sparse Matrix Data Format, 2014.
    """
    select = _select(x, slice_ends, indices, values, group_ends, pieces)
    return select(x, slice_ends, indices, values, group_ends, pieces)  # type: ignore[no-any-return]
