"""Products of a matrix of sparse blocks and a dense one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mindspore import Tensor
from mindspore import ops as stock

from ms_ascend_ops.custom import FusedPrimitive, Selector, kernel
from ms_ascend_ops.gradients import needs_gradient, size_of
from ms_ascend_ops.mindspore_versions import zeros_like
from ms_ascend_ops.ops.sparse_matmul import transposed_pattern

__all__ = ["block_sparse_matmul"]

_SIDE = 16


def _bprop(grad: FusedPrimitive) -> Callable[..., Any]:
    product = kernel("block_sparse_matmul")

    def bprop(row_ends, indices, blocks, dense, out, dout):  # type: ignore[no-untyped-def]
        if size_of(dout) == 0:  # kernels would check the pattern, which the product did not read either
            nothing = zeros_like
            return nothing(row_ends), nothing(indices), nothing(blocks), nothing(dense)
        dblocks = grad(dout, row_ends, indices, dense) if needs_gradient(blocks) else zeros_like(blocks)
        ddense = zeros_like(dense)
        if size_of(dense) != 0 and needs_gradient(dense):  # MindSpore may end the process where it slices nothing
            columns = dense[::_SIDE, :1].astype("float32").sum(1).astype("int32")
            ends, rows, order = transposed_pattern(row_ends, indices, columns)
            # In float, which MindSpore's operators for a CPU need.
            transposed = stock.gather(blocks.astype("float32"), order, 0).swapaxes(1, 2).astype(blocks.dtype)
            ddense = product(ends, rows, transposed, dout)
        return zeros_like(row_ends), zeros_like(indices), dblocks, ddense

    return bprop


_select = Selector("block_sparse_matmul", _bprop)


def block_sparse_matmul(row_ends: Tensor, indices: Tensor, blocks: Tensor, dense: Tensor) -> Tensor:
    r"""The product of a matrix of sparse blocks of 16 x 16 (BSR) and a dense one, block by block on the cube.

    .. math::
        Y_i = \sum_{j = end_{i-1}}^{end_i - 1} blocks_j \, Dense_{indices_j}

    with 16 rows of y and of dense each.

    Args:
        row_ends: Tensor[int32], shape (r,): where each row of blocks ends among them, so that the last one is their
            number: `indptr[1:]`.
        indices: Tensor[int32], shape (z,): the column of each block, counted in blocks.
        blocks: Tensor[float16 | bfloat16 | float32], shape (z, 16, 16), row by row.
        dense: Tensor[dtype of blocks], shape (16 c, n).

    Returns:
        Tensor[dtype of blocks], shape (16 r, n).

    Raises:
        TypeError: an input is no tensor, or has another dtype.
        ValueError: shapes that do not fit each other.
        RuntimeError: ends of rows that fall, that are below 0, or whose last is not z; a column that is not below c:
            the kernel stops before it reads anything by them.

    Rows of blocks may be empty, and are 0 then. NaN stays in the rows of blocks that have it, or that name rows of
    dense that have. Products are accumulated in float32 and rounded once. Work is shared out by blocks, and results do
    not change from run to run, nor with the number of cores. Differentiable in blocks and dense.
    """
    return _select(row_ends, indices, blocks, dense)(row_ends, indices, blocks, dense)  # type: ignore[no-any-return]
